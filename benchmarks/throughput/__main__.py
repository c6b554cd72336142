"""`python -m benchmarks.throughput`: times our code and the documents' own in turn, in one run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.cli import INCOMPLETE
from bench.cli.main import Parser, guarded
from bench.cli.options import count, names, positive, threads
from bench.core.precision import check_device
from bench.show.tables.render import render
from benchmarks.throughput import measure
from benchmarks.throughput.measure import throughput_table


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what the command line asks for, and return the exit code."""
    return guarded(lambda: _throughput(_parser().parse_args(argv)))


def _parser() -> Parser:
    parser = Parser(
        prog="python -m benchmarks.throughput",
        description="Times blocks of our code and of the document's code in turn, and prints a table as Markdown. Let "
        "nothing else run on the machine meanwhile: it takes 15 minutes.",
        allow_abbrev=False,
    )
    parser.add_argument("approaches", nargs="*", metavar="APPROACH", help="default: all of the documents")
    parser.add_argument("--what", type=names, default=measure.WHATS, help="default: train,predict")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--draws", type=count, default=100, metavar="N", help="of a prediction (default: 100)")
    parser.add_argument("--rounds", type=count, default=7, metavar="N", help="blocks of each side (default: 7)")
    parser.add_argument("--block", type=positive, default=1.0, metavar="SECONDS", help="a block (default: 1)")
    parser.add_argument("--images", type=count, metavar="N", help="predict at most N test images (default: all)")
    parser.add_argument("--threads", type=threads, help="threads of the frameworks (default: all cores)")
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets, looked at first")
    return parser


def _throughput(given: argparse.Namespace) -> int:
    check_device(given.device)
    asked = measure.requests(
        given.approaches,
        given.what,
        device=given.device,
        draws=given.draws,
        rounds=given.rounds,
        block_s=given.block,
        images=given.images,
        threads=given.threads,
        data_dir=str(given.data_dir.resolve()) if given.data_dir else None,
    )
    found = measure.run(asked, lambda line: print(line, file=sys.stderr, flush=True))
    print(render(throughput_table(found), "md"))
    return 0 if all(one.outcome == "done" for one in found) else INCOMPLETE


if __name__ == "__main__":
    sys.exit(main())
