"""Make the example of docs/commands.md: four pictures, and the figure of the shipped networks' answers to them.

    python -m tools.make_predict_example

Writes examples/pictures and docs/predict.png. `python -m bench predict examples/pictures/*.png` gives the answers.
"""

from __future__ import annotations

import sys

import numpy as np
from PIL import Image, ImageDraw

from bench.cli.main import guarded
from bench.core.files import write_atomically
from bench.core.project import RESULTS, TOP
from bench.show.figures.style import printed, style
from bench.show.predict import networks, show
from bench.show.predict.pictures import Floats, normalise
from tests import drawings
from tools.ship_fits import APPROACHES

PICTURES = TOP / "examples" / "pictures"
FIGURE = TOP / "docs" / "predict.png"


def drawn() -> dict[str, Floats]:
    """Return the pictures by the names of their files, in their order: values in [0, 1], [H, W]."""
    return {
        "letter.png": 1 - drawings.glyph("R"),
        "noise.png": np.random.default_rng(0).random((28, 28)),
        "smiley.png": 1 - _smiley(),
        "three.png": 1 - drawings.strokes(drawings.THREE),
    }


def _smiley() -> Floats:
    image = Image.new("L", (280, 280), 0)
    pen = ImageDraw.Draw(image)
    pen.ellipse((40, 40, 240, 240), outline=255, width=14)
    for left in (95, 160):
        pen.ellipse((left, 95, left + 25, 120), fill=255)
    pen.arc((90, 90, 190, 195), 20, 160, fill=255, width=12)
    return np.asarray(image, np.float32) / 255


def main() -> int:
    """Make the files, and return the exit code."""
    return guarded(_make)


def _make() -> int:
    images = [normalise(drawings.save(PICTURES / name, pixels)) for name, pixels in drawn().items()]
    answers = [networks.ask(store, fit, images) for store, fit in networks.choose([RESULTS], APPROACHES)]
    with style():
        write_atomically(FIGURE, printed(show.draw(images, list(zip(*answers, strict=True))), "png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
