"""`env`: versions, processor and code state."""

from __future__ import annotations

import argparse
import json

import msgspec
import torch

from bench.core import environment
from bench.core.canonical import plain
from bench.show.table import Table
from bench.show.terminal import shown


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(action=_env)


def _env(arguments: argparse.Namespace) -> int:
    found = environment.describe(torch.get_num_threads())
    if arguments.json:
        print(json.dumps(plain(found), indent=1))
        return 0
    machine = {name: value for name, value in msgspec.structs.asdict(found).items() if name != "versions" and value}
    rows = [(name, str(value)) for name, value in [*machine.items(), *found.versions.items()]]
    print(shown(Table("env", "", "", ("what", "here"), rows)))
    return 0
