"""Broken, hostile and absent data: one line that says what to do; never a traceback, a hang or half a file."""

import gzip
import hashlib
import http.server
import io
import itertools
import os
import pickle
import re
import shutil
import struct
import threading
import time
import tracemalloc
import zipfile
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from bench.core import files
from bench.core.errors import BenchError, ConfigError, DataCorrupt, DataMissing, MissingFramework, StoreError
from bench.data import fetching, notmnist, torchvision_shim
from bench.data.fetching import fetch
from bench.data.idx import decode_idx, read_idx
from bench.data.inventory import list_datasets, verify
from bench.data.manifest import datasets_folder, manifest
from bench.data.splits import load_ood, load_split

FUZZ = settings(max_examples=150, deadline=None, derandomize=True)
REAL = datasets_folder()

# Two images of 28x28 and their labels, in the place of Fashion-MNIST.
PIXELS = np.random.default_rng(0).integers(0, 256, (2, 28, 28), dtype=np.uint8)
IMAGES = struct.pack(">HBB3I", 0, 8, 3, 2, 28, 28) + PIXELS.tobytes()
LABELS = struct.pack(">HBBI", 0, 8, 1, 2) + bytes([4, 7])

# Eleven letters, two of them B, in the place of not-MNIST; the names sort unlike the order of their creation.
LETTERS = {
    (letter, name): np.random.default_rng([ord(letter), len(name)]).integers(0, 256, (28, 28), dtype=np.uint8)
    for letter, name in [("B", "b=.png"), ("B", "Za.png"), *((letter, "x.png") for letter in "JIHGFEDCA")]
}
ORDER = [("A", "x.png"), ("B", "Za.png"), ("B", "b=.png"), *((letter, "x.png") for letter in "CDEFGHIJ")]
LETTER_PIXELS = b"".join(LETTERS[key].tobytes() for key in ORDER)
LETTER_LABELS = bytes("ABCDEFGHIJ".index(letter) for letter, _ in ORDER)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def archive(members, compression=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return file.getvalue()


def public_archive():
    letters = {f"bnn-2496246/not-mnist/{letter}/{name}": png(LETTERS[letter, name]) for letter, name in LETTERS}
    return {"bnn-2496246/bnn.ipynb": b"{}", "bnn-2496246/LICENSE": b"", **letters}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder with the real manifests, but for two small sets in the place of two large ones."""
    made = tmp_path / "datasets"
    shutil.copytree(REAL, made, ignore=lambda _, names: [name for name in names if not name.endswith(".toml")])
    (made / "fashion_mnist.toml").write_text(
        f"""
        title = "two"\nsource = "here"\nlicence = "none"\noptional = false\nkind = "idx"\nhow = "HOW TO GET IT"
        torchvision = "FashionMNIST"
        files.t10k-images = {{ gz = "images.gz", shape = [2, 28, 28], sha256 = "{sha256(IMAGES)}" }}
        files.t10k-labels = {{ gz = "labels.gz", shape = [2], sha256 = "{sha256(LABELS)}" }}
        """
    )
    (made / "notmnist459.toml").write_text(
        f"""
        title = "eleven"\nsource = "there"\nlicence = "none"\noptional = true\nhow = "HOW TO GET IT"
        kind = "png-archive"
        url = "http://127.0.0.1:9/nothing-listens-here.zip"
        files.images = {{ shape = [11, 28, 28], sha256 = "{sha256(LETTER_PIXELS)}" }}
        files.labels = {{ shape = [11], sha256 = "{sha256(LETTER_LABELS)}" }}
        """
    )
    put_fashion(made / "fashion_mnist")
    monkeypatch.setenv("BNN_BENCH_DATA", str(made))
    monkeypatch.delenv("BNN_BENCH_NOTMNIST", raising=False)
    monkeypatch.setattr(fetching, "RETRY_WAIT_S", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return made


def put_fashion(place, images=None, labels=None):
    place.mkdir(parents=True, exist_ok=True)
    (place / "images.gz").write_bytes(gzip.compress(IMAGES) if images is None else images)
    (place / "labels.gz").write_bytes(gzip.compress(LABELS) if labels is None else labels)


def one_line(caught, *words):
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
    return True


def result_or_line(function, *given, **named):
    """Return (result, None) or (None, the line of the error); any other error passes through."""
    try:
        return function(*given, **named), None
    except DataCorrupt as error:
        if "\n" in str(error):
            raise AssertionError(f"more than one line: {error}") from error
        return None, str(error)


def fashion(data_dir=None):
    return load_ood("fashion_mnist", 0, data_dir)


def letters(data_dir=None):
    return load_ood("notmnist459", 0, data_dir)


def is_eleven(split):
    return np.array_equal((split.x * 255).round().byte().numpy().tobytes(), LETTER_PIXELS)


# The IDX reader


@FUZZ
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=3), packed=st.booleans(), seed=st.integers(0, 9))
def test_what_is_written_is_read(shape, packed, seed):
    array = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    raw = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + array.tobytes()
    given_bytes = gzip.compress(raw) if packed else raw
    assert np.array_equal(decode_idx(given_bytes, "here", shape, sha256(raw)), array)
    assert np.array_equal(decode_idx(given_bytes, "here"), array)


def idx_like():
    """Bytes, IDX headers before bytes, and both compressed, whole or cut."""
    header = st.builds(
        lambda kind, dims, shape: bytes([0, 0, kind, dims]) + struct.pack(f">{len(shape)}I", *shape),
        st.sampled_from([8, 8, 8, 9, 13]),
        st.integers(0, 5),
        st.lists(st.one_of(st.integers(0, 4), st.integers(0, 2**32 - 1)), max_size=4),
    )
    plain = st.one_of(st.binary(max_size=40), st.builds(bytes.__add__, header, st.binary(max_size=40)))
    packed = st.builds(lambda raw, keep: gzip.compress(raw, mtime=0)[: keep or None], plain, st.integers(0, 60))
    tailed = st.builds(bytes.__add__, packed, st.binary(max_size=5))
    return st.one_of(plain, packed, tailed, st.builds(b"\x1f\x8b".__add__, st.binary(max_size=40)))


@FUZZ
@given(content=idx_like(), shape=st.none() | st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_any_bytes_are_an_array_or_one_line(content, shape):
    array, error = result_or_line(decode_idx, content, "some/file", shape, remedy="REMEDY")
    if array is None:
        assert re.fullmatch("some/file: .*; expected .*REMEDY", error)
    else:
        assert array.dtype == np.uint8
        assert array.size > 0
        assert shape is None or array.shape == tuple(shape)


@FUZZ
@given(st.data())
def test_no_changed_byte_passes(draw):
    """A flipped byte anywhere in the compressed file changes nothing that is read, or is found."""
    whole = gzip.compress(IMAGES, mtime=0)
    at, value = draw.draw(st.integers(0, len(whole) - 1)), draw.draw(st.integers(1, 255))
    changed = whole[:at] + bytes([whole[at] ^ value]) + whole[at + 1 :]
    array, _ = result_or_line(decode_idx, changed, "file", PIXELS.shape, sha256(IMAGES))
    assert array is None or np.array_equal(array, PIXELS)  # gzip's header has bytes without meaning, such as the time


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
        (gzip.compress(bytes(10_000_000)), "more than 1,584 bytes of content"),
        (IMAGES[:-1] + bytes([IMAGES[-1] ^ 1]), "SHA-256"),
    ],
    ids=itertools.count(),
)
def test_each_fault_of_a_file_has_its_words(content, words, tmp_path):
    path = tmp_path / "file.gz"
    path.write_bytes(content)
    with pytest.raises(DataCorrupt) as caught:
        read_idx(path, PIXELS.shape, sha256(IMAGES), "REMEDY")
    assert one_line(caught, str(path), words, "REMEDY")


def test_a_decompression_bomb_is_not_inflated():
    bomb = gzip.compress(bytes(20_000_000))  # 20 kB
    tracemalloc.start()
    try:
        with pytest.raises(DataCorrupt, match="more than"):
            decode_idx(bomb, "bomb", (10, 28, 28))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_huge_file_is_not_read_whole(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk
    with pytest.raises(DataCorrupt, match="more than"):
        read_idx(path, (10, 28, 28))


# Files that are not what their name says


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
    with pytest.raises(DataCorrupt) as caught:
        fashion()
    words = {"folder": "it is a folder", "pipe": "it is not a regular file"}
    assert one_line(caught, str(path), words.get(make, "cannot be read"), "HOW TO GET IT")


def test_a_file_without_permission_says_so(folder, monkeypatch):
    path = folder / "fashion_mnist" / "images.gz"
    path.chmod(0)
    if os.access(path, os.R_OK):  # the superuser may read everything

        def refuse(self, *given, **named):
            if self == path:
                raise PermissionError(13, "Permission denied", str(self))
            return opened(self, *given, **named)

        opened = type(path).open
        monkeypatch.setattr(type(path), "open", refuse)
    with pytest.raises(DataCorrupt) as caught:
        fashion()
    assert one_line(caught, str(path), "Permission denied", "HOW TO GET IT")
    assert [check.problem for check in verify(["fashion_mnist"]) if "Permission denied" in check.problem]


def test_a_file_that_changes_after_it_was_read_is_checked_again(folder):
    fashion()
    put_fashion(folder / "fashion_mnist", images=gzip.compress(IMAGES[:-1] + b"?"))
    with pytest.raises(DataCorrupt, match="SHA-256"):
        fashion()


# Where data are looked for


def test_a_given_folder_comes_before_the_repository(folder, tmp_path):
    put_fashion(tmp_path / "mine" / "fashion_mnist", images=b"broken")
    with pytest.raises(DataCorrupt, match="mine"):
        fashion(tmp_path / "mine")
    assert fashion().x.shape == (2, 784)


def test_a_given_folder_without_the_set_leaves_it_to_the_repository(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    assert fashion(tmp_path / "empty").x.shape == (2, 784)


@pytest.mark.parametrize("packed", [True, False])
def test_a_folder_of_torchvision_can_be_given(folder, tmp_path, packed):
    place = tmp_path / "root" / "FashionMNIST" / "raw"
    shutil.copytree(folder / "fashion_mnist", place)
    if not packed:
        for name, content in (("images", IMAGES), ("labels", LABELS)):
            (place / f"{name}.gz").unlink()
            (place / name).write_bytes(content)
    shutil.rmtree(folder / "fashion_mnist")
    assert np.array_equal((fashion(tmp_path / "root").x.numpy() * 255).round().reshape(2, 28, 28), PIXELS)


def test_a_given_folder_that_is_none_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for wrong in (tmp_path / "file", tmp_path / "nothing"):
        with pytest.raises(ConfigError) as caught:
            load_split("test10k", 0, wrong)
        assert one_line(caught, str(wrong), "is not a folder")


def test_a_missing_set_says_how_to_get_it(folder):
    shutil.rmtree(folder / "fashion_mnist")
    with pytest.raises(DataMissing) as caught:
        fashion()
    assert one_line(caught, "fashion_mnist", "images.gz", str(folder), "HOW TO GET IT")
    with pytest.raises(DataMissing) as caught:
        load_split("test10k", 0)
    assert one_line(caught, "mnist", "python -m bench data fetch mnist")


def test_a_data_folder_without_manifests_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("BNN_BENCH_DATA", str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        list_datasets()
    assert one_line(caught, f"BNN_BENCH_DATA={tmp_path}", "no mnist.toml")


@pytest.mark.parametrize(
    "text",
    ["title = ", "title = 'only'", "files = 3", "kind = 'zip'\nfiles.a = { shape = [1], sha256 = '' }", "\udcff"],
)
def test_a_broken_manifest_is_one_line(folder, text):
    (folder / "letters.toml").write_text(text, errors="surrogateescape")
    with pytest.raises(ConfigError) as caught:
        load_ood("letters", 0)
    assert one_line(caught, "letters.toml", "restore it")


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
    }
    checks = {(check.name, check.file): check for check in verify()}
    assert checks["fashion_mnist", "t10k-images"].ok
    broken = checks["fashion_mnist", "t10k-labels"]
    assert (broken.ok, broken.missing, broken.optional) == (False, False, False)
    assert "an empty file" in broken.problem
    absent = checks["notmnist459", "images and labels"]
    assert (absent.ok, absent.missing, absent.optional) == (False, True, True)
    assert (checks["mnist", "t10k-images"].missing, checks["mnist", "t10k-images"].optional) == (True, False)


# not-MNIST from any local form


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
    shutil.copytree(REAL, place, ignore=lambda _, names: [name for name in names if not name.endswith(".toml")])
    monkeypatch.setenv("BNN_BENCH_DATA", str(place))
    monkeypatch.delenv("BNN_BENCH_NOTMNIST", raising=False)
    with pytest.raises(DataMissing) as caught:
        letters()
    assert one_line(caught, "python -m bench data fetch notmnist459", "--from PATH", "BNN_BENCH_NOTMNIST=PATH")


def test_a_variable_that_points_nowhere_says_so(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("BNN_BENCH_NOTMNIST", str(tmp_path / "gone.zip"))
    with pytest.raises(DataMissing) as caught:
        letters()
    assert one_line(caught, "BNN_BENCH_NOTMNIST", "gone.zip", "does not exist")


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
        (with_letter_a(bytes(70_000_000)), "more than 65,536 bytes"),
        (with_letter_a(png(LETTERS["B", "Za.png"])), "SHA-256"),
        (archive(public_archive(), zipfile.ZIP_BZIP2), "compression 12; expected none or deflate"),
        (archive({"images.npy": bytes(50_000_000), "labels.npy": b""}), "images.npy: more than"),
        (archive({"images.npy": b"", "labels.npy": b""}), "SHA-256"),
    ],
    ids=itertools.count(),
)
def test_each_fault_of_an_archive_has_its_words(folder, monkeypatch, tmp_path, content, words):
    copy = tmp_path / "copy.zip"
    copy.write_bytes(content)
    monkeypatch.setenv("BNN_BENCH_NOTMNIST", str(copy))
    with pytest.raises(DataCorrupt) as caught:
        letters()
    assert one_line(caught, str(copy), words, "HOW TO GET IT")


def test_a_zip_bomb_is_not_inflated(eleven):
    bomb = with_letter_a(bytes(20_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(DataCorrupt, match="more than 65,536 bytes"):
            notmnist.load_archive(bomb, "bomb", eleven)
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


@pytest.fixture(scope="module")
def eleven():
    known = SimpleNamespace(shape=(11, 28, 28), sha256=sha256(LETTER_PIXELS), key="images")
    labels = SimpleNamespace(shape=(11,), sha256=sha256(LETTER_LABELS), key="labels")
    table = {"images": known, "labels": labels}
    return SimpleNamespace(name="eleven", how="HOW", n_rows=11, files=(known, labels), file=table.__getitem__)


@FUZZ
@given(edits=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=6), stored=st.booleans())
def test_any_damage_to_an_archive_is_harmless_or_one_line(eleven, edits, stored):
    whole = bytearray(archive(public_archive(), zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED))
    for place, value in edits:
        whole[int(place * (len(whole) - 1))] = value
    arrays, _ = result_or_line(notmnist.load_archive, bytes(whole), "copy", eleven)
    assert arrays is None or arrays[0].tobytes() == LETTER_PIXELS


@FUZZ
@given(edits=st.lists(st.tuples(st.integers(24, 900), st.integers(0, 255)), min_size=1, max_size=4))
def test_any_damage_to_a_picture_is_harmless_or_one_line(eleven, edits):
    """The zip's own checksum is right here, so that the damage reaches the PNG reader."""
    whole = bytearray(png(LETTERS["A", "x.png"]))
    for place, value in edits:
        whole[min(place, len(whole) - 1)] = value
    arrays, _ = result_or_line(notmnist.load_archive, with_letter_a(bytes(whole)), "copy", eleven)
    assert arrays is None or arrays[0].tobytes() == LETTER_PIXELS


# Fetching


class Server(http.server.ThreadingHTTPServer):
    """Serves bytes by path; a list is served one entry a request, its last entry for ever; a number is a status."""

    daemon_threads = True

    def __init__(self, answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.asked = answers, []

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        answer = self.server.answers.get(self.path.lstrip("/"), 404)
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        self.send_response(answer if isinstance(answer, int) else 200)
        self.end_headers()
        if answer in (b"endless", b"drip"):
            try:
                for _ in range(100 if answer == b"drip" else 1 << 20):
                    self.wfile.write(bytes(65536 if answer == b"endless" else 1))
                    time.sleep(0.1 if answer == b"drip" else 0)
            except OSError:
                return
        if isinstance(answer, bytes):
            self.wfile.write(answer)

    def log_message(self, *given):
        pass


@pytest.fixture
def serve(monkeypatch):
    servers = []

    def start(answers):
        server = Server(answers)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        mirror = SimpleNamespace(mirrors=[server.address + "down/", server.address])
        monkeypatch.setattr(fetching, "import_datasets", lambda: SimpleNamespace(FashionMNIST=mirror))
        return server

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_fetch_tries_mirrors_again_until_the_content_is_right(folder, serve):
    images, labels = gzip.compress(IMAGES, mtime=0), gzip.compress(LABELS, mtime=0)
    shutil.rmtree(folder / "fashion_mnist")
    server = serve({"images.gz": [503, images[:-5], images], "labels.gz": labels})
    assert fetch("fashion_mnist") == [folder / "fashion_mnist" / f"{name}.gz" for name in ("images", "labels")]
    # Three attempts at two mirrors for the images, the first attempt's two mirrors for the labels.
    assert server.asked == ["/down/images.gz", "/images.gz"] * 3 + ["/down/labels.gz", "/labels.gz"]
    assert (folder / "fashion_mnist" / "images.gz").read_bytes() == images
    assert fashion().x.shape == (2, 784)


def test_what_is_intact_is_not_fetched_and_what_is_broken_is_replaced(folder, serve):
    server = serve({"labels.gz": gzip.compress(LABELS)})
    put_fashion(folder / "fashion_mnist", labels=b"broken")
    fetch("fashion_mnist")
    assert server.asked == ["/down/labels.gz", "/labels.gz"]
    assert fashion().x.shape == (2, 784)
    (aside,) = (folder / "fashion_mnist").glob("labels.gz.*.untrusted")
    assert aside.read_bytes() == b"broken"


@pytest.mark.parametrize(
    "answer", [b"endless", gzip.compress(bytes(10**7)), b"<html>log in</html>", b"", 404], ids=itertools.count()
)
def test_a_bad_download_leaves_nothing_behind(folder, serve, answer):
    shutil.rmtree(folder / "fashion_mnist")
    serve({"images.gz": answer})
    with pytest.raises(DataMissing) as caught:
        fetch("fashion_mnist")
    assert one_line(caught, "3 attempts", "images.gz", "--from PATH")
    assert not (folder / "fashion_mnist").exists()


def test_a_download_that_drips_ends(folder, serve, monkeypatch):
    """A byte now and then never lets the connection fall silent, nor fills a chunk."""
    monkeypatch.setattr(fetching, "DOWNLOAD_S", 0.2)
    monkeypatch.setattr(fetching, "ATTEMPTS", 1)
    shutil.rmtree(folder / "fashion_mnist")
    serve({"images.gz": b"drip", "down/images.gz": b"drip"})
    start = time.monotonic()
    with pytest.raises(DataMissing, match="not finished within"):
        fetch("fashion_mnist")
    assert time.monotonic() - start < 5


def test_a_slow_download_ends(folder, serve, monkeypatch):
    monkeypatch.setattr(fetching, "DOWNLOAD_S", -1.0)
    shutil.rmtree(folder / "fashion_mnist")
    serve({"images.gz": gzip.compress(IMAGES)})
    with pytest.raises(DataMissing, match="not finished within"):
        fetch("fashion_mnist")


def test_without_a_network_a_fetch_is_one_line(folder):
    with pytest.raises(DataMissing) as caught:  # nothing listens at the manifest's address
        fetch("notmnist459")
    assert one_line(caught, "Connection refused", "--from PATH")
    assert not (folder / "notmnist459").exists()


def test_the_public_archive_is_fetched_decoded_and_stored(folder, serve):
    server = serve({"a.zip": archive(public_archive())})
    text = (folder / "notmnist459.toml").read_text()
    (folder / "notmnist459.toml").write_text(
        text.replace("http://127.0.0.1:9/nothing-listens-here.zip", server.address + "a.zip")
    )
    (stored,) = fetch("notmnist459")
    assert stored == folder / "notmnist459" / "notmnist459.npz"
    assert is_eleven(letters())
    with np.load(stored, allow_pickle=False) as arrays:  # what others can read too
        assert arrays["images"].tobytes() == LETTER_PIXELS
        assert arrays["labels"].tobytes() == LETTER_LABELS
    assert fetch("notmnist459") == [stored]
    assert server.asked == ["/a.zip"]


def test_a_local_copy_needs_no_network(folder, tmp_path):
    shutil.move(folder / "fashion_mnist", tmp_path / "copy")
    fetch("fashion_mnist", source=tmp_path / "copy")
    assert fashion().x.shape == (2, 784)

    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "images").write_bytes(IMAGES)
    (tmp_path / "plain" / "labels").write_bytes(LABELS)
    paths = fetch("fashion_mnist", dest=tmp_path / "other", source=tmp_path / "plain")
    assert [path.parent for path in paths] == [tmp_path / "other" / "fashion_mnist"] * 2
    assert np.array_equal(read_idx(paths[0], PIXELS.shape, sha256(IMAGES)), PIXELS)

    (tmp_path / "letters.zip").write_bytes(archive(public_archive()))
    fetch("notmnist459", source=tmp_path / "letters.zip")
    assert is_eleven(letters())


def test_a_bad_local_copy_is_refused(folder, tmp_path):
    shutil.rmtree(folder / "fashion_mnist")
    for name in ("fashion_mnist", "notmnist459"):
        with pytest.raises(ConfigError, match="does not exist"):
            fetch(name, source=tmp_path / "nothing")
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(DataMissing) as caught:
            fetch(name, source=tmp_path / "empty")
        assert one_line(caught, str(tmp_path / "empty"))
    put_fashion(tmp_path / "bad", images=gzip.compress(IMAGES[:-1] + b"?"))
    with pytest.raises(DataCorrupt) as caught:
        fetch("fashion_mnist", source=tmp_path / "bad")
    assert one_line(caught, "SHA-256", "another copy")
    assert not (folder / "fashion_mnist").exists()


def test_a_generated_set_has_nothing_to_fetch(folder):
    assert fetch("noise_gaussian") == []


def test_a_set_without_a_public_address_says_how_to_get_it(folder):
    with pytest.raises(DataMissing) as caught:
        fetch("letters")
    assert one_line(caught, "tools/make_letters.py")


@pytest.mark.parametrize("fault", ["a file in the way", "disk full"])
def test_what_cannot_be_written_is_one_line_and_leaves_no_part(folder, tmp_path, monkeypatch, fault):
    shutil.move(folder / "fashion_mnist", tmp_path / "copy")
    target = folder / "fashion_mnist"
    if fault == "disk full":

        def full(handle):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(files.os, "fsync", full)
    else:
        target.write_bytes(b"")
    with pytest.raises(StoreError) as caught:
        fetch("fashion_mnist", source=tmp_path / "copy")
    assert one_line(caught, str(target), "cannot write", "No space left" if fault == "disk full" else "exists")
    assert fault != "disk full" or list(target.iterdir()) == []


# torchvision


def test_without_torchvision_the_mirrors_are_unknown_and_all_else_works(folder, monkeypatch):
    monkeypatch.setattr(torchvision_shim.importlib.util, "find_spec", lambda name: None)
    assert fashion().x.shape == (2, 784)
    shutil.rmtree(folder / "fashion_mnist")
    with pytest.raises(MissingFramework) as caught:
        fetch("fashion_mnist")
    assert one_line(caught, "bnn-uncertainty-bench[torchvision]", "--from")


def test_a_torchvision_that_does_not_import_is_one_line(monkeypatch):
    def fail(name):
        raise RuntimeError("operator torchvision::roi_align does not exist\nand more")

    spec = SimpleNamespace(submodule_search_locations=[])
    monkeypatch.setattr(torchvision_shim.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(torchvision_shim.importlib, "import_module", fail)
    with pytest.raises(MissingFramework) as caught:
        torchvision_shim.import_datasets()
    assert one_line(caught, "roi_align", "made for torch")


def test_torchvision_knows_the_files_of_the_manifests():
    if torchvision_shim.importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    for name in ("mnist", "fashion_mnist"):
        known = manifest(name)
        data_set = getattr(torchvision_shim.import_datasets(), known.torchvision)
        assert {file.gz for file in known.files.values()} <= {resource for resource, _ in data_set.resources}
        assert all(mirror.startswith("http") and mirror.endswith("/") for mirror in data_set.mirrors)


def test_every_error_of_this_package_ends_in_one_line():
    for error in (ConfigError, DataCorrupt, DataMissing, MissingFramework):
        assert issubclass(error, BenchError)
