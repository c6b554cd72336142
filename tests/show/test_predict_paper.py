"""Paper that is not blank, or not there all over: what is no digit goes, and the digit stays."""

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from bench.data.splits import load_split
from bench.show.predict.pictures import SPECK, digit_in, normalise, on_sheet
from tests.drawings import GREY, SHAPE, as_bytes, on_page, seen, stored
from tests.show.test_predict_pictures import BYTE, LEAST_CONTRAST, TOLERANCE, close, coloured

# transparent pictures


def transparent(opacity):
    return Image.fromarray(np.dstack([GREY, GREY, GREY, opacity.round()]).astype(np.uint8))


def towards_edges(reach):
    """Return the opacity of a page that fades to nothing over `reach` pixels at its edges, 0 to 255."""
    y, x = np.mgrid[: SHAPE.shape[0], : SHAPE.shape[1]]
    edge = np.minimum.reduce([y, x, SHAPE.shape[0] - 1 - y, SHAPE.shape[1] - 1 - x])
    return 255 * np.minimum(1, edge / reach)


def rounded_off(radius):
    """Return the opacity of a page with round corners, 0 to 255."""
    y, x = np.mgrid[: SHAPE.shape[0], : SHAPE.shape[1]]
    middle = [(side - 1) / 2 for side in SHAPE.shape]
    outside = [np.maximum(np.abs(at - half) - (half - radius), 0) for at, half in zip((y, x), middle, strict=True)]
    return 255.0 * (np.hypot(*outside) <= radius)


@pytest.mark.parametrize(
    "opacity",
    [
        towards_edges(10),
        rounded_off(22),
        255.0 * (np.add.outer(*map(np.arange, SHAPE.shape)) >= 40),
        np.full(SHAPE.shape, 229.5),
    ],
    ids=["edges that fade", "round corners", "a corner torn off", "all of it pale"],
)
def test_a_page_that_is_transparent_in_part_keeps_its_digit(opacity, tmp_path):
    assert SHAPE[opacity == 0].sum() == 0, "the drawing itself is there"
    # a premultiplied byte of a pixel of opacity a is off by BYTE / 2, so that its colour is by BYTE / (2 a); here a is
    # at least .3 where there is ink
    assert opacity[SHAPE > 0].min() >= 0.3 * 255
    assert close(stored(tmp_path, transparent(opacity)).pixels, TOLERANCE + BYTE / (2 * 0.3) / LEAST_CONTRAST)


def test_a_straightened_scan_is_read_as_on_white_paper(tmp_path):
    page = transparent(np.full(SHAPE.shape, 255.0)).rotate(4, Image.Resampling.BICUBIC, expand=True)
    white = Image.new("RGBA", page.size, (255, 255, 255, 255))
    white.alpha_composite(page)
    found, plain = stored(tmp_path, page), stored(tmp_path, white.convert("RGB"), "white.png")
    assert np.abs(found.pixels - plain.pixels).max() <= TOLERANCE
    assert found.remarks == plain.remarks == ()


# paper that is not blank


def rows_of(height, spacing, thick, first=7):
    return ((np.arange(height) - first) % spacing < thick).astype(float)


PAGE = on_page(SHAPE, (400, 400), (110, 120))
ROWS = np.repeat(rows_of(400, 40, 3)[:, None], 400, axis=1)
FRAME = np.ones_like(PAGE)
FRAME[20:-20, 20:-20] = 0
FRAME[:12] = FRAME[-12:] = 0
FRAME[:, :12] = FRAME[:, -12:] = 0
BELOW = np.zeros_like(PAGE)
BELOW[262:267, 100:320] = 1  # SHAPE is 111 columns wide, and its lowest row is at most 110 + 199
SCAN = np.zeros_like(PAGE)
SCAN[:, :15] = SCAN[-20:] = 1
LOWEST = int(np.flatnonzero(PAGE.any(axis=1))[-1])


def left_over(amount):
    """Return the pixels that stay and the remarks; ink has the amount 1."""
    return digit_in(amount.astype(np.float32), 0.15)


