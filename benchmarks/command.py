"""What the benchmarks that time approaches in this process share: their command line, and the notes of their tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from bench.cli.main import Parser, guarded
from bench.core import environment
from bench.core.reasons import Reason, in_words
from bench.judge.results import origin_of
from bench.show.tables.cells import Table
from bench.show.tables.files import write_tables
from bench.show.tables.render import render


def run(name: str, description: str, known: Sequence[str], measure: Callable[[Sequence[str]], Table]) -> int:
    """Measure the approaches of the command line, by default all; write and print the table; return the exit code."""
    parser = Parser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument("approaches", nargs="*", metavar="APPROACH", help=f"default: {', '.join(known)}")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")

    def act() -> int:
        given = parser.parse_args()
        made = measure(given.approaches or known)
        write_tables([made], given.results / "tables", below=given.results)
        sys.stdout.write(f"{render(made)}\n")
        return 0

    return guarded(act)


def notes(load: Sequence[Reason]) -> list[str]:
    """Return the notes of a table made now; `load` is what `OtherLoad` says of the time that it took."""
    return [
        *([f"Times do not count: {in_words(*load)}."] if load else []),
        *origin_of([environment.describe(torch.get_num_threads())]),
    ]
