"""`run`: train and measure missing trained runs, then write the tables, which are imported only then."""

from __future__ import annotations

import argparse
import sys
import time

from bench.cli import INCOMPLETE
from bench.cli.options import add_selection, is_of_documents, select
from bench.cli.training import add_training, check_training, train
from bench.data.places import check_task_data
from bench.plan.recipes import profile
from bench.run.executors import is_remote


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    add_selection(parser)
    add_training(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quiet", action="store_true", help="no progress")
    how.add_argument("--json", action="store_true", help="every event as a line of JSON instead of progress and tables")
    parser.set_defaults(action=_run)


def _run(arguments: argparse.Namespace) -> int:
    check_training(arguments)
    chosen = select(arguments)
    if not is_remote(arguments.executor):
        check_task_data(profile(arguments.profile).task, arguments.data_dir)
    started = time.monotonic()
    results = train(chosen, arguments, arguments.json)
    if not arguments.json:
        # Not at the top: they import all that judges and shows results, which training does not need.
        from bench.cli.ending import LEAST_WIDTH, ending, has_document, is_wiring_check
        from bench.cli.table import write_and_print_tables
        from bench.run.progress import console_of, is_screen

        if is_of_documents(arguments):
            write_and_print_tables(arguments, is_printed=has_document(results) and not is_wiring_check(arguments))
        console = console_of(sys.stdout)
        width = max(console.size.width, LEAST_WIDTH) if is_screen(console) else None
        for line in ["", *ending(results, time.monotonic() - started, arguments, width)]:
            console.print(line)
    return 0 if all(result.outcome == "done" for result in results) else INCOMPLETE
