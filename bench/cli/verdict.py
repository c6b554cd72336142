"""`verdict`: which reported numbers reproduce, and why."""

from __future__ import annotations

import argparse
import difflib
import json

from bench.cli import INCOMPLETE
from bench.cli.judged import add_own, answer, is_asked
from bench.cli.options import add_place, check_records
from bench.cli.table import material_of, warn
from bench.core.errors import ConfigError, unknown_name
from bench.judge.alternatives.weighing import against
from bench.judge.results import Results
from bench.judge.stats.verdicts import Verdict
from bench.show.tables.alternatives import against_lines
from bench.show.tables.render import render
from bench.show.tables.verdicts import as_json, explain, summary_table, verdicts_table


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("claim", nargs="?", help="explain this claim step by step (default: a line for every one)")
    add_place(parser)
    parser.add_argument("--document", help="only the claims of this document")
    parser.add_argument("--json", action="store_true", help="for machines")
    add_own(parser)
    parser.set_defaults(action=_verdict)


def _verdict(arguments: argparse.Namespace) -> int:
    check_records(arguments)
    if is_asked(arguments):
        return answer(arguments)
    material = material_of(arguments)
    results, verdicts = material.results, material.verdicts
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
    warn(material)
    if arguments.json:
        print(json.dumps([as_json(results, verdict) for verdict in verdicts], indent=1))
    elif arguments.claim is not None:
        print("\n\n".join("\n".join(_explained(results, verdict)) for verdict in verdicts))
    else:
        print(render(verdicts_table(results, verdicts), "text"))
        print(render(summary_table(results, verdicts), "text"))
    return INCOMPLETE if material.problems else 0


def _explained(results: Results, verdict: Verdict) -> list[str]:
    """Return the rule step by step, then the alternatives."""
    lines = against_lines(against(verdict.claim, results))
    return [explain(results, verdict), *(f"  against    {line}" for line in lines)]
