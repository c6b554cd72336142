"""The verdicts as tables: every reported number, every curve over epochs, and each document."""

from __future__ import annotations

from collections.abc import Sequence

from bench.core.text import FRACTION, FRACTION_DIFFERENCE, SIX, THREE_DIFFERENCE, counted
from bench.judge.results import Results
from bench.judge.stats.curves import SEEN_BEFORE
from bench.judge.stats.rule import ENOUGH, Verdict
from bench.judge.stats.verdicts import CurveVerdict, Judgement
from bench.show.cells import Entry, Linked, Measured, Number, Table, make_table, of_claim, of_document
from bench.show.outcomes import counts, why
from bench.show.reasoning import CHOSEN_AFTER, digits_of, p_text

RULE = (
    "p: probability that one more run of ours lies at least as far from our mean as the report (t rule). Adjusted p: "
    "Holm, over the document's claims and curves. 95 %: interval for one more run of ours. R: shift of the mean that "
    "one reported run reveals with 80 % power. Differs: adjusted p < .05. Agrees: even one more run of ours would land "
    f"within the margin. Agrees, coarsely: neither. Fewer than {ENOUGH} seeds are too few."
)
CURVE_RULE = (
    "A curve over epochs is one claim. Take the report and our seeds together: in each epoch, standardise every run by "
    "their mean and standard deviation; a run's statistic is its mean over the epochs. The t rule compares the "
    "report's statistic with our seeds'. h and M are half-width and margin on this scale."
)
JOINT = (
    "Joint p: could one run of ours have given all end results of the document? Fisher's statistic, calibrated by "
    "simulation with our seeds' correlations."
)


def verdicts_table(results: Results, judgement: Judgement) -> Table:
    """One line a claim."""
    columns = ["claim", "reported", "unit", "margin", "measured", "difference", "95 %", "percentile", "p", "adjusted p"]
    columns += ["R", "verdict", "why"]
    lines = [_line(verdict) for verdict in judgement.verdicts]
    caption = (
        f"{kinds_text(judgement)} Published recipe and published protocol. {RULE} A point of a curve gets the verdict "
        "of the curve."
    )
    return make_table("verdicts", "Which reported numbers reproduce", caption, columns, lines).of(results)


def _line(verdict: Verdict) -> list[Entry]:
    claim, evidence, here = verdict.claim, verdict.evidence, (of_claim(verdict.claim.id),)
    is_fraction, digits = claim.unit == "fraction", digits_of(verdict)
    difference = FRACTION_DIFFERENCE if is_fraction else THREE_DIFFERENCE
    ends, sources = verdict.interval, verdict.sample.sources
    return [
        Linked(claim.id, here),
        Linked(claim.printed, here),
        claim.unit or None,
        f"{claim.margin:g}" if claim.margin else "digits",
        Measured(verdict.sample, FRACTION if is_fraction else SIX) if verdict.sample.n else None,
        None if verdict.difference is None else Number(verdict.difference, difference, sources),
        None if ends is None else Linked(f"{digits.text(ends[0])} to {digits.text(ends[1])}", here),
        None if evidence is None else Linked(f"{evidence.percentile:.0f}", here),
        None if evidence is None else Linked(p_text(evidence.p), here),
        _p(verdict.p_adjusted, here),
        None if evidence is None else Linked(verdict.in_words(evidence.resolution(verdict.level)), here),
        Linked(verdict.outcome, here),
        why(verdict),
    ]


def curve_verdicts_table(results: Results, judgement: Judgement) -> Table:
    """One line a curve."""
    columns = ["document", "curve", "epochs", "seeds", "percentile", "h", "M", "p", "smallest p x epochs"]
    columns += ["adjusted p", "verdict", "why"]
    lines = [_curve_line(one) for one in judgement.curves]
    caption = f"{_kind('curve', judgement.curves)} {CURVE_RULE}".strip()
    notes = [
        f"{one.curve.name}: {CHOSEN_AFTER.format(p=p_text(one.curve.smallest_p))}"
        for one in judgement.curves
        if one.curve.name == SEEN_BEFORE
    ]
    title = "Do the training curves come out?"
    return make_table("verdict_curves", title, caption, columns, lines, notes).of(results, has_spread=False)


def _curve_line(one: CurveVerdict) -> list[Entry]:
    curve, evidence = one.curve, one.curve.evidence
    here = (of_claim(curve.first.id),)
    document, _, name = curve.name.partition("/")
    numbers: list[Entry] = [None] * 4
    if evidence is not None:
        sizes = f"{evidence.percentile:.0f}", f"{evidence.half_width:.2g}", f"{evidence.margin:.2g}"
        numbers = [Linked(text, here) for text in (*sizes, p_text(evidence.p))]
    start = (name, str(len(curve.rows)), str(min(row.sample.n for row in curve.rows)))
    numbers += [_p(curve.smallest_p, here), _p(one.p_adjusted, here)]
    return [document, *(Linked(text, here) for text in start), *numbers, Linked(one.outcome, here), why(one)]


def _p(p: float | None, sources: tuple[str, ...]) -> Linked | None:
    return None if p is None else Linked(p_text(p), sources)


def summary_table(results: Results, judgement: Judgement) -> Table:
    """One line a document: end results, curves and computed numbers apart, which are never added up."""
    lines: list[list[Entry]] = []
    for source in dict.fromkeys(verdict.claim.source for verdict in judgement.verdicts):
        mine = judgement.of_documents([source])
        here, texts = (of_document(source),), [counts(mine.ends), counts(mine.curves), counts(mine.computed)]
        together = [_p(joint.get(source), here) for joint in (judgement.joint, judgement.joint_with_curves)]
        lines.append([*(Linked(text, here) for text in (source, *texts)), *together])
    caption = f"{kinds_text(judgement)} {JOINT}"
    columns = ["document", "end results", "curves over epochs", "computed", "joint p", "joint p with curves"]
    return make_table("verdict_summary", "Verdicts by document", caption, columns, lines).of(results, has_spread=False)


def kinds_text(judgement: Judgement) -> str:
    """Return the outcomes of end results, of curves and of computed numbers, apart.

    A curve has many points that agree or not together, and a computed number tests arithmetic: neither is an answer.
    """
    n_points = sum(len(one.curve.rows) for one in judgement.curves)
    parts = [
        _kind("end result", judgement.ends),
        _kind("curve", judgement.curves, f" with {counted(n_points, 'point')}"),
        _kind("computed number", judgement.computed),
    ]
    return " ".join(part for part in parts if part)


def _kind(name: str, found: Sequence[Verdict] | Sequence[CurveVerdict], more: str = "") -> str:
    return f"{counted(len(found), name)}{more}: {counts(found)}." if found else ""
