"""What commands that train share: the options of a run, and a run with its progress and its failures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.commands.options import INCOMPLETE, positive
from bench.commands.run import estimates
from bench.errors import ConfigError
from bench.plan import Cell
from bench.progress import Progress
from bench.store import Store


def add_training(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how to train."""
    parser.add_argument("--run", action="store_true", help="train and measure what is missing (default: only show)")
    parser.add_argument("--threads", type=int, help="threads of the frameworks (default: all cores)")
    parser.add_argument("--executor", default="process", help="process: each fit in its own; inline: in this one")
    parser.add_argument("--time-limit", type=positive, metavar="SECONDS", help="most seconds for one fit and its cells")
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets, looked at first")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def train(chosen: Sequence[Cell], arguments: argparse.Namespace) -> int:
    """Train and measure what is missing of the cells, in their order; return the exit code."""
    from bench.runner import run
    from bench.worker import Options

    if arguments.threads is not None and arguments.threads < 1:
        raise ConfigError(f"--threads {arguments.threads} is below 1")
    store = Store(arguments.results)
    records, problems = store.all_records()
    data_dir = arguments.data_dir
    options = Options(
        root=str(arguments.results.resolve()),
        data_dir=str(data_dir.resolve()) if data_dir else None,
        threads=arguments.threads,
    )
    progress = Progress(estimates(chosen, records, arguments.threads), quiet=arguments.quiet)
    results = run(chosen, store, options, progress, arguments.executor, arguments.time_limit)
    for problem in problems:
        print(f"warning: {problem.reason}", file=sys.stderr)
    bad = [result for result in results if result.outcome != "done"]
    for result in bad:
        print(f"{result.outcome}: {result.cell.title()}: {result.reason}", file=sys.stderr)
    return INCOMPLETE if bad else 0
