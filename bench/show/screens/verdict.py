"""Verdicts on a terminal: the end results on one screen, then curves, computed numbers and all points; a user's own."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping

from bench.core.text import counted
from bench.judge.alternatives.own import JudgedNumber
from bench.judge.claims import print_interval
from bench.judge.stats.curves import SEEN_BEFORE
from bench.judge.stats.rule import AGREES, COARSE, DIFFERS, Verdict
from bench.judge.stats.verdicts import CurveVerdict, Judgement
from bench.show.outcomes import counts, how_far, why
from bench.show.reasoning import CHOSEN_AFTER, in_words, ours_text, p_text
from bench.show.tables.alternatives import against_json, against_lines
from bench.show.tables.verdicts import reported_text

NAME, REPORTED, OURS, P = 24, 8, 23, 5  # widths of the columns before the verdict
CURVE = 43
STEP = 15  # columns before what a step of an explanation says
MEANING = (
    "p: how often one more run of ours lies at least as far from our mean as the report. Agrees: even one more run "
    "of ours would land within the margin, the difference that matters. Coarsely: a shift that matters might not "
    "show. `verdict CLAIM` says why; `verdict --all` lists all claims by name."
)
LABEL = 14  # columns before what is said of a user's own number
WIDE = 120  # columns from which on a verdict is given in words


def ends_text(judgement: Judgement, names: Mapping[str, str], width: int) -> str:
    """Return a line for each end result, by document.

    Args:
        judgement: all verdicts.
        names: short names of claims.
        width: columns of the terminal; with `WIDE` or more, there are percentiles, and verdicts are in words.
    """
    lines = [_cells("", "reported", "ours [95 % of runs]", "p", f"{'%ile' if width >= WIDE else ''} verdict".strip())]
    shown = {verdict.claim.id: verdict for verdict in judgement.verdicts}
    kept = [verdict for verdict in shown.values() if verdict in judgement.ends or verdict in judgement.lasts]
    for document in dict.fromkeys(verdict.claim.source for verdict in kept):
        joint = judgement.joint.get(document)
        lines.append(document + (f": p = {p_text(joint)} for all its end results together" if joint else ""))
        lines += [_line(one, names, width) for one in kept if one.claim.source == document]
    return "\n".join(lines)


def summary_text(judgement: Judgement, width: int) -> str:
    """Return what the end results say, and what the words mean, in lines that fit a terminal of `width` columns."""
    more = " *: last point of a curve, not counted." if judgement.lasts else ""
    said = f"{counted(len(judgement.ends), 'end result')}: {counts(judgement.ends)}.{more}"
    return f"{textwrap.fill(said, width)}\n{textwrap.fill(MEANING, width)}"


def all_text(judgement: Judgement, names: Mapping[str, str], width: int) -> str:
    """Return everything: end results, curves, computed numbers, and every number with its id."""
    parts = [ends_text(judgement, names, width), _curves_text(judgement, width)]
    if judgement.computed:
        n_computed = counted(len(judgement.computed), "computed number")
        parts.append(f"{n_computed}, not trained: {counts(judgement.computed)}")
    parts.append(
        "Every number by its name (a point of a curve gets the verdict of the curve)\n"
        + "\n".join(_every(judgement, width))
    )
    return "\n\n".join(parts)


def _curves_text(judgement: Judgement, width: int) -> str:
    if not judgement.curves:
        return "No curve was measured."
    lines = [f"{counted(len(judgement.curves), 'curve')}, each one claim: {counts(judgement.curves)}"]
    lines.append(f"{'':<{CURVE}} {'p':>{P}} {'before':>{P}} verdict")
    lines += [_curve_line(one, width) for one in judgement.curves]
    lines.append("before: the earlier statistic, the smallest p of the epochs times their number")
    for one in judgement.curves:
        if one.curve.name == SEEN_BEFORE:
            lines.append(folded(f"{one.curve.name}: {CHOSEN_AFTER.format(p=p_text(one.curve.smallest_p))}", width))
    for document, joint in judgement.joint_with_curves.items():
        lines.append(f"{document}: p = {p_text(joint)} for end results and curves together")
    return "\n".join(lines)


def _curve_line(one: CurveVerdict, width: int) -> str:
    source, approach, metric, _, split = one.curve.name.split("/")
    name = _cut(f"{source} {approach} {metric}, {split}", CURVE)
    p = p_text(one.curve.evidence.p if one.curve.evidence else None)
    before = p_text(one.curve.smallest_p)
    return f"{name:<{CURVE}} {p:>{P}} {before:>{P}} {_words(one, width)}"


def _every(judgement: Judgement, width: int) -> Iterator[str]:
    ids = max((len(verdict.claim.id) for verdict in judgement.verdicts), default=0)
    for verdict in judgement.verdicts:
        evidence = verdict.evidence
        numbers = f"{p_text(evidence.p if evidence else None):>{P}}"
        if width >= WIDE:
            numbers = f"{reported_text(verdict):>{REPORTED}} {ours_text(verdict):<{OURS}} {numbers}"
        yield f"{verdict.claim.id:<{ids}} {numbers} {verdict.outcome}"


def _line(verdict: Verdict, names: Mapping[str, str], width: int) -> str:
    claim = verdict.claim
    name = names.get(claim.id) or claim.id.partition(".")[2].replace(".", " ").replace("_", " ")
    if verdict.curve:
        name = f"{name} *"
    p = p_text(verdict.evidence.p if verdict.evidence else None)
    words = _words(verdict, width)
    if width >= WIDE:
        percentile = "-" if verdict.evidence is None else f"{verdict.evidence.percentile:.0f}"
        words = f"{percentile:>4} {words}"
    return _cells(f" {name}", reported_text(verdict), ours_text(verdict), p, words)


def _cells(name: str, reported: str, ours: str, p: str, words: str) -> str:
    return f"{_cut(name, NAME):<{NAME}} {reported:>{REPORTED}} {ours:<{OURS}} {p:>{P}} {words}".rstrip()


def _words(one: Verdict | CurveVerdict, width: int) -> str:
    outcome = one.outcome
    if outcome == AGREES:
        return outcome  # its meaning is printed below
    if width >= WIDE:
        return f"agrees; {why(one)}" if outcome == COARSE else in_words(outcome, why(one))
    return how_far(one) if outcome == DIFFERS else outcome


def folded(text: str, width: int) -> str:
    """Return lines that fit a terminal; a line that goes on is indented to the text of its step."""
    lines = (
        textwrap.wrap(line, width, subsequent_indent=" " * STEP, break_on_hyphens=False) for line in text.split("\n")
    )
    return "\n".join("\n".join(line) for line in lines)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def own_text(judged: JudgedNumber, width: int) -> str:
    """Return the answers to the rule's three questions, and the verdict first, in lines of at most `width`."""
    longest, indent = max(width, 2 * LABEL), " " * LABEL
    return "\n".join(
        textwrap.fill(text, longest, initial_indent=f"{name:<{LABEL}}", subsequent_indent=indent)
        for name, text in _parts(judged)
    )


