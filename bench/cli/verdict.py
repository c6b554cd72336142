"""`verdict`: which reported numbers reproduce, how sharply we know, and why."""

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
from bench.judge.stats.rule import Verdict
from bench.judge.stats.verdicts import Judgement
from bench.show.reasoning import as_json, explain
from bench.show.tables.alternatives import against_lines
from bench.show.tables.headline import load_short_names
from bench.show.terminal import screen
from bench.show.verdict_screen import all_text, ends_text, summary_text


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("claim", nargs="?", help="explain this claim step by step (default: a line an end result)")
    add_place(parser)
    parser.add_argument("--document", help="only the claims of this document")
    parser.add_argument("--all", action="store_true", help="also curves over epochs, computed numbers and all points")
    parser.add_argument("--json", action="store_true", help="for machines: every claim")
    add_own(parser)
    parser.set_defaults(action=_verdict)


def _verdict(arguments: argparse.Namespace) -> int:
    check_records(arguments)
    if is_asked(arguments):
        return answer(arguments)
    material = material_of(arguments)
    judgement = _chosen(material.judgement, arguments.document)
    verdicts = list(judgement.verdicts)
    if arguments.claim is not None:
        names = [verdict.claim.id for verdict in verdicts]
        if arguments.claim not in names:
            (near,) = difflib.get_close_matches(arguments.claim, names, n=1, cutoff=0)
            raise ConfigError(f"claim '{arguments.claim}' is unknown; nearest: {near}; `verdict --all` lists all")
        verdicts = [verdicts[names.index(arguments.claim)]]
    warn(material)
    if arguments.json:
        print(json.dumps(as_json(judgement, verdicts), indent=1))
    elif arguments.claim is not None:
        print(_explained(judgement, material.results, verdicts[0]))
    else:
        text = all_text if arguments.all else ends_text
        print(text(judgement, load_short_names(), screen().width))
        print(f"{material.results.describe(spread=False)}\n{summary_text(judgement)}")
    return INCOMPLETE if material.problems else 0


def _explained(judgement: Judgement, results: Results, verdict: Verdict) -> str:
    """Return the rule step by step, then the alternatives."""
    lines = [f"  {'against':<12} {line}" for line in against_lines(against(verdict.claim, results))]
    return "\n".join([explain(judgement, verdict), *lines])


def _chosen(judgement: Judgement, document: str | None) -> Judgement:
    """Return the verdicts of one document, or all."""
    sources = dict.fromkeys(verdict.claim.source for verdict in judgement.verdicts)
    if document is None:
        return judgement
    if document not in sources:
        raise unknown_name("document", document, sources)
    return judgement.of_documents([document])