@pytest.mark.parametrize("ink", [0.4, 1], ids=["pale", "dark"])
@pytest.mark.parametrize("lines", [ROWS, np.maximum(ROWS, ROWS.T), ROWS.T], ids=["lined", "squared", "columns"])
def test_lines_go_where_no_stroke_is_on_both_sides(lines, ink):
    found, remarks = left_over(np.maximum(PAGE, ink * lines))
    near = ndimage.maximum_filter(PAGE, 2 * 6 + 1) > 0  # a line of 3 pixels stays in gaps of up to 6 at strokes
    more = found & (PAGE == 0)
    assert not more[lines == 0].any()
    assert more.sum() <= (near & (lines > 0)).sum()
    # at most what the lines cover is lost, and a stroke's end beyond a line as a speck
    assert PAGE.sum() - (found & (PAGE > 0)).sum() <= (PAGE * lines).sum() + SPECK * PAGE.sum()
    assert remarks == ["straight lines are left out"]


@pytest.mark.parametrize(
    ("other", "remark"),
    [
        (np.roll(BELOW, LOWEST - 262 + 4, axis=0), "straight lines are left out"),
        (SCAN, "ink touches the edge of the picture: what touches it is left out"),
    ],
    ids=["a line under the digit", "the border of a scan"],
)
def test_what_is_no_digit_goes_with_a_remark(other, remark):
    found, remarks = left_over(np.maximum(PAGE, other))
    np.testing.assert_array_equal(found, PAGE > 0)
    assert remarks == [remark]


def test_a_sheet_on_a_desk_is_cut_out():
    page = np.full((500, 520, 3), 0.2)
    page[60:460, 70:470] = coloured(PAGE, (0.1, 0.1, 0.1), (0.95, 0.95, 0.9))
    assert close(seen(page))
    light = np.full((500, 520, 3), 0.9)  # light on dark as before: the sheet is not brighter than what is around it
    light[60:460, 70:470] = coloured(PAGE, (0.1, 0.1, 0.1), (0.95, 0.95, 0.9))
    np.testing.assert_array_equal(on_sheet(light.astype(np.float32)), light.astype(np.float32))


def test_a_frame_is_cut_away_with_a_remark():
    found = normalise(as_bytes(coloured(np.maximum(PAGE, FRAME), (0.1, 0.1, 0.1), (0.95, 0.95, 0.9))))
    assert close(found.pixels)
    assert found.remarks == ("what is around a sheet, frame or box is left out",)


def test_what_a_bright_digit_is_around_is_no_sheet():
    ring = np.zeros((100, 100, 3), np.float32)
    y, x = np.mgrid[-50:50, -50:50]
    ring[(np.hypot(y, x) < 25) & (np.hypot(y, x) > 10)] = 1  # a light 0 on a dark board has something dark inside too
    assert on_sheet(ring) is ring


@pytest.mark.parametrize("margin", [0, 40])  # pixels around the 0
@pytest.mark.parametrize("inside", ["a speck", "a short stroke"])
def test_what_is_drawn_in_a_loop_leaves_the_loop(inside, margin):
    y, x = np.mgrid[-90:90, -60:60]
    radius = np.hypot(y / 1.5, x)
    ring = (radius > 38) & (radius < 50)
    drawn = y**2 + x**2 < 36 if inside == "a speck" else (x**2 < 16) & (y**2 < 900)
    plain, marked = (1 - np.pad(1.0 * one, margin) for one in (ring, ring | drawn))
    # the box of 20 x 20 pixels is that of the ring: a loop that went would leave the stroke, scaled up to 20 rows
    edges = [np.nonzero(normalise(one).pixels.max(axis=0) > 0.5)[0] for one in (plain, marked)]
    assert edges[1].tolist() == edges[0].tolist()


def test_a_shadow_is_no_desk():
    across = np.linspace(-8, 8, 400)
    light = 0.45 + 0.5 / (1 + np.exp(-across))
    page = (light[None, :, None] * coloured(PAGE, (0.1, 0.1, 0.1), (1, 1, 1))).astype(np.float32)
    np.testing.assert_array_equal(on_sheet(page), page)


def test_a_digit_that_the_edge_cuts_stays_with_a_remark():
    found, remarks = left_over(PAGE[130:, :])
    np.testing.assert_array_equal(found, PAGE[130:, :] > 0)
    assert remarks == ["ink touches the edge of the picture: the digit may be cut off"]


def test_hardly_a_digit_of_mnist_loses_a_stroke():
    """The exceptions are ones on a base line, which stay ones without it."""
    digits = load_split("test10k", 0).x.numpy().reshape(-1, 28, 28)[:1000]
    pages = (on_page(np.kron(digit, np.ones((5, 5))), (200, 260), (15, 85)) for digit in digits)
    assert sum(bool(left_over(page)[1]) for page in pages) <= 2
