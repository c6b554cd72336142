"""Reads a picture of a digit and brings it to the form of MNIST's images.

LeCun, Bottou, Bengio, Haffner 1998, "Gradient-based learning applied to document recognition", section III.A: an image
is scaled into a box of 20x20 pixels with its aspect kept; its centre of mass comes in the middle of 28x28.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps
from scipy import ndimage
from skimage.filters import threshold_otsu
from skimage.measure import label, regionprops
from skimage.morphology import closing, convex_hull_image, footprint_rectangle
from skimage.segmentation import clear_border

from bench.core.errors import UnusableImage
from bench.core.files import reason
from bench.core.text import one_line

Mask = NDArray[np.bool_]  # [H, W]
Floats = NDArray[np.float32]

MAX_PIXELS = 50_000_000  # a telephone's largest photograph; decoded with transparency, 200 MB
WORK_SIDE = 800  # pixels: a larger picture is averaged down to at most twice this, enough for any digit
FLAT = 0.25  # if hardly a pixel's brightness is farther from the median, only the transparency shows the shape
ROUNDS, SMALLEST_RESIDUAL = 30, 1e-4  # of reweighting, 20 did in the worst cases; of colour, a step of 8 bits is 0.004
NOISE = 5 * 1.4826  # five standard deviations of Gaussian noise, in median absolute deviations
FAINTEST = 0.15  # of full ink: fainter pixels are a smudge, an artefact of JPEG or grain
LEAST_CONTRAST = 0.06  # of black to white; a photograph of empty paper with a noise of 0.05 has less
EDGE = 0.4  # of full ink; fainter pixels do not widen the box. Of 0.15 to 0.5, 0.4 restored enlarged digits best
SMALLEST = 5  # pixels; a drawing whose longer side is shorter has no shape
SHEET = 0.25  # share of the picture that a sheet on a desk covers at least, and of the picture's edge at most
SOLID = 0.8  # share of its convex hull that it fills at least, with what is drawn on it
STEP = 0.2  # least difference of brightness from the desk, of black to white; a shadow's edge is soft
RUN, THIN = 0.12, 0.03  # of the picture's side: a run of ink that may be a part of a line, and its most thickness
ACROSS = 0.9  # of the picture's side: a line that runs over it is no stroke
BEYOND = 0.1  # of the drawing's width: a line under it goes so far beyond it at both ends
FEWEST = 2e-4  # share of the pixels that ink has at least; in 300 x 300 pixels, a stroke of 3 x 6
KEPT = 0.2  # of a frame's pixels: what it encloses has at least so many
SMALL = 0.04  # the digit's least share of what touches the edge: a scan's dark border is much larger
SPECK = 0.03  # of the pixels of the largest piece: a piece with fewer is dirt
APART, LARGE = 0.1, 0.25  # of a digit's size: the least gap to another; of the ink of the largest: another has so much
ALLOWED = "a PNG, JPEG or image of at most 50 million pixels, or [H, W], [H, W, 3] or [H, W, 4] of bytes or of 0 to 1"

Given = str | Path | Image.Image | NDArray[np.generic]
"""A path; an image of Pillow; or an array [H, W], [H, W, 3] or [H, W, 4] of bytes, or of numbers in [0, 1]."""


@dataclass(frozen=True)
class Normalised:
    """A picture as a network sees it."""

    path: str  # of an image or array: what it is called
    pixels: Floats  # [28, 28], bytes / 255, ink is bright
    remarks: tuple[str, ...]  # why it may not be a picture of one upright digit
    colours: Floats  # [H, W, 3], the picture in [0, 1]


def normalise(given: Given, name: str = "picture") -> Normalised:
    """Bring a PNG, a JPEG, an image or an array, which errors call `name`, to MNIST's form; raises UnusableImage."""
    name = str(given) if isinstance(given, str | Path) else name
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a decoder's, such as those about odd metadata
            colours = _opaque(_read(given))
    except Exception as error:  # a damaged file can raise anything in a decoder
        why = reason(error).replace(f" {name!r}", "")
        raise UnusableImage(one_line(f"{name}: cannot be read: {why}; give {ALLOWED}")) from error
    try:
        ink, remarks = _ink(on_sheet(colours))
        return Normalised(name, in_box(ink), tuple(remarks), colours)
    except UnusableImage as error:
        raise UnusableImage(one_line(f"{name}: {error}")) from error


