"""Make the worked example of docs/predict.md: four pictures, the answers to them, and the figure.

    python -m tools.make_predict_example results

Run it from the top of the repository. It uses the fits of the given results folder, of profile full; in `results`, the
shipped ones. Writes docs/predict.json, docs/predict.png and the block of docs/predict.md; the tests check that these
belong together.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench.cli.main import Parser, guarded
from bench.cli.options import given_folder
from bench.core.files import with_block, write_atomically
from bench.show.predict import PictureAnswer, Predictor, show
from bench.show.predict.normalise import Normalised, normalise
from bench.show.predict.turned import with_remarks
from tests import drawings
from tools.ship_fits import APPROACHES

DOCS = Path(__file__).resolve().parents[1] / "docs"
MARKS = ("<!-- example -->\n```\n", "\n```\n")


def pictures(folder: Path) -> list[Path]:
    """Draw a three, a letter, fur and noise."""
    rng = np.random.default_rng(0)
    return [
        drawings.save(folder / "three.png", 1 - drawings.strokes(drawings.THREE)),
        drawings.save(folder / "letter.png", 1 - drawings.glyph("A")),
        drawings.save(folder / "fur.jpg", drawings.fur(rng)),
        drawings.save(folder / "noise.png", rng.random((28, 28))),
    ]


def printed(images: list[dict[str, Any]]) -> str:
    """Return what the command `predict` prints for images that are given as its JSON has them."""
    nothing = np.zeros((0, 10))
    parts = []
    for image in images:
        size, is_dark = (image["width"], image["height"]), image["ink"] == "dark on light"
        picture = Normalised(image["image"], size, nothing, is_dark, True, tuple(image["remarks"]), nothing)
        answers = [PictureAnswer(**answer, draws=nothing) for answer in image["answers"]]
        parts.append((picture, answers))
    return "\n\n".join([*(show.text(*part) for part in parts), show.rules(answers)])


def main() -> int:
    """Make the files, and return the exit code."""
    parser = Parser(prog="python -m tools.make_predict_example", description="Make the worked example of predict.")
    parser.add_argument("results", type=given_folder, metavar="RESULTS", help="a results folder with the fits")
    return guarded(lambda: _make(parser.parse_args().results))


def _make(results: Path) -> int:
    os.environ["COLUMNS"] = "80"  # width of the printed block
    with tempfile.TemporaryDirectory() as folder:
        images = [normalise(path) for path in pictures(Path(folder))]
    networks = [Predictor(results, name).answers for name in APPROACHES]
    answers = [list(told) for told in zip(*(network(images) for network in networks), strict=True)]
    images = with_remarks(images, answers, networks)
    shown = [show.as_json(image, told) for image, told in zip(images, answers, strict=True)]
    for image in shown:
        image["image"] = Path(str(image["image"])).name
    write_atomically(DOCS / "predict.json", f"{json.dumps(shown, indent=1)}\n".encode())
    page = DOCS / "predict.md"
    write_atomically(page, with_block(page, *MARKS, printed(shown)))
    show.save(show.draw(images, answers), DOCS / "predict.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