def _parts(judged: JudgedNumber) -> list[tuple[str, str]]:
    brought, verdict, claim = judged.brought, judged.verdict, judged.verdict.claim
    interval, sample, evidence = print_interval(claim), verdict.sample, verdict.evidence
    where = f"{judged.key} of {brought.approach} {brought.recipe}, protocol {brought.protocol}"
    parts = [
        ("verdict", in_words(verdict.outcome, why(verdict))),
        ("your number", f"{claim.printed} {claim.unit}".strip() + f", {claim.precision_kind}: {where}"),
        ("prints so", f"from {interval.low:.8g} to {interval.high:.8g}"),
    ]
    if evidence is not None and sample.mean is not None and sample.sd is not None:
        ends = verdict.interval or (0.0, 0.0)
        below, n = evidence.percentile * evidence.n / 100, evidence.n  # a run that prints like the report counts half
        above = f"all {n} of our runs" if below == n else f"{below:.3g} of our {n} runs"
        parts += [
            ("measured", f"{sample.mean:.5g} +- {sample.sd:.2g} ({sample.n} seeds)"),
            (
                "one of ours?",
                f"p {evidence.p:.2g} that one more run of ours lies at least as far from our mean; above {above}",
            ),
            (
                "how sharply?",
                f"one more run of ours: {ends[0]:.4g} to {ends[1]:.4g} in 95 of 100 cases; shifts below "
                f"{verdict.in_words(evidence.resolution(verdict.level))} might not have shown; the margin, "
                f"{claim.margin:.3g}, is {claim.margin_reason}",
            ),
        ]
    lines = against_lines(judged.against) or [f"no alternative to {brought.recipe} is known"]
    return [*parts, *(("against what?" if place == 0 else "", line) for place, line in enumerate(lines))]


def own_json(judged: JudgedNumber) -> dict[str, object]:
    """Return the same for machines."""
    verdict, evidence = judged.verdict, judged.verdict.evidence
    return {
        **dataclasses.asdict(judged.brought),
        "key": judged.key,
        "margin": verdict.claim.margin,
        "margin_reason": verdict.claim.margin_reason,
        "values": list(verdict.sample.values),
        "verdict": verdict.outcome,
        "reason": why(verdict),
        "p": evidence and evidence.p,
        "percentile": evidence and evidence.percentile,
        "interval": verdict.interval,
        "resolution": evidence and evidence.resolution(verdict.level),
        "alternatives": against_json(judged.against),
    }
