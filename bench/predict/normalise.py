"""From ink to MNIST's conventions, as MNIST was made of NIST's black and white images.

LeCun, Bottou, Bengio, Haffner 1998, "Gradient-based learning applied to document recognition", section III.A: the
image is scaled to fit a box of 20x20 pixels with its aspect kept, grey levels come from the antialiasing of that
scaling, and it is shifted so that its centre of mass is in the middle of 28x28.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from bench.errors import UnusableImage
from bench.predict.ink import find_ink
from bench.predict.reading import Floats, Picture, read

SIDE = 28  # pixels
BOX = 20  # pixels, the longer side of what is drawn
CENTRE = 14.0  # place, counted from 0, of the pixel that has the centre of mass: see tests/test_predict_mnist.py
SMALLEST = 5  # pixels: what is smaller on its longer side has no shape to be told by
SHOWN = 240  # pixels, the longer side of the copy that figures show


@dataclass(frozen=True)
class Normalised:
    """A picture as a network sees it."""

    path: str
    size: tuple[int, int]  # width and height of the picture, pixels
    pixels: Floats  # [28, 28], bytes / 255, ink is bright
    dark_on_light: bool  # how it was drawn
    shown: Floats  # [h, w, 3], the picture made small for figures


def normalise(path: str | Path) -> Normalised:
    """Bring a PNG or JPEG to MNIST's conventions.

    Raises:
        UnusableImage: it cannot be read, is too large, is blank, or holds less than SMALLEST pixels of ink.
    """
    return from_picture(read(Path(path)))


def from_picture(picture: Picture) -> Normalised:
    """Bring a decoded picture to MNIST's conventions; raises UnusableImage, see `normalise`."""
    ink = find_ink(picture)
    drawn = ink.amount > 0
    rows, columns = np.flatnonzero(drawn.any(axis=1)), np.flatnonzero(drawn.any(axis=0))
    cut = ink.amount[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    if max(cut.shape) < SMALLEST:
        raise UnusableImage(
            f"{picture.path}: blank but for {cut.shape[1]} x {cut.shape[0]} pixels; a digit needs {SMALLEST}: "
            "give a larger picture of it"
        )
    return Normalised(picture.path, picture.size, centred(fit_box(cut)), ink.dark_on_light, _small(picture.colours))


def fit_box(cut: Floats) -> Floats:
    """Scale ink [H, W] so that its longer side is BOX pixels; each pixel is the mean of the area that it covers."""
    height, width = cut.shape
    scale = BOX / max(height, width)
    target = (max(1, round(width * scale)), max(1, round(height * scale)))
    how = Image.Resampling.BOX if scale <= 1 else Image.Resampling.BILINEAR
    return np.asarray(Image.fromarray(np.ascontiguousarray(cut, np.float32)).resize(target, how), np.float32)


def centred(ink: Floats) -> Floats:
    """Place ink [h, w], at most 28x28, so that its centre of mass is in pixel (14, 14); nothing is cut off."""
    page = np.zeros((SIDE, SIDE), np.float32)
    corner = []
    for axis in (0, 1):
        mass = ink.sum(axis=1 - axis, dtype=np.float64)
        middle = float((mass * np.arange(len(mass))).sum() / mass.sum())
        corner.append(min(max(round(CENTRE - middle), 0), SIDE - len(mass)))
    y, x = corner
    page[y : y + ink.shape[0], x : x + ink.shape[1]] = ink
    return np.asarray((page.clip(0, 1) * 255).round() / np.float32(255), np.float32)


def _small(colours: Floats) -> Floats:
    image = Image.fromarray((colours.clip(0, 1) * 255).round().astype(np.uint8))
    image.thumbnail((SHOWN, SHOWN))
    return np.asarray(image, np.float32) / 255