def _read(given: Given) -> Image.Image:
    """Return a picture upright, in mode RGB or RGBA."""
    if isinstance(given, str | Path):
        with Image.open(given, formats=("PNG", "JPEG")) as opened:
            return _upright(opened)
    return _upright(given.copy() if isinstance(given, Image.Image) else _of_array(np.asarray(given)))


def _upright(image: Image.Image) -> Image.Image:
    if not 0 < image.width * image.height <= MAX_PIXELS:
        raise ValueError(f"it has {image.width} x {image.height} pixels")
    image.draft(None, (WORK_SIDE, WORK_SIDE))  # a JPEG can be decoded at a half, a quarter, an eighth
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):  # grey of 16 bits
        image = Image.fromarray((np.asarray(image) / 257).clip(0, 255).round().astype(np.uint8))
    # One transparent colour of a grey or RGB file is the page's; pixels of nearly that colour are the edge of the ink.
    return image.convert("RGB" if image.mode in ("L", "RGB") else "RGBA")


def _of_array(pixels: NDArray[np.generic]) -> Image.Image:
    is_picture = pixels.size > 0 and pixels.ndim in (2, 3) and pixels.shape[2:] in ((), (3,), (4,))
    values = pixels.astype(np.float64)
    are_shares = pixels.dtype.kind in "bf" and bool(((values >= 0) & (values <= 1)).all())
    if not is_picture or not (are_shares or pixels.dtype == np.uint8):
        raise ValueError(f"it has shape {pixels.shape} and numbers of {pixels.dtype}")
    return Image.fromarray((values * (255 if are_shares else 1)).round().astype(np.uint8))


