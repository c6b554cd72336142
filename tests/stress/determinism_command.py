"""`determinism`: which numbers come out bit for bit, and how far the others move."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench.cli.options import INCOMPLETE
from bench.core.canonical import plain
from bench.plan.registry import manifest, manifests


def add(commands: Any) -> None:
    """Declare the commands of this file."""
    determinism = commands.add_parser(
        "determinism",
        help="what the same seed gives again, in other blocks, on more threads, on a GPU",
        description="Fits each approach a few times with two steps and compares weights and predictions bit for bit.",
    )
    determinism.add_argument("approaches", nargs="*", metavar="APPROACH", help="default: all")
    determinism.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    determinism.add_argument("--data-dir", type=Path, help="folder with the data sets, looked at first")
    determinism.add_argument("--write", action="store_true", help="keep the records and RESULTS/tables/determinism.*")
    determinism.add_argument("--json", action="store_true", help="for machines")
    determinism.set_defaults(action=_determinism)


def _determinism(arguments: argparse.Namespace) -> int:
    from bench.show import determinism_files as files
    from bench.show.tables.determinism import determinism_table
    from bench.show.tables.files import write_tables
    from bench.show.tables.render import render
    from tests.stress import determinism as measure

    chosen = [manifest(name).name for name in dict.fromkeys(arguments.approaches)] or list(manifests())
    found = []
    for name in chosen:
        print(f"{name} ...", file=sys.stderr, flush=True)
        record = measure.measure(name, arguments.data_dir)
        found.append(record)
        if arguments.write:
            files.folder(arguments.results).write(record)
    if arguments.write:
        kept, problems = files.read_all(arguments.results)
        for problem in problems:
            print(f"warning: {problem}", file=sys.stderr)
        table = determinism_table(kept, manifests())
        write_tables([table], arguments.results / "tables")
    print(json.dumps(plain(found), indent=1) if arguments.json else render(determinism_table(found, manifests())))
    return 0 if all(record.outcome == "done" for record in found) else INCOMPLETE
