"""`verdict`: which reported numbers reproduce, and why; the same for a user's number."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import textwrap
from collections.abc import Mapping, Sequence

from bench.cli import INCOMPLETE
from bench.cli.inputs import inputs_of, warn_of_problems
from bench.cli.options import add_record_options, say
from bench.cli.reading import add_baseline, check_records
from bench.core.errors import ConfigError, check_known
from bench.judge.alternatives.own import PRINTED, OwnNumber, judge_own
from bench.judge.alternatives.weighing import against
from bench.judge.claims import Claim
from bench.judge.stats.papers import PAPER, claims_by_interpretation, load_papers, paper_claims
from bench.judge.stats.rule import Verdict
from bench.judge.stats.verdicts import Judgement
from bench.plan.registry import group_of
from bench.show.inputs import Inputs
from bench.show.reasoning import as_json
from bench.show.screens.verdict import (
    OF_YOURS,
    all_text,
    ends_text,
    folded,
    in_short,
    like_shipped,
    own_json,
    own_text,
    processors,
    rerun_json,
    summary_text,
)
from bench.show.tables.alternatives import against_json, end_results_against, explained, in_brief
from bench.show.tables.render import render
from bench.show.tables.verdicts import load_short_names
from bench.show.terminal import screen, unfolded

OWN = ("approach", "metric", "reported")
OF_OWN = {"recipe": "published", "protocol": "published", "printed": "rounded", "margin": None}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "claim", nargs="?", help=f"explain this claim step by step, or {PAPER} (default: a line per end result)"
    )
    add_record_options(parser)
    add_baseline(parser)
    parser.add_argument("--document", help="only the claims of this document")
    parser.add_argument(
        "--all", action="store_true", help="also curves over epochs, computed numbers and all points, by name"
    )
    parser.add_argument("--json", action="store_true", help="print JSON: every claim")
    own = parser.add_argument_group("your own number", "all three of --approach, --metric and --reported")
    own.add_argument("--approach", metavar="NAME", help="the network that it is about")
    own.add_argument("--metric", metavar="NAME", help="accuracy, ...; or a whole key: mnist/test10k/accuracy")
    own.add_argument("--reported", metavar="X", help="the number as printed, with all its digits: .985")
    own.add_argument("--recipe", default="published", help="the recipe that it comes from (default: published)")
    own.add_argument("--protocol", default="published", help="how it was measured (default: published)")
    own.add_argument(
        "--printed", choices=PRINTED, default="rounded", help="how its last digit was made (default: rounded)"
    )
    own.add_argument("--margin", type=float, metavar="M", help="difference that would matter (default: as declared)")
    parser.set_defaults(action=_verdict)


def _refuse(arguments: argparse.Namespace, options: Mapping[str, object], what: str) -> None:
    """Raise ConfigError if one of the options was given; it belongs only to `what`."""
    for name, usual in options.items():
        if getattr(arguments, name) != usual:
            raise ConfigError(f"--{name} is for {what}")


def _is_own(arguments: argparse.Namespace) -> bool:
    return any(getattr(arguments, name) is not None for name in OWN)


def _verdict(arguments: argparse.Namespace) -> int:
    check_records(arguments)
    if _is_own(arguments):
        _refuse(arguments, {"document": None, "all": False}, "the documents' numbers; leave it out")
        return _own(arguments)
    _refuse(arguments, OF_OWN, "a number of your own; give --approach, --metric and --reported too")
    if PAPER in ((arguments.claim or "").partition(".")[0], arguments.document):
        return _paper(arguments, inputs_of(arguments, reads_others=False, group="paper"))
    inputs = inputs_of(arguments, reads_others=False)
    judgement = inputs.judgement
    if arguments.document is not None:
        sources = dict.fromkeys(verdict.claim.source for verdict in judgement.verdicts)
        check_known("document", sources, arguments.document)
        judgement = judgement.of_documents([arguments.document])
    verdicts = list(judgement.verdicts)
    if arguments.claim is not None:
        verdicts = [_of_claim(arguments.claim, verdicts)]
    warn_of_problems(inputs)
    if arguments.json:
        found = [as_json(judgement, verdict) for verdict in verdicts]
        if len(verdicts) == 1:
            found[0]["alternatives"] = against_json(against(verdicts[0].claim, inputs.judged))
        yours = {one.claim.id: rerun_json(one) for one in inputs.reruns}
        found = [{**one, "yours": yours.get(verdict.claim.id)} for one, verdict in zip(found, verdicts, strict=True)]
        print(json.dumps(found, indent=1))
    elif arguments.claim is not None:
        print(unfolded(folded(explained(judgement, inputs.judged, verdicts[0]), screen().width)))
        say(
            "\n".join(
                textwrap.fill(like_shipped(one), screen().width)
                for one in inputs.reruns
                if one.claim == verdicts[0].claim
            )
        )
    else:
        _say_all(judgement, inputs, arguments.all)
    return INCOMPLETE if inputs.problems else 0


def _of_claim(name: str, verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on a claim.

    `name`: its id, the form that `_with_approach` returns, or the short name on the screen of end results.

    Raises:
        ConfigError: no claim has the name, or several claims have it.
    """
    ids = {verdict.claim.id: verdict for verdict in verdicts}
    known = {_with_approach(verdict.claim): verdict for verdict in reversed(verdicts)} | ids
    short = [claim for claim, text in load_short_names().items() if text == name and claim in ids]
    if len(short) == 1:
        return ids[short[0]]
    if short:
        raise ConfigError(f"'{name}' is the name of several claims: {', '.join(short)}; give one of these")
    if name not in known:
        near = ", ".join(difflib.get_close_matches(name, ids, n=3, cutoff=0))
        raise ConfigError(f"claim '{name}' is unknown; nearest: {near}; `verdict --all` names all")
    return known[name]


