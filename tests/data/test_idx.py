"""Broken IDX files: one line that says what is wrong, without reading more than a whole file has."""

import gzip
import itertools
import os
import struct
import tracemalloc

import numpy as np
import pytest

from bench.core.errors import DataCorrupt
from bench.data.files import decode_idx, read_idx
from tests.data.small_sets import IMAGES, LABELS, PIXELS, fashion, one_line, put_fashion, sha256


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
