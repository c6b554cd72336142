"""Make the fits that come with the suite, from a results folder that has them: `python -m tools.ship_fits RESULTS`.

Writes results/shipped-fits. The weights are rounded to float16. Measures what the rounding changes on MNIST's test
images, and writes that into docs/commands.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from bench.cli.main import Parser, guarded
from bench.cli.options import given_folder
from bench.core.files import write_atomically
from bench.core.fits import read_posterior
from bench.core.project import RESULTS, TOP
from bench.core.store import Store
from bench.data.splits import load_split
from bench.interface import Posterior
from bench.measure.measuring import categorical, draws_of
from bench.measure.metrics.draws import DrawSummary, concatenate, reduce_draws
from bench.show.predict import networks
from bench.show.tables.files import with_block

APPROACHES = ("mlp", "linear_bbb", "pyro_random_module")
RECIPES = ("published", "corrected")
DRAWS = 100
BLOCK_IMAGES = 500
PAGE = TOP / "docs" / "commands.md"
MARKS = ("<!-- float16 -->\n\n", "\n\n<!-- end of float16 -->")


def main() -> int:
    """Make the files and the sentence, and return the exit code."""
    parser = Parser(
        prog="python -m tools.ship_fits", description="Make the fits that come with the suite.", allow_abbrev=False
    )
    parser.add_argument("results", type=given_folder, metavar="RESULTS", help="a results folder that has them")
    return guarded(lambda: _ship(parser.parse_args().results))


def _ship(results: Path) -> int:
    changed = list(_changes(Store(results)))
    largest, others = max(one.probability for one in changed), max(one.digits for one in changed)
    said = f"No probability changes by more than {largest:.1e}; at most {others} test digits of a fit change."
    write_atomically(PAGE, with_block(PAGE, *MARKS, said))
    return 0


class Change(NamedTuple):
    """What the rounding of one fit changes on MNIST's test images."""

    probability: float  # the largest change
    digits: int  # images whose likeliest digit changes


def _changes(trained: Store) -> Iterator[Change]:
    """Write each shipped fit; yield how much its rounding changes the mean probabilities of the same draws."""
    shipped = Store(RESULTS)
    digits = load_split("test10k", 0)
    for _, fit in (one for recipe in RECIPES for one in networks.choose([trained.root], APPROACHES, recipe)):
        kept = read_posterior(trained, fit.fit_key)
        assert kept is not None, "chosen because it is there"
        tensors, info = kept
        path = networks.posterior_path(shipped, fit.fit_key)
        shipped.write_tensors(path, {name: _rounded(value) for name, value in tensors.items()}, info)
        before, after = (_summary(networks.load(store, fit).per_row(), digits.x) for store in (trained, shipped))
        said = [each.mean_probs.argmax(1) for each in (before, after)]
        change = float(np.abs(before.mean_probs - after.mean_probs).max())
        yield Change(change, int((said[0] != said[1]).sum()))


def _rounded(value: torch.Tensor) -> torch.Tensor:
    return value.half() if value.dtype == torch.float32 else value


def _summary(posterior: Posterior, x: torch.Tensor) -> DrawSummary:
    """Return the summary of the draws for all images."""
    draws = draws_of(posterior, DRAWS)
    blocks = []
    with torch.no_grad():
        for rows in torch.arange(len(x)).split(BLOCK_IMAGES):
            blocks.append(reduce_draws(categorical(posterior, x[rows], draws, rows)))
    return concatenate(blocks)


if __name__ == "__main__":
    sys.exit(main())
