"""`list`: the approaches, with their recipes, corrections and variants; `list KEY`: one record, or its tables."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec

from bench.cli import INCOMPLETE
from bench.cli.options import add_approach_path, add_results, add_wide, warn
from bench.core.errors import BenchError, ConfigError
from bench.core.store import Store
from bench.core.text import one_line
from bench.plan.manifests import ApproachManifest
from bench.plan.recipes import build, profile, recipe_names, resolve
from bench.plan.registry import broken, manifests
from bench.show.terminal import Listing, shown

SHOWN = 5  # records that an error names
LONGEST = 80  # characters of a key that an error quotes


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("key", nargs="?", metavar="KEY", help="print the record whose key begins so, as JSON")
    add_approach_path(parser)
    add_results(parser)
    add_wide(parser)
    parser.add_argument("--tables", action="store_true", help="with KEY: name the tables with the record's numbers")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(action=_list)


class ListedApproach(msgspec.Struct, rename={"runs_here": "runs here"}):
    """What the command prints about an approach."""

    approach: str
    title: str
    document: str = "-"
    group: str = ""
    recipes: list[str] = []
    changes: dict[str, str] = {}
    runs_here: str = "yes"


def _list(arguments: argparse.Namespace) -> int:
    if arguments.key is not None:
        return _print_record(arguments.key, arguments.results, arguments.tables)
    if arguments.tables:
        raise ConfigError("--tables is for one record: give the first letters of its key")
    rows = [
        ListedApproach(
            approach=entry.name,
            title=entry.title,
            document=entry.document or "-",
            group=entry.group,
            recipes=recipe_names(entry),
            changes={name: change.title for name, change in entry.changes.items()},
            runs_here=entry.missing_framework() or _why_broken(entry) or "yes",
        )
        for entry in manifests().values()
    ]
    rows += [ListedApproach(each.name, each.where, runs_here=f"no: {each.error}") for each in broken()]
    if arguments.json:
        print(json.dumps(msgspec.to_builtins(rows), indent=1))
        return 0
    for row in rows:
        heading = f"{row.approach}: {row.title} [{row.document}]; runs here: {row.runs_here}"
        print(shown(Listing(heading, list(row.changes.items()))))
    return 0


def _print_record(key: str, results: Path, are_tables_asked: bool) -> int:
    """Print the one record of a folder whose key begins with `key`, or the tables that show its numbers.

    Raises:
        ConfigError: there is not exactly one such record.
    """
    records, problems = Store(results).all_records()
    found = [record for record in records if record.key.startswith(key)]
    if len(found) != 1 or not key:
        some = "; ".join(f"{record.key[:8]}: {record.title}" for record in found[:SHOWN]) or "none begins so"
        raise ConfigError(f"{one_line(key, LONGEST)}: give the first letters of one record's key in {results}; {some}")
    if are_tables_asked:
        from bench.show.inputs import Inputs  # here and below: a list of approaches needs no table
        from bench.show.screens.summary import tables_with

        (record,) = found
        print(shown(tables_with(record, Inputs(results, record.profile, record.device, record.precision))))
    else:
        print(msgspec.json.format(msgspec.json.encode(found[0], order="sorted"), indent=1).decode())
    for problem in problems:
        warn(problem.reason)
    return INCOMPLETE if problems else 0


def _why_broken(entry: ApproachManifest) -> str:
    """Return why a user's approach cannot be used, '' if it can. The suite's own approaches are not tried."""
    try:
        if entry.module:
            build(entry, resolve(entry, "published"), profile("smoke"))
    except BenchError as error:
        return f"no: {error}"
    return ""
