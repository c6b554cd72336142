"""`run`: train and measure missing trained runs, then write the tables, which are imported only then."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.cli import INCOMPLETE, options
from bench.core import locks
from bench.core.errors import ConfigError
from bench.core.folder import name_once
from bench.core.store import Store
from bench.core.text import one_line
from bench.data.files import check_task_data
from bench.plan.costs import estimates, speed_here
from bench.plan.recipes import profile
from bench.plan.trained_runs import TrainedRun
from bench.run.events import Options
from bench.run.executors import is_remote, open_executor, threads_of_a_fit
from bench.run.progress import Progress

if TYPE_CHECKING:
    from bench.run.runner import Result, Watcher


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    options.add_selection(parser)
    add_training(parser)
    options.add_lacking(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quiet", action="store_true", help="no progress")
    how.add_argument("--json", action="store_true", help="every event as a line of JSON instead of progress and tables")
    parser.set_defaults(action=_run, usual=vars(parser.parse_args([])))  # `usual`: for groups that cannot honour all


def _run(arguments: argparse.Namespace) -> int:
    if arguments.group and arguments.group.startswith(("uci", "posterior-")):
        from bench.cli import posterior, uci  # not at the top: they judge and show

        return uci.run_group(arguments) if arguments.group == "uci" else posterior.run_group(arguments)
    check_training(arguments)
    chosen = options.select(arguments)
    if not is_remote(arguments.executor):
        check_task_data(profile(arguments.profile).task, arguments.data_dir)
    started = time.monotonic()
    results = train(chosen, arguments, arguments.json)
    if not arguments.json:
        # Not at the top: they import all that judges and shows results, which training does not need.
        from bench.cli.ending import ending, has_document, is_wiring_check
        from bench.cli.table import write_and_print_tables
        from bench.run.progress import console_of

        if options.is_of_documents(arguments):
            write_and_print_tables(arguments, is_printed=has_document(results) and not is_wiring_check(arguments))
        console_of(sys.stdout).print("", *ending(results, time.monotonic() - started, arguments), sep="\n")
    return 0 if all(result.outcome == "done" for result in results) else INCOMPLETE


def add_training(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how to train."""
    parser.add_argument(
        "--threads",
        type=options.threads,
        help="threads of a fit (default: all cores, a share of them with --workers, 1 on a cluster)",
    )
    parser.add_argument(
        "--executor",
        default="process",
        help="process (default): each fit in a process of its own; inline: in this process; "
        "dask://HOST:PORT or tls://HOST:PORT: the workers of a Dask scheduler (docs/faults.md)",
    )
    parser.add_argument(
        "--workers",
        type=options.workers,
        metavar="N",
        help="fits at a time: with more than one, measured times do not count (default: 1; on a cluster: as many as "
        "have room)",
    )
    parser.add_argument(
        "--time-limit", type=options.positive, metavar="SECONDS", help="most seconds for one fit and its trained runs"
    )
    parser.add_argument("--memory-limit", type=options.positive, metavar="MIB", help="most address space of a process")
    parser.add_argument(
        "--checkpoint-every",
        type=options.seconds,
        metavar="SECONDS",
        help="least time between two checkpoints; 0: one after each epoch (default: 2)",
    )
    parser.add_argument("--data-dir", type=options.existing_folder, help="folder with the data sets, looked at first")


def check_training(arguments: argparse.Namespace) -> None:
    """Raise ConfigError if the options of a run contradict each other."""
    if arguments.executor == "inline" and (arguments.time_limit or arguments.memory_limit):
        raise ConfigError("--time-limit and --memory-limit need a process for each fit; choose another --executor")


def train(chosen: Sequence[TrainedRun], arguments: argparse.Namespace, as_json: bool = False) -> list[Result]:
    """Train and measure the trained runs that have no final record, in their order; return how each trained run ended.

    Args:
        chosen: the trained runs.
        arguments: the options of `add_training`.
        as_json: print events as lines of JSON on standard output.
    """
    from bench.run.runner import run  # not at the top: it imports torch, and a wrong option must not cost that time

    a_fits_threads = threads_of_a_fit(arguments.executor, arguments.threads, arguments.workers)
    store = Store(arguments.results)
    records, problems = store.records_of(trained_run.approach for trained_run in chosen)
    costs = estimates(chosen, records, speed_here(chosen[0].device, a_fits_threads))
    del records  # the run does not need them
    how = Options(
        root=str(arguments.results.resolve()),
        data_dir=arguments.data_dir.resolve() if arguments.data_dir else None,
        threads=a_fits_threads,
        checkpoint_every_s=arguments.checkpoint_every,
        memory_mib=arguments.memory_limit,
        at_once=arguments.workers or 1,
        lacking=getattr(arguments, "lacking", False),  # only `run` has this option
    )
    if not locks.are_kept(store.root):
        options.warn("this disk grants a lock twice: let no second run work on this folder; docs/faults.md says more")
    with contextlib.closing(open_executor(arguments.executor, arguments.device, arguments.workers)) as executor:
        watcher = _json_lines() if as_json else Progress(costs, quiet=arguments.quiet, at_once=executor.width())
        try:
            results = run(chosen, store, how, watcher, executor, arguments.time_limit)
        finally:
            if isinstance(watcher, Progress):
                watcher.finish()  # also after Ctrl-C: the bars must be gone before the next line is printed
    for problem in problems:
        name_once(problem.reason)
    return results


def _json_lines() -> Watcher:
    from bench.run.json_lines import JsonLines  # not at the top: most runs show bars

    return JsonLines()


def add_training_on_request(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that trains only with --run."""
    parser.add_argument("--run", action="store_true", help="train and measure what is missing (default: only show)")
    add_training(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")


def train_on_request(chosen: Sequence[TrainedRun], arguments: argparse.Namespace) -> int:
    """Train and measure the trained runs that have no final record, print what failed, and return the exit code."""
    check_training(arguments)
    bad = [result for result in train(chosen, arguments) if result.outcome != "done"]
    for result in bad:
        print(f"{result.outcome}: {result.trained_run.title()}: {one_line(result.reason)}", file=sys.stderr)
    return INCOMPLETE if bad else 0
