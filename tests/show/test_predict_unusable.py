"""Pictures that cannot be used: each has a reason in one line, and no damaged file ends in a traceback."""

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from bench.core.errors import UnusableImage
from bench.show.predict.normalise import normalise
from tests.drawings import fur


def png_of(width, height):
    """Return a damaged PNG whose header claims this size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    data = zlib.compress(b"\0" * 100)
    data = struct.pack(">I", len(data)) + b"IDAT" + data + struct.pack(">I", zlib.crc32(b"IDAT" + data))
    return b"\x89PNG\r\n\x1a\n" + chunk + data


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "there is no such file"),
        (b"", "neither PNG nor JPEG"),
        (b"GIF89a\x01\x00\x01\x00", "neither PNG nor JPEG"),
        (b"a digit", "neither PNG nor JPEG"),
        (png_of(9000, 9000), "9000 x 9000 pixels; allowed are 50 million"),
        (png_of(60000, 60000), "far more pixels; allowed are 50 million"),
        (png_of(0, 10), "cannot be read|neither PNG"),
        (png_of(100, 100), "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_one_line(content, reason, tmp_path):
    path = tmp_path / "it.png"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UnusableImage, match=reason) as caught:
        normalise(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_folder_is_no_picture(tmp_path):
    with pytest.raises(UnusableImage, match="is not a file"):
        normalise(tmp_path)


def encoded(kind):
    out = io.BytesIO()
    image = Image.fromarray((fur(np.random.default_rng(1), (48, 40), 300) * 255).astype(np.uint8))
    image.save(out, kind, exif=Image.Exif())
    return out.getvalue()


FILES = {kind: encoded(kind) for kind in ("PNG", "JPEG")}


@settings(max_examples=250)
@given(
    st.sampled_from(sorted(FILES)),
    st.integers(0, 100_000),
    st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 255)), max_size=4),
)
def test_damaged_files_are_answered_or_named(tmp_path_factory, kind, end, changes):
    content = bytearray(FILES[kind])
    for place, value in changes:
        content[place % len(content)] = value
    path = tmp_path_factory.getbasetemp() / f"damaged.{kind.lower()}"
    path.write_bytes(content[: end % (2 * len(content))])
    reason = ""
    try:
        assert normalise(path).pixels.shape == (28, 28)
    except UnusableImage as error:
        reason = str(error)
    assert "\n" not in reason
    assert reason == "" or str(path) in reason
