"""`verdict`: which reported numbers reproduce, and why."""

from __future__ import annotations

import argparse
import difflib
import json

from bench.cli.options import INCOMPLETE, add_place, check_records, warn
from bench.core.errors import ConfigError, unknown_name
from bench.core.store import Store
from bench.judge.claims import load_claims
from bench.show.tables import tables
from bench.show.tables.verdicts import as_json, explain, summary_table, verdicts_table


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("claim", nargs="?", help="explain this claim step by step (default: a line for every one)")
    add_place(parser)
    parser.add_argument("--document", help="only the claims of this document")
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.set_defaults(action=_verdict)


def _verdict(arguments: argparse.Namespace) -> int:
    check_records(arguments)
    records, problems = Store(arguments.results).all_records()
    device = arguments.device.split(":")[0]
    chosen = tables.select(records, arguments.profile, device, arguments.precision, problems)
    results, verdicts = tables.verdicts_of(chosen, load_claims())
    sources = dict.fromkeys(verdict.claim.source for verdict in verdicts)
    if arguments.document not in (None, *sources):
        raise unknown_name("document", arguments.document, sources)
    verdicts = [verdict for verdict in verdicts if arguments.document in (None, verdict.claim.source)]
    if arguments.claim is not None:
        names = [verdict.claim.id for verdict in verdicts]
        if arguments.claim not in names:
            (near,) = difflib.get_close_matches(arguments.claim, names, n=1, cutoff=0)
            raise ConfigError(f"claim '{arguments.claim}' is unknown; nearest: {near}; `verdict` lists all")
        verdicts = [verdicts[names.index(arguments.claim)]]
    for problem in problems:
        warn(problem.reason)
    if arguments.json:
        print(json.dumps([as_json(results, verdict) for verdict in verdicts], indent=1))
    elif arguments.claim is not None:
        print("\n\n".join(explain(results, verdict) for verdict in verdicts))
    else:
        print(tables.render(verdicts_table(results, verdicts), "text"))
        print(tables.render(summary_table(results, verdicts), "text"))
    return INCOMPLETE if problems else 0
