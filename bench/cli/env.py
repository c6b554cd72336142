"""`env`: versions, processor and code state."""

from __future__ import annotations

import argparse
import json

import torch
from tabulate import tabulate

from bench.core import environment


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.set_defaults(action=_env)


def _env(arguments: argparse.Namespace) -> int:
    found = environment.describe(torch.get_num_threads())
    if arguments.json:
        print(json.dumps(found, indent=1))
        return 0
    flat = {**{k: v for k, v in found.items() if k != "versions"}, **found["versions"]}
    print(tabulate(flat.items()))
    return 0
