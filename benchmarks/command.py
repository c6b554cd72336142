"""Shared by the benchmarks: a process for each measurement, the command line, and the notes of tables."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

import torch

from bench.cli.main import Parser, guarded
from bench.cli.options import check_device, count
from bench.core import environment
from bench.core.reasons import Reason, in_words
from bench.judge.results import origin_of
from bench.show.table import Table
from bench.show.tables.files import write_tables
from bench.show.tables.render import render

P = ParamSpec("P")
T = TypeVar("T")


def in_own_process(call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Return the result of a call in a new process.

    In this process, a framework that ran before would have left its threads, allocator and generators.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(call, *arguments, **named).result()


def run(
    name: str,
    description: str,
    known: Sequence[str | int],
    measure: Callable[[argparse.Namespace], Table],
    options: Callable[[argparse.ArgumentParser], object] = lambda _: None,
    kind: Callable[[str], str | int] = str,
) -> int:
    """Measure what the command line asks for, write and print the table, and return the exit code.

    If approaches are named, the table is written only with `--results`, because it replaces the table of all.

    Args:
        name: name of the module in `benchmarks`.
        description: for `--help`.
        known: the approaches that are measured if none is named.
        measure: makes the table from the parsed command line, whose `approaches` are never empty.
        options: adds the benchmark's own options to the parser.
        kind: converts a word that names an approach.
    """
    parser = Parser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument(
        "approaches", nargs="*", type=kind, metavar="APPROACH", help=f"default: {', '.join(map(str, known))}"
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="where the table is kept, in the place of an earlier one (default: results; with names: not kept)",
    )
    options(parser)

    def act() -> int:
        given = parser.parse_args()
        results = given.results or (None if given.approaches else Path("results"))
        given.approaches = given.approaches or list(known)
        made = measure(given)
        if results:
            write_tables([made], results / "tables", below=results)
        sys.stdout.write(f"{render(made)}\n")
        return 0

    return guarded(act)


def counts(text: str) -> tuple[int, ...]:
    """Return the different counts of a list that is separated by commas."""
    return tuple(dict.fromkeys(map(count, text.split(","))))


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add `--device`."""
    parser.add_argument(
        "--device", type=_device, default=torch.device("cpu"), help="cpu, cuda or cuda:N (default: cpu)"
    )


def _device(name: str) -> torch.device:
    check_device(name)
    return torch.device(name)


def notes(load: Sequence[Reason]) -> list[str]:
    """Return the notes of a table that was just measured; `load`: the reasons of `OtherLoad` why times do not count."""
    return [
        *([f"Times do not count: {in_words(*load)}."] if load else []),
        *origin_of([environment.describe(torch.get_num_threads())]),
    ]
