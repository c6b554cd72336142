"""What commands that train share: the options of a run, and a run with its progress and its failures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.cli.options import INCOMPLETE, count, positive, threads
from bench.core.errors import unknown_name
from bench.core.store import Store
from bench.plan.cells import Cell
from bench.plan.costs import estimates
from bench.run.progress import Progress


def add_training(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how to train."""
    parser.add_argument("--run", action="store_true", help="train and measure what is missing (default: only show)")
    parser.add_argument("--threads", type=threads, help="threads of a fit (default: all cores, or a worker's share)")
    parser.add_argument("--executor", default="process", help="process: each fit in its own; inline: in this one")
    parser.add_argument(
        "--workers", type=count, metavar="N", help="fits at a time (default: 1); their times do not count"
    )
    parser.add_argument("--time-limit", type=positive, metavar="SECONDS", help="most seconds for one fit and its cells")
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets, looked at first")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def train(chosen: Sequence[Cell], arguments: argparse.Namespace) -> int:
    """Train and measure what is missing of the cells, in their order; return the exit code."""
    # Here, as they import PyTorch, which a ladder that is only shown does not need.
    from bench.run.executors import EXECUTORS
    from bench.run.options import Options
    from bench.run.remote.opening import open_executor, threads_of_a_fit
    from bench.run.runner import run

    if arguments.executor not in EXECUTORS:
        raise unknown_name("executor", arguments.executor, EXECUTORS)
    executor = open_executor(arguments.executor, arguments.results, workers=arguments.workers)
    a_fits_threads = threads_of_a_fit(arguments.executor, arguments.threads, arguments.workers)
    store = Store(arguments.results)
    records, problems = store.all_records()
    data_dir = arguments.data_dir
    options = Options(
        root=str(arguments.results.resolve()),
        data_dir=str(data_dir.resolve()) if data_dir else None,
        threads=a_fits_threads,
        at_once=arguments.workers or 1,
    )
    costs = estimates(chosen, records, a_fits_threads)
    del records  # a hundred MiB that the run has no use for
    progress = Progress(costs, quiet=arguments.quiet, at_once=arguments.workers or 1)
    results = run(chosen, store, options, progress, executor, arguments.time_limit)
    for problem in problems:
        print(f"warning: {problem.reason}", file=sys.stderr)
    bad = [result for result in results if result.outcome != "done"]
    for result in bad:
        print(f"{result.outcome}: {result.cell.title()}: {result.reason}", file=sys.stderr)
    return INCOMPLETE if bad else 0
