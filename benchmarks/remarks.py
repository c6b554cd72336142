"""How often the remarks of `predict` appear: python -m benchmarks.remarks.

Writes benchmarks/remarks.json and the table of docs/predict.md. The pictures are made of MNIST's test digits, 28x28
pixels each. The networks are those that come with the suite.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from tabulate import tabulate

from bench.cli.main import Parser, guarded
from bench.core.files import with_block, write_atomically
from bench.core.project import RESULTS, TOP
from bench.core.store import Store
from bench.core.text import THREE
from bench.data.splits import load_split
from bench.show.predict import Predictor, fits
from bench.show.predict.ink import shapes
from bench.show.predict.normalise import SIDE, Normalised
from bench.show.predict.reading import Floats
from bench.show.predict.turned import TURNS, Answerer, turn, with_remarks
from tools.ship_fits import APPROACHES, RECIPES

PAIRS, TURNED = 1_000, 1_500  # number of pairs, of the first 2,000 digits, and of digits that are turned
DRAWS = 20
COLUMNS = ("remark", "pictures", "appears for", "share")
GAP = 5  # empty columns between the digits of a pair
HOW = ("upright", *(f"turned {words}" for words in TURNS.values()))  # by number of quarters to the left
PAGE, FOUND = TOP / "docs" / "predict.md", Path(__file__).with_suffix(".json")
MARKS = ("<!-- remarks -->\n\n", "\n\n<!-- end of remarks -->")

Rates = dict[str, dict[str, list[int]]]  # remark -> kind of pictures -> [number with the remark, number of all]


def two_shapes(digits: Floats) -> dict[str, list[int]]:
    """Count how many digits [N, 28, 28], and how many pairs of neighbours, are taken for two shapes."""
    alone = sum(shapes(digit) > 1 for digit in digits)
    cut = [digit[:, digit.any(axis=0)] for digit in digits[: 2 * PAIRS]]
    gap = np.zeros((SIDE, GAP), np.float32)
    pairs = [shapes(np.hstack([one, gap, other])) == 2 for one, other in zip(cut[::2], cut[1::2], strict=True)]
    return {"one digit": [int(alone), len(digits)], f"two digits, {GAP} empty columns": [sum(pairs), len(pairs)]}


def turned(digits: Floats, networks: Sequence[Answerer]) -> dict[str, list[int]]:
    """Count how many digits [N, 28, 28] get the remark "may be turned", upright and after each turn."""
    found = {}
    for quarters, how in enumerate(HOW):
        images = [_image(turn(digit, quarters)) for digit in digits]
        by_network = [network(images) for network in networks]
        answers = [[told[place] for told in by_network] for place in range(len(images))]
        told = sum(bool(image.remarks) for image in with_remarks(images, answers, networks))
        found[how] = [told, len(images)]
    return found


def _image(pixels: Floats) -> Normalised:
    return Normalised("test digit", (SIDE, SIDE), pixels, dark_on_light=False, is_clear=True, remarks=(), shown=pixels)


def rates() -> Rates:
    """Count all remarks on the test digits."""
    digits = load_split("test10k", 0).x.numpy().reshape(-1, SIDE, SIDE)
    found: Rates = {"two shapes": two_shapes(digits)}
    store = Store(RESULTS)
    for recipe in RECIPES:
        chosen = fits.choose(store, APPROACHES, (recipe,))
        networks = [Predictor.of(store, fit, DRAWS).answers for fit in chosen]
        found[f"may be turned, {recipe} networks"] = turned(digits[:TURNED], networks)
    return found


def block(found: Mapping[str, Mapping[str, Sequence[int]]]) -> str:
    """Return the table of docs/predict.md."""
    rows = [
        (remark, picture, f"{told:,} of {n:,}", f"{THREE.text(100 * told / n)} %")
        for remark, pictures in found.items()
        for picture, (told, n) in pictures.items()
    ]
    return tabulate(rows, headers=COLUMNS, tablefmt="github", disable_numparse=True)


def main() -> int:
    """Measure, and write the file and the page."""
    Parser(prog="python -m benchmarks.remarks", description="How often the remarks of predict appear.").parse_args()
    found = rates()
    write_atomically(FOUND, (json.dumps(found, indent=1) + "\n").encode())
    write_atomically(PAGE, with_block(PAGE, *MARKS, block(found)))
    sys.stdout.write(f"{block(found)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
