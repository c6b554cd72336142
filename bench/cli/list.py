"""`list`: the approaches, with their recipes, corrections and variants."""

from __future__ import annotations

import argparse
import json

import msgspec

from bench.cli.options import add_approach_path, add_wide
from bench.core.errors import BenchError
from bench.plan.manifests import ApproachManifest
from bench.plan.recipes import build, profile, recipe_names, resolve
from bench.plan.registry import broken, manifests
from bench.show.terminal import Listing, shown


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_approach_path(parser)
    add_wide(parser)
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


def _why_broken(entry: ApproachManifest) -> str:
    """Return why a user's approach cannot be used, '' if it can. The suite's own approaches are not tried."""
    try:
        if entry.module:
            build(entry, resolve(entry, "published"), profile("smoke"))
    except BenchError as error:
        return f"no: {error}"
    return ""
