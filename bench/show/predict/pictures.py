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
from skimage.segmentation import clear_border
from skimage.transform import resize_local_mean
from skimage.util import img_as_ubyte

from bench.core.errors import UnusableImage
from bench.core.files import reason
from bench.core.text import one_line

Floats = NDArray[np.float32]

MAX_PIXELS = 50_000_000  # a telephone's largest photograph; decoded with transparency, 200 MB
WORK_SIDE = 800  # pixels: a larger picture is averaged down to at most twice this, enough for any digit
ROUNDS, SMALLEST_RESIDUAL = 30, 1e-4  # of reweighting, 20 did in the worst cases; of colour, a step of 8 bits is 0.004
NOISE = 5 * 1.4826  # five standard deviations of Gaussian noise, in median absolute deviations
LEAST_CONTRAST = 0.08  # of colours, black to white is 1.7; empty paper with a noise of 0.02 of brightness has less
FAINTEST, EDGE = 0.15, 0.4  # of full ink: fainter is a smudge, of JPEG or grain; fainter does not widen the box
SMALLEST = 5  # pixels; a drawing whose longer side is shorter has no shape
SHEET, ON_IT, KEPT = 0.25, 0.005, 0.2  # least shares: of the picture, a sheet; of a sheet and its frame, ink
STEP = 0.2  # least difference of brightness at a sheet's edge, of black to white; a shadow's edge is soft
RUN, THIN = 0.12, 0.03  # of the picture's side: a run of ink that may be a part of a line, and its most thickness
ACROSS, BEYOND = 0.9, 0.1  # of the picture: what a line runs over; of the drawing: how far a line under it goes beyond
FEWEST = 2e-4  # share of the pixels that ink has at least; in 300 x 300 pixels, a stroke of 3 x 6
SPECK = 0.03  # of the pixels of the largest piece, or of a scan's dark border: what has fewer is dirt
ALLOWED = "a PNG, JPEG or image of at most 50 million pixels, or [H, W], [H, W, 3] or [H, W, 4] of bytes or of 0 to 1"

Given = str | Path | Image.Image | NDArray[np.generic]  # see ALLOWED


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
        with warnings.catch_warnings(action="ignore"):  # a decoder's, such as those about odd metadata
            colours = _read(given)
    except Exception as error:  # a damaged file can raise anything in a decoder
        why = reason(error).replace(f" {name!r}", "")
        raise UnusableImage(one_line(f"{name}: cannot be read: {why}; give {ALLOWED}")) from error
    sheet = on_sheet(colours)
    amount = _along_ink(sheet)
    above, noise = amount.clip(1e-6), NOISE * float(np.median(np.abs(amount)))
    level = float((above**4).sum() / (above**3).sum())  # of full ink: what is hardly ink hardly counts
    digit, remarks = digit_in(amount, min(max(FAINTEST * level, noise), 0.5 * level))
    if level < LEAST_CONTRAST or max(map(np.ptp, np.nonzero(digit))) + 1 < SMALLEST:
        what = f"no part of at least {SMALLEST} pixels differs enough from the background"
        raise UnusableImage(one_line(f"{name}: blank: {what}; give a picture with more contrast"))
    pixels = in_box(np.where(digit, (amount / np.percentile(amount[digit], 75)).clip(0, 1), 0))
    remarks += ["what is around a sheet, frame or box is left out"] * (sheet is not colours)
    if (amount > noise).mean() < FEWEST:
        remarks = ["no clear ink: hardly any stands out of the noise or pattern; cut the picture closer to the digit"]
    height, width = (np.ptp(at) + 1 for at in np.nonzero(pixels))
    if label(ndimage.maximum_filter(pixels, 2) > 0).max() > 1 or width > 1.5 * height:
        remarks += ["several shapes, or a wide one; a network sees one digit: cut the picture"]
    return Normalised(name, pixels, tuple(remarks), colours)


