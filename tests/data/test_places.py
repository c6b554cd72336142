"""Where data sets are looked for; one line for missing ones, broken manifests and broken IDX files."""

import gzip
import itertools
import os
import shutil
import struct
import tracemalloc

import numpy as np
import pytest

from bench.core.errors import ConfigError, DataCorrupt, DataMissing
from bench.data.files import decode_idx, find_in, read_idx
from bench.data.inventory import list_datasets, verify
from bench.data.manifest import DataFile
from bench.data.splits import load_ood, load_split
from tests.data.small_sets import IMAGES, LABELS, PIXELS, fashion, one_line, put_fashion, sha256


def test_a_given_folder_comes_before_the_repository_where_it_has_the_set(folder, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    assert fashion(mine).x.shape == (2, 784)
    put_fashion(mine / "fashion_mnist", images=b"broken")
    with pytest.raises(DataCorrupt, match="mine"):
        fashion(mine)


def test_a_folder_of_torchvision_can_be_given_unpacked(folder, tmp_path):
    place = tmp_path / "root" / "FashionMNIST" / "raw"
    place.mkdir(parents=True)
    (place / "images").write_bytes(IMAGES)
    (place / "labels").write_bytes(LABELS)
    shutil.rmtree(folder / "fashion_mnist")
    assert np.array_equal((fashion(tmp_path / "root").x.numpy() * 255).round().reshape(2, 28, 28), PIXELS)


def test_a_given_folder_that_is_none_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for wrong in (tmp_path / "file", tmp_path / "nothing"):
        with one_line(ConfigError, str(wrong), "is not a folder"):
            load_split("test10k", 0, wrong)


def test_a_missing_set_says_how_to_get_it(folder):
    shutil.rmtree(folder / "fashion_mnist")
    with one_line(DataMissing, "fashion_mnist", "images.gz", str(folder), "HOW TO GET IT"):
        fashion()
    with one_line(DataMissing, "mnist", "python -m bench data fetch mnist"):
        load_split("test10k", 0)


def test_a_data_folder_without_manifests_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("BNN_BENCH_DATA", str(tmp_path))
    with one_line(ConfigError, f"BNN_BENCH_DATA={tmp_path}", "no mnist.toml"):
        list_datasets()


HEAD = "title='t'\nsource='s'\nlicence='l'\noptional=false\nhow='h'\nkind='idx'\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("title = 'only'", "letters.toml: 'source' is missing; also: 'licence' is missing; also: "),
        ("kind = 'zip'", "unknown value in manifest of a data set"),
        ("files.a = {shape = [0], sha256 = ''}", "files.a.shape #1: 0 given; give a whole number >= 1"),
        ("files.a = {shape = [1], sha256 = ''}", "files.a.sha256: '' given; give a text of 64 hexadecimal digits"),
        (HEAD, "a generated set has a shape and no files, any other has files"),
        (
            f"{HEAD}files.other = {{shape = [1], sha256 = '{'0' * 64}'}}",
            "unknown file in the manifest of letters: 'letters-images'; known: other",
        ),
    ],
)
def test_a_broken_manifest_is_one_line(folder, text, problem):
    (folder / "letters.toml").write_text(text)
    with one_line(ConfigError, problem):
        load_ood("letters", 0)


def test_lists_and_checks_go_on_over_faults(folder):
    put_fashion(folder / "fashion_mnist", labels=b"")
    rows = {row.name: row for row in list_datasets()}
    assert {name: row.present for name, row in rows.items()} == {
        "mnist": False,
        "noise_gaussian": True,
        "noise_uniform": True,
        "fashion_mnist": True,
        "letters": False,
        "notmnist459": False,
        "fashion_train": False,
    }
    checks = {(check.name, check.file): check for check in verify()}
    assert checks["fashion_mnist", "t10k-images"].ok
    broken = checks["fashion_mnist", "t10k-labels"]
    assert (broken.ok, broken.missing, broken.optional) == (False, False, False)
    assert "an empty file" in broken.problem
    absent = checks["notmnist459", "images and labels"]
    assert (absent.ok, absent.missing, absent.optional) == (False, True, True)
    assert (checks["mnist", "t10k-images"].missing, checks["mnist", "t10k-images"].optional) == (True, False)


