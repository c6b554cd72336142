"""Reads a PNG or JPEG file of any mode, an image or an array as colours in [0, 1]; refuses too many pixels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from bench.core.errors import UnusableImage
from bench.core.files import reason
from bench.show.predict.paper import FEWEST, Floats

MAX_PIXELS = 50_000_000  # a telephone's largest photograph; decoded with transparency, 200 MB
WORK_SIDE = 800  # pixels: a larger picture is averaged down to at most twice this, enough for any digit
FORMATS = ("PNG", "JPEG")
DEEP = 65535.0  # largest value of a sample of 16 bits
CHANNELS = (3, 4)  # of an array's last axis: red, green, blue, and opacity
SEEN_THROUGH = 0.5  # a pixel of at most this opacity is not part of the drawing
FLAT = 0.25  # if hardly a pixel's brightness is farther from the median, only the transparency shows the shape


Given = str | Path | Image.Image | NDArray[np.generic]
"""A path; an image of Pillow; or an array [H, W], [H, W, 3] or [H, W, 4] of bytes, or of numbers in [0, 1]."""


@dataclass(frozen=True)
class Picture:
    """A decoded picture, upright."""

    path: str  # of an image or array: what it is called
    size: tuple[int, int]  # width and height of the file's picture in pixels, upright
    colours: Floats  # [H, W, 3], sRGB values in [0, 1], opaque; a side has at most 2 * WORK_SIDE pixels


def read(given: Given, name: str = "picture") -> Picture:
    """Read a picture; `name` is what errors call an image or an array.

    Raises:
        UnusableImage: the file is missing, no PNG or JPEG, damaged, or has more than MAX_PIXELS pixels; or the array is
            no picture.
    """
    path = Path(given) if isinstance(given, str | Path) else None
    if path is not None and not path.is_file():
        raise UnusableImage(
            f"{path}: {'is not a file' if path.exists() else 'there is no such file'}; give a PNG or JPEG"
        )
    name = name if path is None else str(path)
    try:
        # Hide a decoder's warnings, such as those about odd metadata. `_checked` itself refuses large pictures.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(given, str | Path):
                return _decode(Path(given))
            return _upright(given if isinstance(given, Image.Image) else _from_array(given, name), name)
    except UnusableImage:
        raise
    except MemoryError as error:
        raise UnusableImage(f"{name}: too large for this machine's memory; make it smaller") from error
    except Exception as error:  # a damaged file can raise anything in a decoder
        why = " ".join(reason(error).split())
        if "cannot identify image file" in why:
            why = "it is neither PNG nor JPEG, or its beginning is damaged"
        raise UnusableImage(f"{name}: cannot be read: {why}; give a PNG or JPEG") from error


def _decode(path: Path) -> Picture:
    try:
        image = Image.open(path, formats=FORMATS)
    except Image.DecompressionBombError:
        raise _too_many(path, "far more") from None
    with image:
        stored = _checked(image, path)
        image.draft(None, (WORK_SIDE, WORK_SIDE))  # a JPEG can be decoded at a half, a quarter, an eighth
        image.load()
        return _upright(image, path, stored)


def _checked(image: Image.Image, name: str | Path) -> tuple[int, int]:
    if not image.width * image.height:
        raise UnusableImage(f"{name}: cannot be read: it has no pixels; give a larger picture")
    if image.width * image.height > MAX_PIXELS:
        raise _too_many(name, f"{image.width} x {image.height}")
    return image.size


def _upright(image: Image.Image, name: str | Path, stored: tuple[int, int] | None = None) -> Picture:
    """Return an image as a picture; `stored`: its size, where it was decoded at another."""
    stored = stored or _checked(image, name)
    turned = ImageOps.exif_transpose(image)
    swapped = (turned.width > turned.height) != (stored[0] > stored[1]) and turned.width != turned.height
    colours, opacity = _samples(turned)
    return Picture(str(name), stored[::-1] if swapped else stored, _opaque(colours, opacity))


def _from_array(given: NDArray[np.generic], name: str) -> Image.Image:
    pixels = np.asarray(given)
    if not pixels.size or (pixels.ndim != 2 and not (pixels.ndim == 3 and pixels.shape[2] in CHANNELS)):
        raise UnusableImage(f"{name}: has shape {pixels.shape}; give an array [H, W], [H, W, 3] or [H, W, 4]")
    if pixels.dtype != np.uint8:
        shares = pixels.astype(np.float32) if pixels.dtype.kind in "bf" else np.full(1, np.nan, np.float32)
        if not bool(((shares >= 0) & (shares <= 1)).all()):
            raise UnusableImage(f"{name}: has other numbers; give bytes (uint8), or floats in [0, 1]")
        pixels = (shares * 255).round().astype(np.uint8)
    return Image.fromarray(np.ascontiguousarray(pixels))


def _too_many(path: str | Path, given: str) -> UnusableImage:
    return UnusableImage(f"{path}: has {given} pixels; allowed are {MAX_PIXELS // 1_000_000} million: make it smaller")


def _samples(image: Image.Image) -> tuple[Floats, Floats | None]:
    """Return colours [H, W, 3], multiplied by the opacity, and the opacity [H, W]; None if nothing is transparent."""
    factor = max(1, max(image.size) // WORK_SIDE)
    if image.mode.startswith("I"):  # grey of 16 bits
        grey = np.asarray(image.convert("F").reduce(factor), np.float32) / DEEP
        return np.repeat(grey.clip(0, 1)[..., None], 3, axis=2), None
    # A grey or RGB file may declare one colour transparent. That is the page's colour, and pixels of nearly that colour
    # are the edge of the ink. So such a file is read as if it were opaque.
    if image.mode in ("LA", "PA", "La", "RGBA", "RGBa") or (image.mode == "P" and "transparency" in image.info):
        # RGBa is multiplied by the opacity, so that invisible colours do not change the averages.
        samples = np.asarray(image.convert("RGBA").convert("RGBa").reduce(factor), np.float32) / 255
        opacity = samples[..., 3]
        return samples[..., :3], None if opacity.min() >= 1 else opacity
    return np.asarray(image.convert("RGB").reduce(factor), np.float32) / 255, None


def _opaque(colours: Floats, opacity: Floats | None) -> Floats:
    """Return the colours with paper behind transparent pixels.

    If the whole drawing has one brightness, but for fewer pixels than ink has, only its transparency shows the shape:
    ink is drawn black on white paper.
    Otherwise the drawing includes its page, and the paper has the page's colour, the median.
    """
    if opacity is None:
        return colours
    drawn = colours[opacity > SEEN_THROUGH] / opacity[opacity > SEEN_THROUGH][:, None]
    if len(drawn) == 0:
        return np.ones_like(colours)  # nothing to be seen
    brightness = drawn.mean(axis=1)
    if (np.abs(brightness - np.median(brightness)) > FLAT).mean() < FEWEST:
        return np.repeat(1 - opacity[..., None], 3, axis=2)
    page = np.median(drawn, axis=0).astype(np.float32)
    return np.asarray(colours + (1 - opacity[..., None]) * page)
