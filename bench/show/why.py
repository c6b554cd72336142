"""Why a claim or a curve has its outcome, in words; `bench.judge` gives outcomes and numbers."""

from __future__ import annotations

from bench.judge.stats.rule import (
    AGREES,
    DIFFERS,
    ENOUGH,
    EXACT,
    NOT_EXACT,
    NOT_RUN,
    TOO_FEW,
    Evidence,
    Verdict,
    distance_from_print,
)
from bench.judge.stats.scales import scale_of
from bench.judge.stats.verdicts import CurveVerdict

LANDS = "even one more run of ours would land within the margin"


def why(one: Verdict | CurveVerdict) -> str:
    """Return the reason for an outcome."""
    return _why_claim(one) if isinstance(one, Verdict) else _why_curve(one)


def how_far(one: Verdict | CurveVerdict) -> str:
    """Return how far a report that differs is away."""
    if isinstance(one, Verdict):
        return f"differs by {one.in_words(one.evidence.distance)}" if one.evidence else DIFFERS
    evidence = one.curve.evidence
    return f"differs by {evidence.distance / evidence.margin:.3g} margins" if evidence and evidence.margin else DIFFERS


def _why_claim(verdict: Verdict) -> str:
    sample, evidence = verdict.sample, verdict.evidence
    if verdict.is_point:
        return "a point of a curve, which is one claim"
    if verdict.outcome == NOT_RUN:
        return sample.gap.reason if sample.gap else "nothing was measured"
    if verdict.outcome in (EXACT, NOT_EXACT):
        worst = max(distance_from_print(verdict.claim, value) for value in sample.values)
        return f"{worst:.2g} outside the printed digits" if worst else "inside the printed digits"
    if verdict.outcome == TOO_FEW or evidence is None:
        return _what_is_missing(verdict)
    if verdict.outcome == DIFFERS:
        return how_far(verdict) + _less(evidence)
    if verdict.outcome == AGREES:
        return LANDS if evidence.report is None else "the means of both groups of runs differ by less than the margin"
    return f"shifts below {verdict.in_words(evidence.resolution(verdict.level))} might not have shown"


def _less(evidence: Evidence) -> str:
    return ", less than the margin" if evidence.distance <= evidence.margin else ""


def _what_is_missing(verdict: Verdict) -> str:
    sample = verdict.sample
    few = f"{sample.n} of the {ENOUGH} seeds that a verdict needs" if sample.n < ENOUGH else f"{sample.n} seeds"
    if sample.gap is not None:
        return f"{few}; {sample.gap.reason}"
    if sample.n >= ENOUGH:
        return f"{few}; the scale {scale_of(verdict.claim).name} cannot hold one of them"
    return few


def _why_curve(one: CurveVerdict) -> str:
    evidence = one.curve.evidence
    if one.outcome == TOO_FEW or evidence is None:
        fewest = min(row.sample.n for row in one.curve.rows)
        gap = next((row.sample.gap.reason for row in one.curve.rows if row.sample.gap), "")
        gap = gap or ("the scale of an epoch cannot hold one of them" if fewest >= ENOUGH else "")
        return f"{fewest} seeds in every epoch" + (f"; {gap}" if gap else "")
    if one.outcome == DIFFERS:
        return how_far(one) + _less(evidence)
    if one.outcome == AGREES:
        return LANDS
    share = f"{evidence.resolution(one.level) / evidence.margin:.2g} margins" if evidence.margin else "any size"
    return f"shifts below {share} might not have shown"
