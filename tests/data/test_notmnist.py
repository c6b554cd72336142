"""The letters of not-MNIST are read from every local form, and a broken or hostile archive does no harm."""

import io
import itertools
import pickle
import shutil
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

from bench.core.errors import DataCorrupt, DataMissing
from bench.data import notmnist
from bench.data.inventory import list_datasets
from bench.data.manifest import datasets_folder, manifest
from tests.data.small_sets import (
    LETTER_LABELS,
    LETTER_PIXELS,
    LETTERS,
    archive,
    is_eleven,
    letters,
    no_data,
    one_line,
    png,
    public_archive,
)


def test_letters_from_every_form_are_the_same(folder, tmp_path, monkeypatch):
    zipped = tmp_path / "misnamed.dat"
    zipped.write_bytes(archive(public_archive()))
    monkeypatch.setenv("BNN_BENCH_NOTMNIST", str(zipped))
    assert is_eleven(letters())

    with zipfile.ZipFile(zipped) as source:
        for member in source.namelist():
            target = tmp_path / "unpacked" / member
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read(member))
    for place in ("unpacked/bnn-2496246/not-mnist", "unpacked/bnn-2496246", "unpacked"):
        monkeypatch.setenv("BNN_BENCH_NOTMNIST", str(tmp_path / place))
        assert is_eleven(letters())

    images = np.frombuffer(LETTER_PIXELS, np.uint8).reshape(11, 28, 28)
    np.savez(tmp_path / "plain.npz", images=images, labels=np.frombuffer(LETTER_LABELS, np.uint8))
    monkeypatch.setenv("BNN_BENCH_NOTMNIST", str(tmp_path / "plain.npz"))
    assert is_eleven(letters())
    monkeypatch.delenv("BNN_BENCH_NOTMNIST")

    mine = tmp_path / "mine" / "notmnist459"
    mine.mkdir(parents=True)
    shutil.copy(zipped, mine / "2496246.zip")
    assert is_eleven(letters(tmp_path / "mine"))
    assert next(row for row in list_datasets(tmp_path / "mine") if row.optional).where == str(mine / "2496246.zip")


def test_absent_letters_say_exactly_how_to_get_them(monkeypatch, tmp_path):
    place = tmp_path / "datasets"
    shutil.copytree(datasets_folder(), place, ignore=no_data)
    monkeypatch.setenv("BNN_BENCH_DATA", str(place))
    monkeypatch.delenv("BNN_BENCH_NOTMNIST", raising=False)
    with one_line(DataMissing, "python -m bench data fetch notmnist459", "--from PATH", "BNN_BENCH_NOTMNIST=PATH"):
        letters()


def test_a_variable_that_points_nowhere_says_so(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("BNN_BENCH_NOTMNIST", str(tmp_path / "gone.zip"))
    with one_line(DataMissing, "BNN_BENCH_NOTMNIST", "gone.zip", "does not exist"):
        letters()


A_MEMBER = "bnn-2496246/not-mnist/A/x.png"


def with_letter_a(content):
    return archive({**public_archive(), A_MEMBER: content})


def huge_png():
    """A PNG whose header promises 60,000 x 60,000 pixels."""
    header = struct.pack(">II5B", 60_000, 60_000, 8, 0, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    return b"\x89PNG\r\n\x1a\n" + chunk


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a zip file"),
        (b"PK\x03\x04 and no more", "not a zip file"),
        (archive(public_archive())[:-100], "not a zip file"),
        (archive({}), "0 PNG files"),
        (archive({**public_archive(), "x/A/extra.png": b""}), "12 PNG files in folders A-J; expected 11"),
        (with_letter_a(b"not a picture"), "A/x.png: not a PNG of 28x28"),
        (with_letter_a(png(np.zeros((28, 27), np.uint8))), "A/x.png: not a PNG of 28x28"),
        (with_letter_a(huge_png()), "A/x.png: not a PNG of 28x28"),
        (with_letter_a(png(LETTERS["A", "x.png"])[:60]), "A/x.png: broken PNG"),
        (with_letter_a(png(LETTERS["B", "Za.png"])), "SHA-256"),
        (archive(public_archive(), zipfile.ZIP_BZIP2), "compression 12; expected none or deflate"),
        (archive({"images.npy": bytes(50_000), "labels.npy": b""}), "images.npy: more than"),
        (archive({"images.npy": b"", "labels.npy": b""}), "SHA-256"),
    ],
    ids=itertools.count(),
)
def test_each_fault_of_an_archive_has_its_words(folder, monkeypatch, tmp_path, content, words):
    copy = tmp_path / "copy.zip"
    copy.write_bytes(content)
    monkeypatch.setenv("BNN_BENCH_NOTMNIST", str(copy))
    with one_line(DataCorrupt, str(copy), words, "HOW TO GET IT"):
        letters()


def test_a_zip_bomb_is_not_inflated(folder):
    bomb = with_letter_a(bytes(20_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(DataCorrupt, match="more than 65,536 bytes"):
            notmnist.load_archive(bomb, "bomb", manifest("notmnist459"))
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_nothing_is_unpickled_and_nothing_written_outside(folder, monkeypatch, tmp_path):
    marker = tmp_path / "executed"

    class Bomb:
        def __reduce__(self):
            return (open, (str(marker), "w"))

    objects = io.BytesIO()
    np.lib.format.write_array_header_1_0(objects, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    objects.write(pickle.dumps([Bomb()]))
    copy = tmp_path / "deep" / "copy.zip"
    copy.parent.mkdir()
    monkeypatch.setenv("BNN_BENCH_NOTMNIST", str(copy))
    for members in (
        {"images.npy": objects.getvalue(), "labels.npy": objects.getvalue()},
        {**public_archive(), "../executed": b"", str(marker): b"", "../../A/executed.png": b""},
    ):
        copy.write_bytes(archive(members))
        with pytest.raises(DataCorrupt):
            letters()
        assert not marker.exists()
        assert [path.name for path in copy.parent.iterdir()] == ["copy.zip"]
