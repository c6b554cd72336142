"""Pictures that have no answer or may mislead: files that cannot be used, pictures without one digit."""

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from bench.core.errors import UnusableImage
from bench.data.splits import load_split
from bench.show.predict.pictures import normalise
from tests.drawings import GREY, THREE, as_bytes, fur, on_page, seen, stored, strokes


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
        (None, "No such file"),
        (b"", "cannot identify image file"),
        (b"GIF89a\x01\x00\x01\x00", "cannot identify image file"),
        (b"a digit", "cannot identify image file"),
        (png_of(9000, 9000), "9000 x 9000 pixels; give a PNG, JPEG or image of at most 50 million pixels"),
        (png_of(60000, 60000), "of at most 50 million pixels"),
        (png_of(0, 10), "cannot be read"),
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


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros(784), r"has shape \(784,\) and numbers of float64; give .*\[H, W\]"),
        (np.zeros((28, 28, 5)), "Cannot handle this data type"),
        (np.zeros((0, 28)), "zero-size array"),
        (np.full((28, 28), 255.0), "of bytes or of 0 to 1"),
        (np.zeros((28, 28), int), "of bytes"),
        (np.full((28, 28), np.nan), "of bytes or of 0 to 1"),
        (np.full((28, 28), -1.0), "of bytes or of 0 to 1"),
        (np.zeros((28, 28), np.uint16), "of bytes"),
        (Image.new("L", (0, 28)), "has 0 x 28 pixels"),
        (np.zeros((28, 28)), "blank"),
    ],
)
def test_an_array_that_is_no_picture_is_named(array, reason):
    with pytest.raises(UnusableImage, match=f"^picture 3: .*{reason}"):
        normalise(array, "picture 3")


def test_a_folder_is_no_picture(tmp_path):
    with pytest.raises(UnusableImage, match="Is a directory"):
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


@pytest.mark.parametrize(
    "pixels",
    [
        np.ones((50, 60)),
        np.zeros((50, 60)),
        np.full((1, 1), 0.5),
        np.linspace(0.3, 0.9, 3000).reshape(50, 60),  # light that falls unevenly on nothing
        np.random.default_rng(0).normal(0.8, 0.02, (200, 200)),  # grain
        on_page(np.ones((2, 2)), (50, 50), (20, 20)),  # a dot
    ],
)
def test_blank_pages_are_blank(pixels):
    with pytest.raises(UnusableImage, match="blank"):
        seen(np.repeat(pixels[..., None], 3, axis=2))


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_one_colour_that_stands_for_nothing_is_the_page(mode, tmp_path):
    """A PNG may declare white transparent. Nearly white pixels at soft edges of ink are then no holes in a page."""
    paper = Image.fromarray(GREY).convert(mode)
    key = 255 if mode == "L" else (255, 255, 255)
    plain = stored(tmp_path, paper, "plain.png")
    keyed = stored(tmp_path, paper, "keyed.png", transparency=key)
    with Image.open(tmp_path / "keyed.png") as image:
        assert image.info["transparency"] == key
    np.testing.assert_array_equal(plain.pixels, keyed.pixels)


def test_transparent_all_over_is_blank(tmp_path):
    with pytest.raises(UnusableImage, match="blank"):
        stored(tmp_path, Image.new("RGBA", (40, 40), (0, 0, 0, 0)))


# remarks


def remarks(grey):
    return normalise(as_bytes(grey)).remarks


def test_shapes_that_stand_apart_have_a_remark():
    """Two bars of 40 x 10 pixels side by side: 40 pixels become 20, and an empty column parts bars 4 pixels apart."""
    page = np.ones((120, 120))
    page[20:60, 20:30] = 0
    assert remarks(page) == ()
    near, apart, speck = page.copy(), page.copy(), page.copy()
    near[20:60, 32:42] = 0
    apart[20:60, 34:44] = 0
    speck[20:22, 50:54] = 0  # 8 pixels of ink, a fiftieth of the bar's 400
    assert remarks(near) == remarks(speck) == ()
    for drawn in (apart, page.T):  # what is much wider than high is no upright digit, but may be a row of them
        (remark,) = remarks(drawn)
        assert remark.startswith("several shapes, or a wide one")


def test_digits_are_one_shape_and_pairs_of_them_several():
    """Hardly one of 100 digits of MNIST is taken for two, and hardly one of 50 pairs, 6 pixels apart, for one.

    The exceptions: a digit in two strokes, and a pair that is drawn so small that hardly a pixel parts it.
    """
    digits = as_bytes(load_split("test10k", 0).x.numpy().reshape(-1, 28, 28)[:100])
    remarks_of = [normalise(digit).remarks for digit in digits]
    assert sum(any("several" in remark for remark in its) for its in remarks_of) <= 3
    assert not any("sheet" in remark for its in remarks_of for remark in its)  # a light 0 is no sheet with a hole
    gap = np.zeros((28, 6), np.uint8)
    cut = [digit[:, digit.any(axis=0)] for digit in digits]
    pairs = [np.pad(np.hstack([one, gap, other]), 10) for one, other in zip(cut[::2], cut[1::2], strict=True)]
    said = [any("several" in remark for remark in normalise(pair).remarks) for pair in pairs]
    assert sum(said) >= 47
    row = np.pad(np.hstack([part for digit in cut[:8] for part in (digit, gap)]), 10)
    assert "several" in normalise(row).remarks[-1]


def test_what_is_all_noise_has_no_clear_ink():
    (remark,) = remarks(np.random.default_rng(0).random((60, 60)))
    assert remark.startswith("no clear ink")
    assert remarks(1 - strokes(THREE)) == ()
