"""Turns ink into an image of MNIST's form, as MNIST was made of NIST's black and white images.

LeCun, Bottou, Bengio, Haffner 1998, "Gradient-based learning applied to document recognition", section III.A: the
image is scaled into a box of 20x20 pixels with its aspect kept. Antialiasing makes the grey levels. Then the image is
shifted so that its centre of mass is in the middle of 28x28.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from bench.core.errors import UnusableImage
from bench.show.predict.ink import find_ink, sides
from bench.show.predict.paper import FEWEST, Floats
from bench.show.predict.reading import Given, Picture, read

SIDE = 28  # pixels
EDGE = 0.4  # of full ink; fainter pixels do not widen the box. Of 0.15 to 0.5, 0.4 restored enlarged digits best
BOX = 20  # pixels, the longer side of what is drawn
CENTRE = 14.0  # place, counted from 0, of the pixel that has the centre of mass
SMALLEST = 5  # pixels; a drawing whose longer side is shorter has no shape
SHOWN = 240  # pixels, the longer side of the small copy for figures


@dataclass(frozen=True)
class Normalised:
    """A picture as a network sees it."""

    path: str
    size: tuple[int, int]  # width and height of the picture, pixels
    pixels: Floats  # [28, 28], bytes / 255, ink is bright
    dark_on_light: bool
    is_clear: bool  # whether the ink stands out of the noise of the background
    remarks: tuple[str, ...]  # why it may not be a picture of one upright digit
    shown: Floats  # [h, w, 3], a small copy of the picture for figures


def normalise(given: Given, name: str = "picture") -> Normalised:
    """Read a PNG or JPEG, an image or an array and bring it to MNIST's form; `name`: see `read`.

    Raises:
        UnusableImage: it cannot be read, is too large or blank, or its drawing is smaller than SMALLEST pixels.
    """
    return from_picture(read(given, name))


def from_picture(picture: Picture) -> Normalised:
    """Bring a decoded picture to MNIST's form; raises UnusableImage as `normalise` does."""
    ink = find_ink(picture)
    height, width = sides(ink.amount >= EDGE)
    if max(height, width) < SMALLEST:
        raise UnusableImage(
            f"{picture.path}: blank but for {width} x {height} pixels; a digit needs {SMALLEST}: "
            "give a larger picture of it"
        )
    remarks = [*ink.remarks]
    if not ink.is_clear:
        remarks.append(
            f"no clear ink: less than {100 * FEWEST:g} % of the picture stands out of its noise or pattern; cut it "
            "closer to the digit"
        )
    if ink.n_shapes > 1:
        remarks.append(f"{ink.n_shapes} shapes stand apart; a network sees them as one digit: cut the picture")
    image = Image.fromarray((picture.colours.clip(0, 1) * 255).round().astype(np.uint8))
    image.thumbnail((SHOWN, SHOWN))
    pixels, small = centred(fit_box(ink.amount)), np.asarray(image, np.float32) / 255
    return Normalised(picture.path, picture.size, pixels, ink.dark_on_light, ink.is_clear, tuple(remarks), small)


def fit_box(amount: Floats) -> Floats:
    """Return ink [H, W] scaled so that the longer side of its box is BOX pixels, with a border of one pixel around it.

    The box holds all pixels of at least EDGE. The border has room for fainter ones, such as the blurred rim of a
    photographed stroke. Each pixel of the result is the mean of the area that it covers.
    """
    box = amount >= EDGE
    first = [int(box.any(axis=1 - axis).argmax()) for axis in (0, 1)]
    kept = [max(1, round(side * BOX / max(sides(box)))) for side in sides(box)]
    down, across = map(_areas, first, sides(box), kept, amount.shape)
    return np.asarray(down @ amount @ across.T, np.float32)


def _areas(first: int, side: int, pixels: int, reach: int) -> Floats:
    """Return weights [pixels + 2, reach] that average `reach` old pixels into new ones.

    `pixels` new ones share the `side` old ones from `first` on; one more at each end makes the border. A row sums to 1,
    or to less at a border that reaches over the end of the picture.
    """
    step = side / pixels
    edges = first + step * np.arange(-1, pixels + 2)
    place = np.arange(reach)
    overlap = np.minimum(edges[1:, None], place + 1) - np.maximum(edges[:-1, None], place)
    return np.asarray(overlap.clip(0) / step, np.float32)


def centred(ink: Floats) -> Floats:
    """Place ink [h, w] from `fit_box` on 28x28 pixels, with its centre of mass in pixel (14, 14).

    If that would cut off ink inside the border, the ink moves only as far as it can.
    """
    page = np.zeros((SIDE + 2, SIDE + 2), np.float32)  # the border may be cut off
    corner = []
    for axis in (0, 1):
        mass = ink.sum(axis=1 - axis, dtype=np.float64)
        middle = float((mass * np.arange(len(mass))).sum() / mass.sum())
        corner.append(min(max(round(CENTRE - middle) + 1, 0), SIDE + 2 - len(mass)))
    y, x = corner
    page[y : y + ink.shape[0], x : x + ink.shape[1]] = ink
    return np.asarray((page[1:-1, 1:-1].clip(0, 1) * 255).round() / np.float32(255), np.float32)