def _opaque(image: Image.Image) -> Floats:
    """Return colours [H, W, 3] in [0, 1], averaged down, with the page's colour behind what is transparent."""
    factor = max(1, max(image.size) // WORK_SIDE)
    samples = image.convert("RGBA").convert("RGBa").reduce(factor)  # means of what is seen
    colours, opacity = np.split(np.asarray(samples, np.float32) / 255, [3], axis=2)
    seen = opacity[..., 0] > 0.5
    if opacity.min() == 1 or not seen.any():
        return np.asarray(colours + (1 - opacity))
    drawn = colours[seen] / opacity[seen]
    page = np.median(drawn, axis=0)
    # If hardly a pixel differs, only the transparency shows the shape: it is drawn black on white.
    is_flat = (np.abs((drawn - page).mean(axis=1)) > FLAT).mean() < FEWEST
    return np.repeat(1 - opacity, 3, axis=2) if is_flat else np.asarray(colours + (1 - opacity) * page)


def _ink(colours: Floats) -> tuple[Floats, list[str]]:
    """Return the ink [H, W], 0 to 1, of what may be a digit, and remarks."""
    amount = _along_ink(colours)
    noise = NOISE * float(np.median(np.abs(amount)))
    is_clear = np.count_nonzero(amount > noise) >= max(1, FEWEST * amount.size)
    level = _full_ink(amount[amount > (noise if is_clear else 0)])
    if level < LEAST_CONTRAST:
        raise UnusableImage("blank: no part differs enough from the background; give a picture with more contrast")
    digit, remarks = digit_in(amount, min(max(FAINTEST * level, noise), 0.5 * level))
    ink = np.where(digit, (amount / _full_ink(amount[digit])).clip(0, 1), 0).astype(np.float32)
    if not is_clear:
        remarks = ["no clear ink: hardly any stands out of the noise or pattern; cut the picture closer to the digit"]
    if (n_shapes := shapes(ink)) > 1:
        remarks.append(f"{n_shapes} shapes stand apart; a network sees them as one digit: cut the picture")
    return ink, remarks


def _along_ink(colours: Floats) -> Floats:
    """Return how far each pixel [H, W] is from the paper, a surface of second degree, in the direction of the ink."""
    y, x = np.meshgrid(*(np.linspace(-1, 1, n, dtype=np.float32) for n in colours.shape[:2]), indexing="ij")
    terms = np.stack([np.ones_like(y), y, x, y * y, y * x, x * x], axis=2)
    few = np.ix_(*(range(0, side, max(1, side // 64)) for side in y.shape))  # 64 to 127 rows and columns
    grid, sampled = terms[few].reshape(-1, 6).astype(float), colours[few].reshape(-1, 3)
    # Least absolute deviations by reweighting: ink hardly moves the paper.
    weights = np.append([np.median(sampled, axis=0)], np.zeros((5, 3)), axis=0)
    for _ in range(ROUNDS):
        distance = np.linalg.norm(sampled - grid @ weights, axis=1, keepdims=True)
        trust = np.maximum(distance, SMALLEST_RESIDUAL) ** -0.5
        weights = np.linalg.lstsq(grid * trust, sampled * trust, rcond=None)[0]
    paper = terms @ weights.astype(np.float32)
    difference = (colours - paper).reshape(-1, 3)
    weighted = difference * np.linalg.norm(difference, axis=1, keepdims=True)  # large differences are the ink's
    direction = np.linalg.eigh((weighted.T @ weighted).astype(float))[1][:, -1].astype(np.float32)
    along = difference @ direction
    sign = np.sign((along.astype(float) ** 3).sum())  # ink covers fewer pixels than paper, but differs more
    light = paper.mean(axis=2).clip(0.1)  # dark ink takes away a share of the light: less in the shade
    amount = sign * along.reshape(y.shape)
    return np.asarray(amount * np.median(light) / light if sign * direction.sum() < 0 else amount, np.float32)


def on_sheet(colours: Floats) -> Floats:
    """Return the box [h, w, 3] of a bright sheet on a dark desk, in the sheet's colour around it; else the picture."""
    grey, rim = colours.mean(axis=2), max(1, min(colours.shape[:2]) // 100)
    pieces = label(grey > threshold_otsu(grey)) if np.ptp(grey) >= STEP else np.zeros(grey.shape, int)
    largest = max(regionprops(pieces), key=lambda one: one.area, default=None)
    if largest is None or largest.area < SHEET * grey.size:
        return colours
    sheet = convex_hull_image(pieces == largest.label)
    inside, grown = ndimage.minimum_filter(sheet, 4 * rim + 1), ndimage.maximum_filter(sheet, 2 * rim + 1)
    edge, near, desk = np.concatenate([sheet[0], sheet[-1], sheet[:, 0], sheet[:, -1]]), sheet & ~inside, grown & ~sheet
    is_sheet = edge.mean() <= SHEET and largest.area >= SOLID * sheet.sum() and inside.any()
    if not is_sheet or np.median(grey[near]) - np.median(grey[desk]) < STEP:
        return colours
    box = np.ix_(*(np.flatnonzero(inside.any(axis=1 - axis)) for axis in (0, 1)))
    return np.asarray(np.where(inside[..., None], colours, np.median(colours[inside], axis=0))[box], np.float32)


def digit_in(amount: Floats, floor: float) -> tuple[Mask, list[str]]:
    """Return the pixels that may be a digit's, and remarks; more ink [H, W] than `floor`, in any unit, is drawn."""
    drawn = np.asarray(amount > floor)
    framed = _without_frame(drawn)
    unruled = _without_lines(framed)
    inside = np.asarray(clear_border(label(unruled)) > 0)
    cut = np.count_nonzero(unruled & ~inside)
    is_border = cut > 0 and np.count_nonzero(inside) >= SMALL * cut
    remarks = {
        "a frame is left out": framed is not drawn,
        "straight lines are left out": unruled is not framed,
        "what touches the edge of the picture is left out": is_border,
        "the ink touches the edge of the picture: the digit may be cut off": cut > 0 and not is_border,
    }
    return _without_specks(inside if is_border else unruled), [remark for remark, holds in remarks.items() if holds]


def _full_ink(above: Floats) -> float:
    """Return the amount of full ink: the median of pixels from half of the mean on, where each weighs as its ink."""
    return float(np.median(above[above >= 0.5 * (above**2).sum() / above.sum()])) if len(above) else 0.0


def shapes(ink: Floats) -> int:
    """Return how many shapes stand apart; the strokes of one digit have only a small gap between them."""
    shorter, longer = sorted(np.ptp(places) + 1 for places in np.nonzero(ink))
    near = ndimage.maximum_filter(ink > 0, max(1, round(APART * min(longer, 2 * shorter))))
    masses = np.bincount(label(near).ravel(), ink.ravel())
    return int((masses >= LARGE * masses.max()).sum())


def _without_frame(drawn: Mask) -> Mask:
    """Take away a piece that goes around nearly all other ink."""
    pieces = label(drawn)
    for outer in sorted(regionprops(pieces), key=lambda one: one.area_bbox)[-1:]:
        others = drawn & (pieces != outer.label)
        enclosed = np.count_nonzero(others[outer.slice] & outer.image_filled)
        if enclosed > max(0.9 * np.count_nonzero(others), KEPT * outer.area):
            return np.asarray(others)
    return drawn


def _without_lines(drawn: Mask) -> Mask:
    """Take away thin lines, also somewhat tilted ones; strokes that cross them stay whole.

    A line runs over the whole picture; or lies under all other ink and goes beyond it at both ends, as no stroke does.
    """
    found, rest, lines, gap = [], drawn.copy(), np.zeros_like(drawn), 0
    for axis, length in enumerate(drawn.shape[::-1]):  # 0: lines across, 1: lines down
        run = max(3, round(RUN * length))
        for one in regionprops(label(ndimage.grey_opening(drawn, (1, run) if axis == 0 else (run, 1)))):
            side = one.image.shape[1 - axis]
            is_across = side >= ACROSS * length
            if (is_across or axis == 0) and one.area / side <= max(2.0, THIN * min(drawn.shape)):
                found.append((axis, is_across, one))
                rest[one.slice] &= ~one.image
    rest = _without_specks(rest)
    if not found or np.count_nonzero(rest) < FEWEST * drawn.size:
        return drawn
    (top, left, bottom, right) = regionprops(rest.astype(np.uint8))[0].bbox
    for axis, is_across, one in found:
        _, start, last, stop = one.bbox
        is_under = min(left - start, stop - right) >= BEYOND * (right - left) and last >= bottom - 0.1 * (bottom - top)
        if is_across or is_under:
            thick = one.image.sum(axis=axis, keepdims=True)  # where it is thicker, a stroke lies along it
            lines[one.slice] |= one.image & (thick <= np.median(thick) + 1)
            gap = max(gap, int(np.median(thick)) + 3)
    strokes = _without_specks(drawn & ~lines)
    return np.asarray(drawn & closing(strokes, footprint_rectangle((gap, gap)))) if gap else drawn


def _without_specks(drawn: Mask) -> Mask:
    pieces = label(drawn)
    sizes = np.bincount(pieces[drawn], minlength=1)
    return np.asarray(drawn & (sizes[pieces] >= SPECK * sizes.max()))


def in_box(ink: Floats) -> Floats:
    """Return ink [H, W] in MNIST's form [28, 28]; each pixel is the mean of the area that it covers.

    The box of 20 pixels holds the pixels of at least EDGE; a border of one has room for fainter ones, and may be cut.
    """
    places = [np.flatnonzero((ink >= EDGE).any(axis=1 - axis)) for axis in (0, 1)]
    sides = [int(place[-1] - place[0]) + 1 if len(place) else 0 for place in places]
    if max(sides) < SMALLEST:
        raise UnusableImage(f"blank but for {sides[1]} x {sides[0]} pixels; a digit needs {SMALLEST}")
    for place, side in zip(places, sides, strict=True):
        n = max(1, round(side * 20 / max(sides)))
        edges, old = place[0] + side / n * np.arange(-1, n + 2), np.arange(len(ink))
        shared = np.minimum(edges[1:, None], old + 1) - np.maximum(edges[:-1, None], old)
        ink = ((shared.clip(0) * n / side) @ ink).T  # turned: the columns are the next rows
    middle = ndimage.center_of_mass(ink)
    y, x = (min(max(round(14 - at) + 1, 0), 30 - n) for at, n in zip(middle, ink.shape, strict=True))
    page = np.zeros((30, 30), np.float32)
    page[y : y + ink.shape[0], x : x + ink.shape[1]] = ink
    return np.asarray((page[1:-1, 1:-1].clip(0, 1) * 255).round() / np.float32(255), np.float32)
