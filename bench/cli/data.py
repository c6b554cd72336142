"""`data`: list, fetch, verify and export the data sets."""

from __future__ import annotations

import argparse
import dataclasses
import json

from bench.cli import INCOMPLETE
from bench.cli.options import existing_folder, given_path, say
from bench.cli.score import add_export, export
from bench.data.fetching import fetch
from bench.data.inventory import DatasetCheck, list_datasets, verify
from bench.show.terminal import shown


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    listed = actions.add_parser("list", help="what there is", allow_abbrev=False)
    verified = actions.add_parser("verify", help="check every byte", allow_abbrev=False)
    fetched = actions.add_parser("fetch", help="get what is missing", allow_abbrev=False)
    exported = actions.add_parser("export", help="write the images that `score` asks about", allow_abbrev=False)
    every = ((listed, _data_list), (verified, _data_verify), (fetched, _data_fetch), (exported, export))
    for sub, action in every:
        sub.add_argument("--data-dir", type=existing_folder, help="folder with the data sets, looked at first")
        sub.set_defaults(action=action)
    listed.add_argument("--json", action="store_true", help="print JSON")
    verified.add_argument("names", nargs="*", help="data sets (default: all)")
    fetched.add_argument("names", nargs="*", help="data sets (default: all that are absent)")
    fetched.add_argument("--from", dest="source", type=given_path, help="a local copy instead of the network")
    add_export(exported)


def _data_list(arguments: argparse.Namespace) -> int:
    rows = [dataclasses.asdict(row) for row in list_datasets(arguments.data_dir)]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        state = "present" if row["present"] else "absent (optional)" if row["optional"] else "absent"
        size = f", {row['size_bytes'] / 1e6:.1f} MB" if row["size_bytes"] else ""
        about = f"{row['n_images']:,} images{size}; licence: {row['licence']}"
        print(shown(f"{row['name']}: {row['title']}; {about}; {state}"))
        if not row["present"]:
            print(shown(f"    {row['how']}"))
    return 0


def _data_verify(arguments: argparse.Namespace) -> int:
    checks = verify(arguments.names or None, arguments.data_dir)
    for check in checks:
        name = f"{check.name} {check.file}".rstrip()
        state = "ok" if check.ok else "absent (optional)" if _may_be_absent(check) else "FAIL"
        rest = f": {check.problem}" if check.problem else f" ({check.path})" if check.path else ""
        print(shown(f"{state:<17}  {name}{rest}"))
    return 0 if all(check.ok or _may_be_absent(check) for check in checks) else INCOMPLETE


def _may_be_absent(check: DatasetCheck) -> bool:
    return check.missing and check.optional


def _data_fetch(arguments: argparse.Namespace) -> int:
    absent = [row.name for row in list_datasets(arguments.data_dir) if not row.present]
    for name in arguments.names or absent:
        for path in fetch(name, arguments.data_dir, arguments.source):
            say(f"{name}: {path}")
    return 0