def _say_all(judgement: Judgement, inputs: Inputs, every: bool) -> None:
    """Print the verdicts on end results, or on `every` number, their records and counts, and the other recipes."""
    names, width = load_short_names(), screen().width
    ids = {verdict.claim.id for verdict in judgement.verdicts}
    keys = {key for verdict in judgement.verdicts for key in verdict.sample.sources}
    yours = [one for one in inputs.reruns if one.claim.id in ids]
    print(unfolded((all_text if every else ends_text)(judgement, names, width, yours)))
    if yours:
        for line in (f"{in_short(yours, names)}.", f"{OF_YOURS} {processors(yours)}"):
            say(textwrap.fill(line, width))
    say(textwrap.fill(inputs.judged.describe(False, keys), width))
    say(summary_text(judgement, width, has_p=not yours))
    others = end_results_against(inputs.judged, [verdict.claim for verdict in judgement.verdicts])
    say("\n".join(textwrap.fill(line, width) for line in in_brief(others, names)))


def _with_approach(claim: Claim) -> str:
    """Return the id of a claim with the suite's name of the approach in the place of the document's name for it."""
    document, _, rest = claim.id.partition(".")
    return f"{document}.{claim.approach}.{rest.partition('.')[2]}"


def _paper(arguments: argparse.Namespace, inputs: Inputs) -> int:
    """Print the verdicts on the paper behind the tutorials, whose claims are not those of the documents."""
    if arguments.claim not in (None, PAPER) or arguments.document not in (None, PAPER):
        raise ConfigError(f"{PAPER} is a paper with a table of its own; give its name alone")
    warn_of_problems(inputs)
    from bench.show.tables.registry import one_table  # here: the other verdicts need no table

    table = one_table(inputs, PAPER)
    print(json.dumps(table.lines, indent=1) if arguments.json else render(table))
    return INCOMPLETE if inputs.problems else 0


def _own(arguments: argparse.Namespace) -> int:
    """Print the verdict on the user's number."""
    if arguments.claim is not None:
        raise ConfigError(f"your own number is not a claim of a document; leave out '{arguments.claim}'")
    missing = [f"--{name}" for name in OWN if getattr(arguments, name) is None]
    if missing:
        raise ConfigError(f"a number of your own needs {', '.join(missing)} too")
    if arguments.margin is not None and not 0 <= arguments.margin < float("inf"):
        raise ConfigError(f"--margin {arguments.margin} is not a difference; give 0 or a positive number")
    fields = [field.name for field in dataclasses.fields(OwnNumber)]
    own = OwnNumber(**{name: getattr(arguments, name) for name in fields})
    inputs = inputs_of(arguments)
    claims = [*inputs.claims, *claims_by_interpretation(paper_claims(load_papers()))]
    judged = judge_own(own, inputs.of(group_of(own.approach)).judged, claims)
    warn_of_problems(inputs)
    print(json.dumps(own_json(judged), indent=1) if arguments.json else own_text(judged, screen().width))
    return INCOMPLETE if inputs.problems else 0
