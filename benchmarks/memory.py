"""Memory of many draws of many images, above the model's: python -m benchmarks.memory FITS [--draws N] [--images N].

FITS is a results folder that keeps fits. Each posterior predicts in a process of its own, with whole networks if it has
them, as the protocols do. Before the measurement it predicts one image with one draw, which allocates what is allocated
once. Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from bench.cli.main import Parser, guarded
from bench.cli.options import count
from bench.core import environment
from bench.core.text import WHOLE
from bench.data.splits import load_split
from bench.judge.results import origin_of
from bench.measure.measuring import draws_of, first_rows, predict_split
from bench.show.predict.networks import choose, load
from bench.show.table import Number, Table
from bench.show.tables.render import render
from benchmarks.command import in_own_process
from tests.stress.processes import peak_mib, resident_mib

COLUMNS = ("approach", "noise", "before, MiB", "above, MiB")
CAPTION = (
    "{draws:,} draws of {images:,} test images; a network without noise has one draw. Before: memory of the process "
    "with frameworks, data and model, after one draw of one image. Above: the peak memory of the process "
    "minus column before."
)


def main() -> int:
    """Measure each published fit that is kept, and print the table; return the exit code."""
    parser = Parser(prog="python -m benchmarks.memory", description="Memory of many predictions.", allow_abbrev=False)
    parser.add_argument("fits", type=Path, help="results folder that keeps fits")
    parser.add_argument("--draws", type=count, default=1000, metavar="N", help="default: 1000")
    parser.add_argument("--images", type=count, default=10_000, metavar="N", help="default: 10000")
    return guarded(lambda: _measure(parser.parse_args()))


def _measure(given: argparse.Namespace) -> int:
    fits, draws, images = given.fits, given.draws, given.images
    lines = [in_own_process(one, fits, fit.approach, draws, images) for _, fit in choose([fits])]
    remarks = origin_of([environment.describe(torch.get_num_threads())])
    caption = CAPTION.format(draws=draws, images=images)
    made = Table("memory", "Memory of many predictions", caption, COLUMNS, lines, remarks)
    sys.stdout.write(render(made, "md"))
    return 0


def one(folder: Path, approach: str, draws: int, images: int) -> list[str | Number]:
    """Return the row of the table for one posterior."""
    ((store, fit),) = choose([folder], [approach])
    posterior = load(store, fit)
    split = first_rows(load_split("test10k", 0), images)
    predict_split(posterior, first_rows(split, 1), draws_of(posterior, 1))
    before = resident_mib()
    predict_split(posterior, split, draws_of(posterior, draws))
    return [approach, posterior.noise, Number(before, WHOLE), Number(peak_mib() - before, WHOLE)]


if __name__ == "__main__":
    sys.exit(main())
