"""`table`: the tables from the records."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cli.options import INCOMPLETE, add_place, check_records, folder, place_options, warn
from bench.core.errors import ConfigError, unknown_name
from bench.core.store import Store
from bench.plan.registry import manifests

if TYPE_CHECKING:
    from bench.core.records import Record
    from bench.show.tables.cells import Table


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("name", nargs="?", help="one table, printed (default: the summary)")
    add_place(parser)
    parser.add_argument("--format", choices=("text", "md", "csv", "tex"), default="text", help="how to print it")
    parser.add_argument("--write", action="store_true", help="write all tables to RESULTS/tables")
    parser.add_argument("--readme", type=Path, help="update the generated blocks of this README")
    parser.add_argument("--check", action="store_true", help="with --readme: fail if the blocks are not up to date")
    parser.set_defaults(action=_table)


def _table(arguments: argparse.Namespace) -> int:
    from bench.show.tables import tables

    check_records(arguments)
    store = Store(arguments.results)
    made, problems = _make_tables(arguments, store)
    if arguments.name == "throughput" and arguments.name not in made:
        raise ConfigError(f"no speeds in {arguments.results}; python -m benchmarks.throughput measures them")
    if arguments.name == "determinism" and arguments.name not in made:
        raise ConfigError(f"no report in {arguments.results}; python -m tests.stress determinism --write makes it")
    if arguments.name is not None and arguments.name not in made:
        raise unknown_name("table", arguments.name, made)
    for problem in problems:
        warn(problem)
    if arguments.write:
        tables.write_tables(made, folder(arguments, "tables"))
    if arguments.readme is not None:
        differs = tables.update_readme(arguments.readme, made, check=arguments.check)
        if differs and arguments.check:
            print(f"error: the tables in {arguments.readme} are not those of the records", file=sys.stderr)
            return 1
    elif arguments.name is not None:
        print(tables.render(made[arguments.name], arguments.format))
    else:
        print(tables.terminal_summary(made))
    return INCOMPLETE if problems else 0


def print_tables(arguments: argparse.Namespace, store: Store, write: bool, width: int, rows: int | None) -> None:
    """Print the summary of a results folder's tables, see `terminal_summary`; `write` also writes them all."""
    from bench.show.tables import tables

    made, problems = _make_tables(arguments, store)
    for problem in problems:
        warn(problem)
    if write:
        tables.write_tables(made, folder(arguments, "tables"))
    print(tables.terminal_summary(made, width, rows, place_options(arguments)))


def _make_tables(arguments: argparse.Namespace, store: Store) -> tuple[dict[str, Any], list[str]]:
    from bench.judge.claims import load_claims
    from bench.show.determinism_files import read_all as read_determinism
    from bench.show.tables import tables
    from bench.show.tables.determinism import determinism_table
    from bench.show.tables.papers import load_papers, papers_table
    from bench.show.throughput_files import read_all as read_speeds

    records, problems = store.all_records()
    device = arguments.device.split(":")[0]
    chosen = tables.select(records, arguments.profile, device, arguments.precision, problems)
    speeds, untrusted = read_speeds(arguments.results)
    made = tables.build_tables(chosen, load_claims(), speeds=speeds)
    answers, changed = _answers(store, chosen)
    made.update(answers)
    untrusted += changed
    made["papers"] = papers_table(load_papers())
    repeatable, changed = read_determinism(arguments.results)
    if repeatable:
        made["determinism"] = determinism_table(repeatable, manifests())
    made["precision"] = tables.precision_table(records, arguments.profile, device, manifests(), store.scores)
    return made, [*(problem.reason for problem in problems), *untrusted, *changed]


def _answers(store: Store, records: Sequence[Record]) -> tuple[dict[str, Table], list[str]]:
    """Return the answers to the ladders' questions, and what is wrong with the readings."""
    from bench.judge.claims import load_claims
    from bench.judge.ladder import selection
    from bench.judge.ladder.effects import Numbers
    from bench.judge.ladder.readings import read_all
    from bench.judge.results import Results
    from bench.show.tables.answer import answer_tables

    readings, problems = read_all(store)
    numbers = Numbers(Results(records, manifests()), readings)
    found = answer_tables(selection.chosen(()), numbers, load_claims()).values()
    return {table.name: table for table in found}, problems
