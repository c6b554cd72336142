"""Pictures brought to MNIST's form: what must not change the result, digits of MNIST that come back, and remarks."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image

from bench.data.splits import load_split
from bench.show.predict.pictures import EDGE, WORK_SIDE, in_box
from tests.drawings import GREY, SHAPE, on_page, seen, stored, strokes

BYTE = 1 / 255
# A crisp shape has ink 0 and 1 only, so that its box and pieces are found exactly. Colours are rounded to bytes: ink
# and paper are each off by half a byte, so that with a contrast of c the amount of ink is off by BYTE / c. The
# background's fit is exact to 1e-4 of colour (its smallest residual). The result is rounded to bytes once more.
LEAST_CONTRAST = 0.4
TOLERANCE = (BYTE + 2e-4) / LEAST_CONTRAST + BYTE


def coloured(shape, ink, paper):
    """Return the shape in one colour on another, [H, W, 3]."""
    return shape[..., None] * np.array(ink) + (1 - shape[..., None]) * np.array(paper)


PLAIN = seen(coloured(SHAPE, (0, 0, 0), (1, 1, 1)))


def close(pixels, tolerance=TOLERANCE):
    return np.abs(pixels - PLAIN).max() <= tolerance


# what must not matter


colours = st.tuples(*[st.floats(0, 1)] * 3)


@settings(max_examples=30)
@given(colours, colours)
def test_colours_do_not_matter_dark_on_light_or_light_on_dark(ink, paper):
    # There is less ink than paper, which tells them apart if their colours differ enough.
    assume(np.linalg.norm(np.subtract(ink, paper)) >= LEAST_CONTRAST)
    assert close(seen(coloured(SHAPE, ink, paper)))


@settings(max_examples=20)
@given(st.integers(0, 60), st.integers(0, 80))
def test_its_place_on_the_page_does_not_matter(down, across):
    assert close(seen(coloured(on_page(SHAPE, (260, 240), (down, across)), (0.1, 0.1, 0.3), (0.9, 0.9, 0.8))))


@pytest.mark.parametrize("factor", [2, 3, 5])
def test_its_size_does_not_matter(factor):
    # Every pixel becomes a square of equal pixels, so that all means over areas stay the same.
    assert close(seen(coloured(np.kron(SHAPE, np.ones((factor, factor))), (0, 0, 0), (1, 1, 1))))


@given(st.floats(-0.25, 0.25), st.floats(-0.25, 0.25), st.floats(-0.15, 0.15))
def test_light_that_falls_unevenly_does_not_matter(down, across, bend):
    y, x = np.meshgrid(np.linspace(-1, 1, 200), np.linspace(-1, 1, 160), indexing="ij")
    light = 0.7 + (down * y + across * x + bend * y * x - abs(bend) * x * x) * 0.5
    # Ink absorbs 3/4 of the light, which is at least 0.7 - 0.25 - 0.25 / 2 - 0.15 = 0.2 here. An error of a byte in
    # 3/4 of 0.2 is at most BYTE / 0.15 of ink. The level of full ink has the same error.
    assert close(seen((light * (1 - 0.75 * SHAPE))[..., None].repeat(3, axis=2)), 2 * (BYTE + 2e-4) / 0.15 + BYTE)


def test_noise_and_dirt_do_not_matter():
    rng = np.random.default_rng(0)
    page = coloured(on_page(SHAPE, (400, 400), (100, 120)), (0.2, 0.2, 0.2), (0.85, 0.85, 0.8))
    page[20:23, 30:33] = 0.1  # 9 pixels; a hundredth of the strokes' is far more
    found = seen(page + rng.normal(0, 0.03, page.shape[:2])[..., None])
    # A pixel of the result is the mean of 7.5 x 7.5 pixels of the page, whose noise is 0.03 / 0.65 of ink: a standard
    # deviation of 0.0062, and five of them are 0.03. Inside the strokes, ink is cut off at 1, which takes away the mean
    # positive part of the noise, 0.4 x 0.046 = 0.02. At each end, the box may move by a pixel of the page: together by
    # 2 / 7.5 of a pixel of the result.
    assert close(found, 0.03 + 0.02 + 2 / 7.5)
    assert np.abs(found - PLAIN).mean() < 0.02


# how it is stored


WHITE_INK = np.dstack([np.full((*SHAPE.shape, 3), 255), SHAPE * 255]).astype(np.uint8)


@pytest.mark.parametrize(
    "image",
    [
        Image.fromarray(GREY),
        Image.fromarray(255 - GREY),
        Image.fromarray(GREY).convert("1"),
        Image.fromarray(GREY).convert("LA"),
        Image.fromarray(GREY).convert("P"),
        Image.fromarray(GREY).convert("RGB").quantize(4),
        Image.fromarray(((1 - SHAPE) * 65535).astype(np.uint16)),
        Image.fromarray(((1 - SHAPE) * 20000 + 20000).astype(np.uint16)),
        Image.fromarray(WHITE_INK),
        Image.fromarray(WHITE_INK).convert("LA"),
        Image.fromarray(np.dstack([np.zeros((*SHAPE.shape, 3)), SHAPE * 255]).astype(np.uint8)),
        Image.fromarray(np.dstack([np.zeros((*SHAPE.shape, 3)), SHAPE * 128]).astype(np.uint8)),
    ],
    ids=lambda image: image.mode,
)
def test_how_a_png_stores_it_does_not_matter(image, tmp_path):
    assert close(stored(tmp_path, image).pixels)


def test_a_page_that_is_cut_out_stays_a_page(tmp_path):
    pixels = np.dstack([GREY, GREY, GREY, np.full_like(GREY, 255)])
    pixels[:20, :20, 3] = 0  # a corner that is not there, black underneath
    pixels[:20, :20, :3] = 0
    assert close(stored(tmp_path, Image.fromarray(pixels)).pixels)


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_jpeg(mode, tmp_path):
    # At quality 95 the steps of a block's frequencies are at most 10 of 255, so that rounding errs by 5 in each; of
    # independent errors of this size, 64 make a root mean square of 5 / sqrt(3) = 3 bytes a pixel, of which a pixel of
    # the result averages 56: 5 sigmas of one pixel are 0.06.
    assert close(stored(tmp_path, Image.fromarray(GREY).convert(mode), "it.jpg", quality=95).pixels, 0.06)


@pytest.mark.parametrize(("tag", "turn"), [(3, Image.Transpose.ROTATE_180), (6, Image.Transpose.ROTATE_90)])
def test_a_turned_camera_is_turned_back(tag, turn, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = tag
    found = stored(tmp_path, Image.fromarray(GREY).transpose(turn), "it.jpg", quality=95, exif=exif)
    assert close(found.pixels, 0.06)


def test_a_large_photograph_is_averaged(tmp_path):
    large = Image.fromarray(GREY).resize((160 * 21, 200 * 21), Image.Resampling.NEAREST)
    found = stored(tmp_path, large)
    # Twice as small: an edge that lies between two pixels makes one of half the ink, and the box is off by at most
    # half a pixel of 2100 / 1.33, which is nothing.
    assert close(found.pixels, TOLERANCE + 0.01)
    assert max(found.colours.shape) <= 2 * WORK_SIDE


# MNIST's conventions


def test_worked_boxes():
    # 60 x 30 pixels: 20 x 10 of ink. The middle of rows 0..19 is 9.5: the corner goes to round(4.5) = 4, as Python
    # rounds to even numbers; of columns 0..9, 4.5: to round(9.5) = 10.
    page = in_box(np.ones((60, 30), np.float32))
    assert page[4:24, 10:20].sum() == page.sum() == 200
    # A quarter of what a pixel covers is ink: it is a quarter. Both corners have as much, so that the middle is 9.5.
    corner = np.zeros((40, 40), np.float32)
    corner[0, 0] = corner[-1, -1] = 1
    assert in_box(corner)[4, 4] == in_box(corner)[23, 23] == np.float32(64 / 255)  # a quarter in bytes


def test_nothing_is_cut_off_however_one_sided_it_is():
    ink = np.full((20, 20), 0.02, np.float32)
    ink[0, :] = ink[:, 0] = EDGE  # the box has 20 x 20 pixels
    ink[0, 0] = 1000  # the centre of mass is here; in pixel (14, 14), the box would end at 33
    page = in_box(ink)
    assert (page > 0).sum() == 20 * 20
    assert page[8, 8] == 1000


def mnist(count, off_centre):
    images = load_split("test10k", 0).x[:count].numpy().reshape(-1, 28, 28).astype(np.float64)
    return [image for image in images if _is_steady(image, off_centre)]


def _is_steady(image, off_centre):
    """Say if neither faint pixels, which are left out, nor rounding decide where a digit's box and centre are."""
    strong = image >= EDGE + 0.05
    y, x = np.nonzero(image)
    same_box = strong.any(axis=1).sum() == np.ptp(y) + 1 and strong.any(axis=0).sum() == np.ptp(x) + 1
    middles = [(image.sum(axis=1 - axis) * np.arange(28)).sum() / image.sum() for axis in (0, 1)]
    return same_box and all(abs(middle - 14) < off_centre for middle in middles)


