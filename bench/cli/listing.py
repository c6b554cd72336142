"""`list` and `env`: the approaches, and the versions, processor and code state."""

from __future__ import annotations

import argparse
import json
from typing import Any

import msgspec
from tabulate import tabulate

from bench.cli.options import add_approach_path
from bench.core import environment
from bench.core.canonical import plain
from bench.core.errors import BenchError
from bench.plan.recipes import build, profile, recipe_names, resolve
from bench.plan.registry import Manifest, broken, manifests


def add(commands: Any) -> None:
    """Declare the commands of this file."""
    listing = commands.add_parser("list", help="approaches, recipes, corrections and variants")
    add_approach_path(listing)
    listing.add_argument("--json", action="store_true", help="for machines")
    listing.set_defaults(action=_list)

    env = commands.add_parser("env", help="versions, processor and code state, as records hold them")
    env.add_argument("--json", action="store_true", help="for machines")
    env.set_defaults(action=_env)


def _list(arguments: argparse.Namespace) -> int:
    rows: list[dict[str, Any]] = [
        {
            "approach": entry.name,
            "title": entry.title,
            "document": entry.document or "-",
            "recipes": recipe_names(entry),
            "changes": {name: change.title for name, change in entry.changes.items()},
            "runs here": entry.missing_framework() or _why_broken(entry) or "yes",
        }
        for entry in manifests().values()
    ]
    rows += [
        {
            "approach": each.name,
            "title": each.where,
            "document": "-",
            "recipes": [],
            "changes": {},
            "runs here": f"no: {each.error}",
        }
        for each in broken()
    ]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        print(f"{row['approach']}: {row['title']} [{row['document']}]; runs here: {row['runs here']}")
        for name, title in row["changes"].items():
            print(f"    {name}: {title}")
    return 0


def _why_broken(entry: Manifest) -> str:
    """Return why an approach from outside cannot be used, '' if it can; ours are imported only when they run."""
    try:
        if entry.module:
            build(entry, resolve(entry, "published"), profile("smoke"))
    except BenchError as error:
        return f"no: {error}"
    return ""


def _env(arguments: argparse.Namespace) -> int:
    import torch

    found = environment.describe(torch.get_num_threads())
    if arguments.json:
        print(json.dumps(plain(found), indent=1))
        return 0
    machine = {name: value for name, value in msgspec.structs.asdict(found).items() if name != "versions" and value}
    print(tabulate([*machine.items(), *found.versions.items()]))
    return 0
