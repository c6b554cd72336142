"""Make the worked example of docs/commands.md: four pictures, the answers to them, and the figure.

    python -m tools.make_predict_example results

Run it from the top of the repository. It uses the fits of the given results folder, of profile full; in `results`, the
shipped ones. Writes docs/predict.json and docs/predict.png.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from bench.cli.main import Parser, guarded
from bench.cli.options import given_folder
from bench.core.files import write_atomically
from bench.show.predict import Predictor, show
from bench.show.predict.normalise import normalise
from tests import drawings
from tools.ship_fits import APPROACHES

DOCS = Path(__file__).resolve().parents[1] / "docs"


def pictures(folder: Path) -> list[Path]:
    """Draw a three, a letter, fur and noise."""
    rng = np.random.default_rng(0)
    return [
        drawings.save(folder / "three.png", 1 - drawings.strokes(drawings.THREE)),
        drawings.save(folder / "letter.png", 1 - drawings.glyph("A")),
        drawings.save(folder / "fur.jpg", drawings.fur(rng)),
        drawings.save(folder / "noise.png", rng.random((28, 28))),
    ]


def main() -> int:
    """Make the files, and return the exit code."""
    parser = Parser(
        prog="python -m tools.make_predict_example",
        description="Make the worked example of predict.",
        allow_abbrev=False,
    )
    parser.add_argument("results", type=given_folder, metavar="RESULTS", help="a results folder with the fits")
    return guarded(lambda: _make(parser.parse_args().results))


def _make(results: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        images = [normalise(path) for path in pictures(Path(folder))]
    networks = [Predictor(results, name).answers for name in APPROACHES]
    answers = [list(told) for told in zip(*(network(images) for network in networks), strict=True)]
    shown = [show.as_json(image, told) for image, told in zip(images, answers, strict=True)]
    for image in shown:
        image["image"] = Path(str(image["image"])).name
    write_atomically(DOCS / "predict.json", f"{json.dumps(shown, indent=1)}\n".encode())
    show.save(show.draw(images, answers), DOCS / "predict.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
