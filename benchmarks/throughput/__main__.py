"""`python -m benchmarks.throughput`: times our code and the documents' own in turn, in one run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.cli import INCOMPLETE
from bench.cli.main import Parser, guarded
from bench.cli.options import count, names, positive, threads
from bench.run.devices import check_device
from bench.show.tables.render import render
from benchmarks.command import counts
from benchmarks.throughput import measure
from benchmarks.throughput.table import throughput_table


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what the command line asks for, and return the exit code."""
    return guarded(lambda: _throughput(_parser().parse_args(argv)))


def _parser() -> Parser:
    parser = Parser(
        prog="python -m benchmarks.throughput",
        description="Times blocks of our code, of the document's code and of one large matrix product in turn, and "
        "prints a table as Markdown. Let nothing else run on the machine meanwhile.",
    )
    parser.add_argument("approaches", nargs="*", metavar="APPROACH", help="default: all that have a yardstick")
    parser.add_argument("--what", type=names, default=("train", "predict"), help="default: train,predict")
    parser.add_argument("--device", type=names, default=("cpu",), help="a list of devices (default: cpu)")
    parser.add_argument("--precision", type=names, default=("float32",), help="a list (default: float32)")
    parser.add_argument("--draws", type=counts, default=(100,), help="a list of draws to predict (default: 100)")
    parser.add_argument("--rounds", type=count, default=7, metavar="N", help="blocks of each side (default: 7)")
    parser.add_argument("--block", type=positive, default=1.0, metavar="SECONDS", help="a block (default: 1)")
    parser.add_argument("--images", type=count, metavar="N", help="predict at most N test images (default: all)")
    parser.add_argument("--threads", type=threads, help="threads of the frameworks (default: all cores)")
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets, looked at first")
    return parser


def _throughput(arguments: argparse.Namespace) -> int:
    for device in arguments.device:
        check_device(device)
    asked = measure.requests(
        arguments.approaches,
        arguments.what,
        arguments.device,
        arguments.precision,
        arguments.draws,
        rounds=arguments.rounds,
        block_s=arguments.block,
        images=arguments.images,
        threads=arguments.threads,
        data_dir=str(arguments.data_dir.resolve()) if arguments.data_dir else None,
    )
    found = measure.run(asked, lambda line: print(line, file=sys.stderr, flush=True))
    print(render(throughput_table(found), "md"))
    return 0 if all(record.outcome == "done" for record in found) else INCOMPLETE


if __name__ == "__main__":
    sys.exit(main())