def test_digits_of_mnist_come_back_from_a_page():
    """Digits of MNIST, drawn dark on light and five times as large, come back with the same pixels."""
    digits = mnist(150, 0.35)
    assert len(digits) >= 10
    for digit in digits:
        page = on_page(np.kron(digit, np.ones((5, 5))), (200, 260), (15, 85))
        found = seen(coloured(page, (0.1, 0.1, 0.15), (0.95, 0.95, 0.9)))
        # Pixels fainter than 0.15 of full ink are left out. Full ink is the median of the strong pixels, here at least
        # 0.9, so that scaling changes a pixel by at most 1 - 0.9. The rounding to bytes comes on top.
        assert np.abs(found - digit).max() <= 0.15 + TOLERANCE


@st.composite
def drawings(draw):
    points = draw(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=6, unique=True))
    assume(np.ptp(np.array(points), axis=0).max() > 0.3)
    size = draw(st.tuples(st.integers(20, 90), st.integers(20, 90)))
    return strokes(points, size=size, page=(150, 160), corner=(30, 30), width=draw(st.integers(3, 12)))


@settings(max_examples=25)
@given(drawings(), st.booleans())
def test_whatever_is_drawn_has_the_conventions(drawing, inverted):
    pixels = seen(coloured(drawing, *([(1, 1, 1), (0, 0, 0)] if inverted else [(0, 0, 0), (1, 1, 1)])))
    assert pixels.shape == (28, 28)
    assert pixels.dtype == np.float32
    assert 0 <= pixels.min() <= pixels.max() <= 1
    sides = [np.flatnonzero((pixels > 0).any(axis=axis)) for axis in (1, 0)]
    assert max(np.ptp(side) + 1 for side in sides) == 20
    for axis, side in zip((1, 0), sides, strict=True):
        middle = (pixels.sum(axis=axis) * np.arange(28)).sum() / pixels.sum()
        # The centre is off by half a pixel, and a little by the rounding to bytes; or the ink has reached the edge.
        assert abs(middle - 14) <= 0.51 or side[0] <= 1 or side[-1] >= 26