def _read(given: Given) -> Floats:
    """Return colours [H, W, 3] in [0, 1], upright and averaged down, with the page behind what is transparent."""
    if isinstance(given, str | Path):
        with Image.open(given, formats=("PNG", "JPEG")) as opened:
            return _read(opened)
    if not isinstance(given, Image.Image):
        pixels = np.asarray(given)
        fits = pixels.dtype == np.uint8 or (pixels.dtype.kind in "bf" and np.array_equal(pixels.clip(0, 1), pixels))
        if pixels.ndim not in (2, 3) or not fits:
            raise ValueError(f"it has shape {pixels.shape} and numbers of {pixels.dtype}")
        given = Image.fromarray(img_as_ubyte(pixels))
    if not 0 < given.width * given.height <= MAX_PIXELS:
        raise ValueError(f"it has {given.width} x {given.height} pixels")
    image = ImageOps.exif_transpose(given)
    if image.mode.startswith("I"):  # grey of 16 bits
        image = Image.fromarray((np.asarray(image) / 257).clip(0, 255).round().astype(np.uint8))
    # One transparent colour of a grey or RGB file is the page's; pixels of nearly that colour are the edge of the ink.
    seen = image.convert("RGB" if image.mode in ("L", "RGB") else "RGBA").convert("RGBA").convert("RGBa")
    samples = np.asarray(seen.reduce(max(1, max(image.size) // WORK_SIDE)), np.float32) / 255  # means of what is seen
    colours, opacity = np.split(samples, [3], axis=2)
    if opacity.mean() < 0.5:  # hardly more than the ink is there: black on white shows its shape
        return np.repeat(1 - opacity, 3, axis=2)
    there = opacity[..., 0] > 0.5
    return np.asarray(colours + (1 - opacity) * np.median(colours[there] / opacity[there], axis=0), np.float32)


def on_sheet(colours: Floats) -> Floats:
    """Return the part [h, w, 3] inside a dark desk, frame or box: bright, with ink, off the edge; else the picture."""
    rim = max(1, min(colours.shape[:2]) // 100)
    grey = ndimage.uniform_filter(colours.mean(axis=2), rim)
    bright = grey > threshold_otsu(grey)
    sheet = max(regionprops(clear_border(label(bright))), key=lambda one: one.area, default=None)
    area, ink = (sheet.area_filled, sheet.area_filled - sheet.area) if sheet and bright.mean() >= SHEET else (0, 0)
    frame = np.count_nonzero(clear_border(label(~bright))) - ink  # or the stroke of a 0; a desk is at the border
    if sheet is None or ink <= max(ON_IT * area, KEPT * frame) or area < SHEET * grey.size * (not frame):
        return colours
    whole, part = sheet.image_filled, colours[sheet.slice]
    inside, edge = ndimage.binary_erosion(whole, iterations=2 * rim), whole & ~ndimage.binary_erosion(whole)
    step = np.median(ndimage.morphological_gradient(grey, 2 * rim + 1)[sheet.slice][edge])
    if step < STEP or not inside.any():
        return colours
    return np.asarray(np.where(inside[..., None], part, np.median(part[inside], axis=0)), np.float32)


def _along_ink(colours: Floats) -> Floats:
    """Return how far each pixel [H, W] is from the paper, a surface of second degree, in the direction of the ink."""
    y, x = np.meshgrid(*(np.linspace(-1, 1, n, dtype=np.float32) for n in colours.shape[:2]), indexing="ij")
    terms = np.stack([np.ones_like(y), y, x, y * y, y * x, x * x], axis=2)
    few = tuple(slice(None, None, max(1, side // 64)) for side in y.shape)  # 64 to 127 rows and columns
    grid, sampled = terms[few].reshape(-1, 6).astype(float), colours[few].reshape(-1, 3)
    weights = np.append([np.median(sampled, axis=0)], np.zeros((5, 3)), axis=0)
    for _ in range(ROUNDS):  # least absolute deviations by reweighting: ink hardly moves the paper
        distance = np.linalg.norm(sampled - grid @ weights, axis=1, keepdims=True)
        trust = np.maximum(distance, SMALLEST_RESIDUAL) ** -0.5
        weights = np.linalg.lstsq(grid * trust, sampled * trust, rcond=None)[0]
    paper = terms @ weights.astype(np.float32)
    difference = colours - paper
    # Ink covers fewer pixels than paper, but differs more: it decides where the sum of third powers points.
    direction = (difference * (difference**2).sum(axis=2, keepdims=True)).sum(axis=(0, 1), dtype=float)
    amount = difference @ (direction / max(np.linalg.norm(direction), 1e-9))
    light = paper.mean(axis=2).clip(0.1)  # dark ink takes away a share of the light: less in the shade
    return np.asarray(amount * np.median(light) / light if direction.sum() < 0 else amount, np.float32)


def digit_in(amount: Floats, floor: float) -> tuple[NDArray[np.bool_], list[str]]:
    """Return the pixels that may be a digit's, and remarks; more ink [H, W] than `floor`, in any unit, is drawn."""
    drawn = np.asarray(amount > floor)
    lines = _lines(drawn, under=True) | _lines(drawn.T, under=False).T
    if lines.any():  # strokes that cross them stay whole
        gap = int(2 * ndimage.distance_transform_edt(lines).max()) + 2
        drawn &= ndimage.grey_closing(_without_specks(drawn & ~lines), gap)
    inside = np.asarray(clear_border(label(drawn)) > 0)
    n_cut = np.count_nonzero(drawn) - np.count_nonzero(inside)
    is_border = np.count_nonzero(inside) >= SPECK * n_cut
    at_edge = "what touches it is left out" if is_border else "the digit may be cut off"
    remarks = {"straight lines are left out": lines.any(), f"ink touches the edge of the picture: {at_edge}": n_cut > 0}
    return _without_specks(inside if is_border else drawn), [remark for remark, holds in remarks.items() if holds]


def _lines(drawn: NDArray[np.bool_], under: bool) -> NDArray[np.bool_]:
    """Return thin lines across [H, W], also somewhat tilted ones, without the strokes that lie along them.

    A line runs over the whole picture; or lies under all other ink and goes beyond it at both ends, as no stroke does.
    """
    lines, width = np.zeros_like(drawn), drawn.shape[1]
    runs = ndimage.grey_opening(drawn, (1, max(3, round(RUN * width))))
    rest = _without_specks(drawn & ~runs)
    if np.count_nonzero(rest) < FEWEST * drawn.size:
        return lines
    (top, left, bottom, right) = regionprops(rest.astype(np.uint8))[0].bbox
    for one in regionprops(label(runs)):
        _, start, last, stop = one.bbox
        is_beyond = min(left - start, stop - right) >= BEYOND * (right - left)
        is_under = under and is_beyond and last >= bottom - 0.1 * (bottom - top)
        thick = one.image.sum(axis=0)
        if (is_under or stop - start >= ACROSS * width) and thick.mean() <= max(2.0, THIN * min(drawn.shape)):
            lines[one.slice] |= one.image & (thick <= np.median(thick) + 1)
    return lines


def _without_specks(drawn: NDArray[np.bool_]) -> NDArray[np.bool_]:
    pieces = label(drawn)
    sizes = np.bincount(pieces[drawn], minlength=1)
    return np.asarray(drawn & (sizes[pieces] >= SPECK * sizes.max()))


def in_box(ink: Floats) -> Floats:
    """Return ink [H, W] in MNIST's form [28, 28]; each pixel is the mean of the area that it covers."""
    top, left, bottom, right = regionprops((ink >= EDGE).astype(np.uint8))[0].bbox
    sides = [max(1, round(20 * side / max(bottom - top, right - left))) for side in (bottom - top, right - left)]
    small = resize_local_mean(ink[top:bottom, left:right], sides)
    y, x = (min(max(round(14 - at), 0), 28 - n) for at, n in zip(ndimage.center_of_mass(small), sides, strict=True))
    page = np.zeros((28, 28), np.float32)
    page[y : y + sides[0], x : x + sides[1]] = small
    return np.asarray((page * 255).round() / np.float32(255), np.float32)
