"""Audit the eighty objectives and print the confusion table: python -m benchmarks.outsider [--all] [STYLE ...].

--all: every mistake of every style, 362 objectives. With names: only these styles, with the reports of the audit.
--table: print the counts by library as Markdown; needs all eighty, so also the extra `libraries`.
Exit code 1 if an outcome is not as expected and has no note.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

import torch

from bench.cli.main import Parser, guarded
from bench.core import environment
from bench.core.errors import ConfigError, check_known
from bench.judge.results import origin_of
from bench.show.tables.render import render
from benchmarks.outsider.common import Style
from benchmarks.outsider.running import GOOD, NOTES, STYLES, judged, plan
from benchmarks.outsider.table import corpus_table


def main() -> int:
    """Audit and print what the command line asks for, and return the exit code."""
    parser = Parser(prog="python -m benchmarks.outsider", description="Audit small objectives of many styles.")
    parser.add_argument("styles", nargs="*", metavar="STYLE", help="only these, and what the audit says of them")
    one = parser.add_mutually_exclusive_group()  # the table has one mistake of each style
    one.add_argument("--all", action="store_true", help="every mistake of every style")
    one.add_argument("--table", action="store_true", help="print the counts by library as Markdown")
    return guarded(lambda: _main(parser.parse_args()))


def _main(given: argparse.Namespace) -> int:
    names: Sequence[str] = given.styles
    chosen = list(plan(given.all))
    check_known("style", {style.name for style, _ in chosen}, *names)
    left_out = {style.name for style in STYLES} - (set(names) or {style.name for style, _ in chosen})
    if given.table and left_out:
        raise ConfigError(
            f"the table needs every style; left out: {', '.join(sorted(left_out))}; give no names, and install the "
            "extra: python -m pip install -c constraints.txt -e '.[libraries]'"
        )
    counts, open_ends = Counter[tuple[str, str]](), 0
    found: list[tuple[Style, str]] = []
    for style, fault in chosen:
        if names and style.name not in names:
            continue
        cell, objective, told = judged(style, fault)
        counts["a mistake" if fault else "right", cell] += 1
        found.append((style, cell))
        note = NOTES.get((style.name, fault or ""), "")
        if cell not in GOOD:
            open_ends += not note
            told_of = f"fails: {', '.join(told.fails) or 'none'}; KL an epoch: {told.kl}"
            sys.stdout.write(f"{cell}: {style.name}: {fault}: {told_of}; {objective.expected}; {note}\n")
        if names:
            sys.stdout.write(f"{cell}: {style.name}: {fault or 'right'}\n{told.text}\n")
    for (kind, cell), count in sorted(counts.items()):
        sys.stdout.write(f"{kind}: {count} {cell}\n")
    if given.table:
        table = corpus_table(found, origin_of([environment.describe(torch.get_num_threads())]))
        sys.stdout.write(render(table, "md"))
    return int(open_ends > 0)


if __name__ == "__main__":
    sys.exit(main())
