"""`check-approach`: the contract and the audit rules over one approach, a line a check."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

from bench.cli.options import FAILED, add_approach_path


def add(commands: Any) -> None:
    """Declare the commands of this file."""
    check = commands.add_parser("check-approach", help="check an approach, yours too: contract and audit rules")
    check.add_argument("approach", metavar="NAME|PATH", help="a registered name, NAME.py, or a folder with NAME.py")
    add_approach_path(check)
    only = check.add_mutually_exclusive_group()
    only.add_argument("--audit", action="store_true", help="only the audit rules")
    only.add_argument("--contract", action="store_true", help="only the contract")
    check.add_argument("--json", action="store_true", help="for machines")
    check.set_defaults(action=_check)


def _check(arguments: argparse.Namespace) -> int:
    from bench.judge.audit.check import approaches_of, check_approach

    counts: Counter[str] = Counter()
    everything = []
    for name in approaches_of(arguments.approach):
        for line in check_approach(name, contract=not arguments.audit, audit=not arguments.contract):
            counts[line.outcome] += 1
            everything.append({"approach": name, **line.as_json()})
            if not arguments.json:
                print(line.text(), flush=True)
    if arguments.json:
        print(json.dumps(everything, indent=1))
    else:
        print("\n" + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return FAILED if counts["failed"] else 0
