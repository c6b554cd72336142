"""Takes away what on a paper is no digit: the desk around it, lines across it, a frame, what the picture's edge cuts.

All masks are boolean [H, W]. What goes leaves a remark, because a part of a digit may have gone with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import ndimage
from skimage.filters import threshold_otsu
from skimage.measure import label, regionprops
from skimage.morphology import closing, convex_hull_image, footprint_rectangle
from skimage.segmentation import clear_border

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]

SHEET = 0.25  # share of the picture that a sheet on a desk covers at least
SOLID = 0.9  # share of its convex hull that it fills at least, with what is drawn on it
ON_DESK = 0.25  # share of the picture's edge that it has at most: the desk has the rest
STEP = 0.2  # least difference of brightness from the desk, of black to white; a shadow's edge is soft
RIM = 0.02  # of the picture's shorter side: the sheet's edge, which is left out
RUN = 0.12  # of the picture's side: a run of ink of this length may be a part of a line
THIN = 0.03  # of the shorter side: a printed line is thinner than this, the stroke of a large digit is not
ACROSS = 0.9  # of the picture's side: a line that runs over it is no stroke
LONG = 6  # times its thickness: a line is at least so long
BEYOND = 0.15  # of its width: a line that touches the digit above it goes at least so far beyond it at both ends
LOW = 0.1  # of the drawing's height: a line under a digit ends at most so far above the lowest ink
AROUND = 0.9  # of all other ink: a frame encloses at least this share
PALER = 0.8  # lines that have less than this share of the strokes' ink are told from them by it
FEWEST = 2e-4  # share of the pixels that ink has at least; in 300 x 300 pixels, a stroke of 3 x 6
KEPT = 0.2  # a line or frame stays unless this share of its own ink is left
SMALL = 0.04  # the same of what touches the edge: a scan's dark border is much larger than a digit
SPECK = 0.03  # of the ink of the largest piece: a piece with less is dirt


def on_sheet(colours: Floats) -> Floats:
    """Return the part of a picture [H, W, 3] with a bright sheet on a dark desk that shows the sheet; or the picture.

    Where the sheet does not fill its box, the result has the sheet's colour.
    """
    grey = colours.mean(axis=2)
    if np.ptp(grey) < STEP:
        return colours
    pieces = label(grey > threshold_otsu(grey))
    largest = max(regionprops(pieces), key=lambda one: one.area, default=None)
    if largest is None or largest.area < SHEET * grey.size:
        return colours
    sheet = convex_hull_image(pieces == largest.label)
    edge = np.concatenate([sheet[0], sheet[-1], sheet[:, 0], sheet[:, -1]])
    if edge.mean() > ON_DESK or largest.area < SOLID * sheet.sum():
        return colours
    rim = max(1, round(RIM * min(grey.shape)))
    around, inside = _grown(sheet, rim) & ~sheet, ~_grown(~sheet, rim)
    near = sheet & ~inside
    if not inside.any() or np.median(grey[near]) - np.median(grey[around]) < STEP:
        return colours
    box = np.ix_(*(np.flatnonzero(inside.any(axis=1 - axis)) for axis in (0, 1)))
    paper = np.median(colours[inside], axis=0)
    return np.asarray(np.where(inside[..., None], colours, paper)[box], np.float32)


def digit_in(amount: Floats, floor: float) -> tuple[Mask, list[str]]:
    """Return the pixels of what is drawn that may be a digit's, and remarks on what was left out.

    Args:
        amount: [H, W], how much ink a pixel has, in any unit.
        floor: pixels with more are drawn on.
    """
    remarks = []
    drawn = np.asarray(amount > floor)
    framed = _without_frame(drawn)
    if framed is not drawn:
        remarks.append("a frame is left out")
    unruled = _without_lines(framed, amount)
    inside = _part(np.asarray(clear_border(label(unruled)) > 0), unruled, SMALL)
    found = _without_underline(inside)
    if unruled is not framed or found is not inside:
        remarks.append("straight lines are left out")
    if inside is not unruled:
        remarks.append("what touches the edge of the picture is left out")
    elif found[0].any() or found[-1].any() or found[:, 0].any() or found[:, -1].any():
        remarks.append("the ink touches the edge of the picture: the digit may be cut off")
    return _without_specks(found), remarks


def full_ink(above: Floats) -> float:
    """Return the amount that counts as full ink: the median over pixels that reach half of the weighted mean.

    Each pixel weighs as its own amount, so that the many faint pixels at the edges hardly count.
    """
    if len(above) == 0:
        return 0.0
    mean = float((above**2).sum() / above.sum())
    return float(np.median(above[above >= 0.5 * mean]))


def _part(part: Mask, whole: Mask, share: float = KEPT) -> Mask:
    """Return the part if it has at least this share of what is left out, else the whole, also if nothing is."""
    left_out = np.count_nonzero(whole) - np.count_nonzero(part)
    return part if left_out and np.count_nonzero(part) >= share * left_out else whole


def _without_lines(drawn: Mask, amount: Floats) -> Mask:
    """Take away thin lines that run over the picture; strokes that cross them stay whole."""
    lines = [_lines(drawn, axis) for axis in (0, 1)]
    either = lines[0] | lines[1]
    rest = drawn & ~either
    strokes = _without_specks(rest)
    if not either.any() or np.count_nonzero(strokes) < FEWEST * drawn.size:
        return drawn
    ink = full_ink(amount[strokes])
    for axis, line in enumerate(lines):
        pale = full_ink(amount[line])
        if pale < PALER * ink:  # what is darker than the line is a stroke
            rest |= line & (amount > (pale + ink) / 2)
        else:  # a stroke on both sides of the line continues through it
            thick = _thickness(line, axis) + 3
            rest |= closing(strokes, footprint_rectangle((thick, 1) if axis == 0 else (1, thick))) & line
    return rest


def _grown(mask: Mask, reach: int) -> Mask:
    """Return the pixels of a mask and those at most `reach` rows and columns from it."""
    return np.asarray(ndimage.maximum_filter(mask, 2 * reach + 1, mode="constant", cval=0))


def _runs(drawn: Mask, length: int, axis: int) -> Mask:
    """Return the pixels in runs of at least so many pixels (an odd number) along an axis; a run may go on outside.

    This is a morphological opening, by filters whose time does not grow with the length.
    """
    odd, given = length | 1, drawn.astype(np.uint8)
    eroded = ndimage.minimum_filter1d(given, odd, axis, mode="constant", cval=1)
    return np.asarray(ndimage.maximum_filter1d(eroded, odd, axis, mode="constant", cval=0) > 0)


def _lines(drawn: Mask, axis: int) -> Mask:
    """Return the thin lines over the picture: rows (axis 0) or columns (axis 1) of it, also somewhat tilted ones."""
    length = drawn.shape[1 - axis]
    run = max(3, round(RUN * length))
    runs = _runs(drawn, run, 1 - axis)
    thin = max(2.0, THIN * min(drawn.shape))
    found = np.zeros_like(drawn)
    for one in regionprops(label(runs)):
        first, last = one.bbox[1 - axis], one.bbox[3 - axis]
        if last - first >= ACROSS * length and one.area / (last - first) <= thin:
            thick = one.image.sum(axis=axis, keepdims=True)  # where it is thicker, a stroke lies along it
            found[one.slice] |= one.image & (thick <= np.median(thick) + 1)
    return found


def _thickness(lines: Mask, axis: int) -> int:
    """Return the largest number of pixels of a line at one place along it."""
    runs = label(lines)
    return max((int(one.image.sum(axis=axis).max()) for one in regionprops(runs)), default=0)


def _without_underline(drawn: Mask) -> Mask:
    """Take away a line under the drawing that goes beyond it at both ends; the lowest stroke of a 2 does at one."""
    rows = np.flatnonzero(drawn.any(axis=1))
    columns = np.flatnonzero(drawn.any(axis=0))
    if not len(rows):
        return drawn
    width = np.ptp(columns) + 1
    runs = _runs(drawn, max(3, round(0.5 * width)), 1)
    for one in regionprops(label(runs)):
        rest = drawn.copy()
        rest[one.bbox[0] :] = False
        across = np.flatnonzero(rest.any(axis=0))
        is_long = one.bbox[3] - one.bbox[1] >= LONG * (one.bbox[2] - one.bbox[0])
        is_under = is_long and one.bbox[2] >= rows[-1] - LOW * (np.ptp(rows) + 1)
        if not is_under or not len(across):
            continue
        beyond = min(across[0] - one.bbox[1], one.bbox[3] - 1 - across[-1])
        is_apart = not drawn[one.bbox[0] - 1, one.bbox[1] : one.bbox[3]].any()
        if beyond >= (0 if is_apart else BEYOND * width):
            return _part(rest, drawn)
    return drawn


def _without_frame(drawn: Mask) -> Mask:
    """Take away a piece that goes around all other ink."""
    pieces = regionprops(label(drawn))
    if len(pieces) < 2:
        return drawn
    outer = max(pieces, key=lambda one: one.area_bbox)
    (top, left, bottom, right), others = outer.bbox, drawn.copy()
    others[outer.slice] &= ~outer.image
    inside = others[top:bottom, left:right] & outer.image_filled
    return _part(others, drawn) if np.count_nonzero(inside) > AROUND * np.count_nonzero(others) else drawn


def _without_specks(drawn: Mask) -> Mask:
    pieces = label(drawn)
    sizes = np.bincount(pieces.ravel())
    sizes[0] = 0
    return np.asarray(sizes[pieces] >= max(1, SPECK * sizes.max())) & drawn