def test_a_folder_that_is_given_is_checked_alone(folder, tmp_path):
    put_fashion(folder / "fashion_mnist")
    with pytest.raises(ConfigError, match="has no file of any data set"):
        verify(data_dir=tmp_path)
    (missing, *_) = verify(["mnist"], tmp_path)
    assert (missing.ok, missing.missing, missing.path) == (False, True, "")
    put_fashion(tmp_path / "fashion_mnist")
    there = {check.file: check.path for check in verify(data_dir=tmp_path) if check.ok}
    assert there
    assert all(path.startswith(str(tmp_path)) for path in there.values())


def test_a_name_that_7_zip_writes_is_found(tmp_path):
    known = DataFile(gz="t10k-images-idx3-ubyte.gz", shape=(1,), sha256="0" * 64)
    assert find_in([tmp_path], known) is None
    dotted = tmp_path / "t10k-images.idx3-ubyte"
    dotted.write_bytes(b"")
    assert find_in([tmp_path], known) == dotted


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 28, 28)])
def test_what_is_written_is_read_compressed_or_not(shape):
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    raw = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + array.tobytes()
    for content in (raw, gzip.compress(raw)):
        assert np.array_equal(decode_idx(content, "here", shape, sha256(raw)), array)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"\x89PNG\r\n", "starts with 89 50 4e 47"),
        (b"\0\0\x0d\x01\0\0\0\1....", "expected an IDX file of bytes"),
        (b"\0\0\x08\x04" + 4 * b"\0\0\0\1" + b"1", "01 to 03"),
        (b"\0\0\x08\x03\0\0", "an IDX header of 6 bytes; expected 16"),
        (IMAGES[:-1], "1,567 bytes of content; expected 1,568"),
        (IMAGES + b"x", "more than 1,584 bytes"),
        (LABELS, "dimensions [2]; expected [2, 28, 28]"),
        (struct.pack(">HBB3I", 0, 8, 3, 2, 0, 28), "no empty dimension"),
        (struct.pack(">HBB3I", 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1), "0 bytes of content; expected 79,228,162,"),
        (gzip.compress(IMAGES)[:-9], "gzip cut short"),
        (gzip.compress(IMAGES)[:-8] + bytes(8), "broken gzip"),
        (gzip.compress(IMAGES) + b"tail", "4 bytes after the gzip stream; expected none"),
        (gzip.compress(IMAGES)[:10] + b"\xff" * 40, "broken gzip (Error -3"),
        (IMAGES[:-1] + bytes([IMAGES[-1] ^ 1]), "SHA-256"),
    ],
    ids=itertools.count(),
)
def test_each_fault_of_a_file_has_its_words(content, words, tmp_path):
    path = tmp_path / "file.gz"
    path.write_bytes(content)
    with one_line(DataCorrupt, str(path), words, "REMEDY"):
        read_idx(path, PIXELS.shape, sha256(IMAGES), "REMEDY")


def test_a_decompression_bomb_is_not_inflated():
    bomb = gzip.compress(bytes(20_000_000))  # 20 kB
    tracemalloc.start()
    try:
        with pytest.raises(DataCorrupt, match="more than"):
            decode_idx(bomb, "bomb", (10, 28, 28), "")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_huge_file_is_not_read_whole(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk
    with pytest.raises(DataCorrupt, match="more than"):
        read_idx(path, (10, 28, 28), "")


@pytest.mark.parametrize("make", ["folder", "pipe", "dangling link", "loop"])
def test_what_is_not_a_file_is_not_read(make, folder):
    path = folder / "fashion_mnist" / "images.gz"
    path.unlink()
    if make == "folder":
        path.mkdir()
    elif make == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path if make == "loop" else folder / "nowhere")
    words = {"folder": "it is a folder", "pipe": "it is not a regular file"}
    with one_line(DataCorrupt, str(path), words.get(make, "cannot be read"), "HOW TO GET IT"):
        fashion()


def test_a_file_that_changes_after_it_was_read_is_checked_again(folder):
    fashion()
    put_fashion(folder / "fashion_mnist", images=gzip.compress(IMAGES[:-1] + b"?"))
    with pytest.raises(DataCorrupt, match="SHA-256"):
        fashion()
