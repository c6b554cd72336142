"""Shared by the benchmarks: a process for each measurement, the command line, and the notes of tables."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

import torch

from bench.cli.main import Parser, guarded
from bench.cli.options import count
from bench.core import environment
from bench.core.precision import check_device
from bench.core.reasons import Reason, in_words
from bench.judge.results import origin_of
from bench.show.table import Table
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
    known: Sequence[str],
    measure: Callable[[argparse.Namespace], Table],
    options: Callable[[argparse.ArgumentParser], object] = lambda _: None,
) -> int:
    """Measure what the command line asks for, print the table as Markdown, and return the exit code.

    Args:
        name: name of the module in `benchmarks`.
        description: for `--help`.
        known: the approaches that are measured if none is named.
        measure: makes the table from the parsed command line, whose `approaches` are never empty.
        options: adds the benchmark's own options to the parser.
    """
    parser = Parser(prog=f"python -m benchmarks.{name}", description=description, allow_abbrev=False)
    parser.add_argument("approaches", nargs="*", metavar="APPROACH", help=f"default: {', '.join(known)}")
    options(parser)

    def act() -> int:
        given = parser.parse_args()
        given.approaches = given.approaches or list(known)
        sys.stdout.write(render(measure(given), "md"))
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


def notes(load: Sequence[Reason] = ()) -> list[str]:
    """Return the notes of a table that was just measured; `load`: the reasons of `OtherLoad` why times do not count."""
    return [
        *([f"Times do not count: {in_words(*load)}."] if load else []),
        *origin_of([environment.describe(torch.get_num_threads())]),
    ]
