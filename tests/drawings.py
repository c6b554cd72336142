"""Pictures drawn for tests and examples: strokes, letters, a furry texture, noise; as arrays with ink bright."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from bench.show.predict.pictures import normalise

THREE = tuple(
    zip(
        (0.2, 0.45, 0.75, 0.72, 0.42, 0.75, 0.78, 0.45, 0.18),
        (0.18, 0.05, 0.15, 0.36, 0.48, 0.6, 0.85, 0.97, 0.82),
        strict=True,
    )
)


def strokes(points, size=(160, 240), page=(400, 480), corner=(110, 90), width=22):
    """Return a smooth pen stroke through points of a unit square, float [page height, page width], ink 1."""
    knots = np.linspace(0, 1, len(points))
    at = np.linspace(0, 1, 400)
    x, y = (_smooth(knots, np.array(values), at) for values in zip(*points, strict=True))
    scale = 4  # drawn larger, so that edges are antialiased
    image = Image.new("L", (page[0] * scale, page[1] * scale), 0)
    pen = ImageDraw.Draw(image)
    for centre_x, centre_y in zip(corner[0] + x * size[0], corner[1] + y * size[1], strict=True):
        r = width / 2
        pen.ellipse([scale * v for v in (centre_x - r, centre_y - r, centre_x + r, centre_y + r)], fill=255)
    return np.asarray(image.resize(page, Image.Resampling.BOX), np.float64) / 255


def _smooth(knots, values, at):
    from scipy.interpolate import CubicSpline

    return CubicSpline(knots, values)(at)


def glyph(text, page=(300, 300), size=220):
    """Return a printed character, float [page height, page width], ink 1."""
    image = Image.new("L", page, 0)
    ImageDraw.Draw(image).text(
        (page[0] / 2, page[1] / 2), text, font=ImageFont.load_default(size), fill=255, anchor="mm"
    )
    return np.asarray(image, np.float64) / 255


def fur(rng, page=(320, 320), hairs=9000):
    """Return a photograph of fur as a cat has it: short hairs along a bending flow, in stripes; colours [H, W, 3]."""
    image = Image.new("RGB", page, (120, 90, 60))
    pen = ImageDraw.Draw(image)
    for x, y, length, shade in zip(*(rng.random((4, hairs))), strict=True):
        angle = 1.2 + 0.8 * np.sin(3 * x) + 0.6 * np.cos(4 * y) + rng.normal(0, 0.15)
        stripe = 0.5 + 0.5 * np.tanh(4 * np.sin(14 * x + 5 * np.sin(3 * y)))
        tone = np.clip((0.25 + 0.6 * stripe) * (0.7 + 0.6 * shade), 0, 1)
        start = np.array([x * page[0], y * page[1]])
        end = start + (8 + 14 * length) * np.array([np.cos(angle), np.sin(angle)])
        pen.line([*start, *end], fill=tuple(int(v * tone) for v in (235, 190, 140)), width=2)
    return np.asarray(image, np.float64) / 255


def save(path, pixels):
    """Write values in [0, 1], [H, W] or [H, W, 3 or 4], as 8 bits."""
    Image.fromarray(as_bytes(pixels)).save(path)
    return path


SEVEN = ((0.1, 0.1), (0.55, 0.0), (0.9, 0.2), (0.5, 0.55), (0.4, 1.0))
SHAPE = (strokes(SEVEN, size=(100, 150), page=(160, 200), corner=(30, 25), width=14) > 0.5).astype(np.float64)


def as_bytes(pixels):
    """Return values in [0, 1] rounded to bytes, as in a file."""
    return (np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)


def on_page(shape, page, corner):
    placed = np.zeros(page)
    placed[corner[0] : corner[0] + shape.shape[0], corner[1] : corner[1] + shape.shape[1]] = shape
    return placed


def seen(pixels):
    return normalise(as_bytes(pixels)).pixels


def stored(tmp_path, image, name="it.png", **options):
    image.save(tmp_path / name, **options)
    return normalise(tmp_path / name)


GREY = ((1 - SHAPE) * 255).astype(np.uint8)
