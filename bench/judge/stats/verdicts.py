"""What our seeds say of a reported number: one of the outcomes below, by one rule, with its reason.

D is the distance of our mean m from the numbers that print as the reported one. h is the half-width of the 95 %
prediction interval for one more run of ours, because a single reported run is one more run. The margin is the
difference that would matter, declared with the claim. The first line that holds is the outcome:

    exact           claims that are computed, not trained: inside the printed digits or not
    not run         nothing was measured
    inconclusive    fewer than `ENOUGH` seeds, or a seed without a number
    equivalent      the report gives several runs and their spread, and Welch's two one-sided tests put the two means
                    within the margin of each other, p < `ALPHA`; h is then the half-width of the 95 % interval for
                    their difference, and the next two lines, which are for one reported run, do not apply
    within margin   D + h <= margin: even one more run of ours would land that close
    consistent      D <= h <= margin: the report looks like one of our runs, and our runs are precise enough
    not reproduced  the p-value of D, adjusted over the document's claims, is below `ALPHA`, and D > margin
    unresolvable    none of these could hold with our m and s, however many seeds were added; the reason says why: the
                    limit 1.96 s of h, the margin, or the adjustment
    inconclusive    otherwise; the reason gives the number of seeds that would settle it. If D <= h <= margin holds for
                    a while, and D > h with more seeds, it gives the numbers of seeds that would decide for a while

`judge` applies the rule; `bench.judge.stats.evidence` holds the numbers that it looks at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.judge.claims import CLOSED_FORM, Claim, ClaimRow, measured_key, print_interval
from bench.judge.samples import Sample
from bench.judge.stats.evidence import (
    ALPHA,
    CONSISTENT,
    EQUIVALENT,
    MOST_SEEDS,
    NOT_REPRODUCED,
    WITHIN,
    Deciding,
    Evidence,
    Hypothesis,
    Reported,
)
from bench.judge.stats.prediction import holm, leaves_unit_interval

__all__ = [
    "ALPHA",
    "CONSISTENT",
    "ENOUGH",
    "EQUIVALENT",
    "EXACT",
    "INCONCLUSIVE",
    "MOST_SEEDS",
    "NOT_REPRODUCED",
    "NOT_RUN",
    "OUTCOMES",
    "UNRESOLVABLE",
    "WITHIN",
    "Verdict",
    "distance_from_print",
    "is_exact",
    "judge",
]

ENOUGH = 5  # seeds
EXACT, UNRESOLVABLE = "reproduced (exact)", "unresolvable"
INCONCLUSIVE, NOT_RUN = "inconclusive", "not run"
OUTCOMES = (EXACT, EQUIVALENT, WITHIN, CONSISTENT, NOT_REPRODUCED, UNRESOLVABLE, INCONCLUSIVE, NOT_RUN)
ALL_PRUNED = ".pruned100."  # a network of zeros answers one class whatever it learnt


@dataclass(frozen=True)
class Verdict:
    """An outcome, and the numbers that led to it, in the claim's unit."""

    claim: Claim
    outcome: str
    reason: str
    sample: Sample  # what our seeds measured
    difference: float | None = None  # m minus the reported value
    distance: float | None = None  # D
    half_width: float | None = None  # h
    p_adjusted: float | None = None
    seeds_needed: int | None = None  # in all, if this many seeds and any more would settle it
    p_equivalence: float | None = None  # if the report has a spread
    evidence: Evidence | None = None  # if there are enough seeds of a trained number


def judge(rows: Sequence[ClaimRow]) -> list[Verdict]:
    """Return the verdict of every claim, in the order given; p-values are adjusted over the claims of each document.

    A document's curve over epochs is one hypothesis, whose p-value is the smallest of its epochs times their number.
    """
    tests: dict[str, Hypothesis] = {}
    by_document: dict[str, list[ClaimRow]] = {}
    for row in rows:
        by_document.setdefault(row.claim.source, []).append(row)
    for members in by_document.values():
        tests.update(_tests(row for row in members if _is_testable(row)))
    return [_judge(row, tests.get(row.claim.id)) for row in rows]


def is_exact(claim: Claim) -> bool:
    """Return whether a claim's number is computed and not trained."""
    return measured_key(claim)[0] == CLOSED_FORM or ALL_PRUNED in claim.id


def distance_from_print(claim: Claim, value: float) -> float:
    """Return the distance from a number to the nearest one that prints as the claim; 0 if it prints so itself."""
    interval = print_interval(claim)
    return max(0.0, interval.low - value, value - interval.high)


def _is_testable(row: ClaimRow) -> bool:
    return not is_exact(row.claim) and row.sample.n >= ENOUGH and row.sample.gap is None


def _evidence(row: ClaimRow, hypothesis: Hypothesis) -> Evidence:
    """Return the numbers of a row with at least two seeds."""
    claim, mean, sd = row.claim, row.sample.mean, row.sample.sd
    assert mean is not None
    assert sd is not None
    report = None if claim.spread is None else Reported(claim.spread, claim.n_runs, mean - claim.value)
    distance = distance_from_print(claim, mean)
    return Evidence(distance, sd, claim.margin, hypothesis, report)


def _tests(rows: Iterable[ClaimRow]) -> dict[str, Hypothesis]:
    """Return the hypothesis of each claim of a document: its curve, with the curve's step in Holm's procedure."""
    curves: dict[str, dict[str, float]] = {}
    for row in rows:
        claim = row.claim
        is_epoch = claim.stage != "final"
        curve = "/".join([claim.approach, claim.metric, claim.dataset, claim.split]) if is_epoch else claim.id
        curves.setdefault(curve, {})[claim.id] = _evidence(row, Hypothesis()).p(row.sample.n)
    steps = holm({name: min(1.0, min(found.values()) * len(found)) for name, found in curves.items()})
    tested = {
        name: Hypothesis(len(found), min(found.values()), len(curves), steps[name]) for name, found in curves.items()
    }
    return {claim: tested[name] for name, found in curves.items() for claim in found}


def _judge(row: ClaimRow, test: Hypothesis | None) -> Verdict:
    claim, sample = row.claim, row.sample
    if not sample.n:
        return Verdict(claim, NOT_RUN, sample.gap.reason if sample.gap else "nothing was measured", sample)
    assert sample.mean is not None
    difference = sample.mean - claim.value
    distance = distance_from_print(claim, sample.mean)
    if is_exact(claim):
        worst = max(distance_from_print(claim, value) for value in sample.values)
        outcome = EXACT if worst == 0 else NOT_REPRODUCED
        reason = "inside the printed digits" if worst == 0 else f"{worst:.2g} outside the printed digits"
        return Verdict(claim, outcome, reason, sample, difference, distance)
    if test is None:
        few = f"{sample.n} of the {ENOUGH} seeds that a verdict needs" if sample.n < ENOUGH else f"{sample.n} seeds"
        reason = f"{few}; {sample.gap.reason}" if sample.gap else few
        return Verdict(claim, INCONCLUSIVE, reason, sample, difference, distance)
    return _tested(row, _evidence(row, test))


def _tested(row: ClaimRow, evidence: Evidence) -> Verdict:
    claim, n, mean = row.claim, row.sample.n, row.sample.mean
    assert mean is not None
    width, p, same = evidence.half_width(n), evidence.p_adjusted(n), evidence.p_equivalence(n)
    outcome, deciding = evidence.decide(n, p), None
    if outcome is None:
        deciding = evidence.deciding(n)
        is_hopeless = deciding is None and not evidence.decides(math.inf)
        outcome = UNRESOLVABLE if is_hopeless else INCONCLUSIVE
    template = _unresolvable(evidence) if outcome == UNRESOLVABLE else _REASONS[outcome]
    reason = template.format(
        d=evidence.distance,
        h=width,
        m=claim.margin,
        p=p,
        e=same,
        k=_settling(deciding),
        limit_h=evidence.half_width(math.inf),
        limit_p=evidence.p_without_floor(math.inf),
    )
    if claim.unit == "fraction" and leaves_unit_interval(mean, width):
        reason += "; rough: the interval reaches beyond 0 or 1, where no fraction lies"
    difference = mean - claim.value
    needed = deciding.first if deciding is not None and deciding.last is None else None
    return Verdict(claim, outcome, reason, row.sample, difference, evidence.distance, width, p, needed, same, evidence)


def _settling(deciding: Deciding | None) -> str:
    """Return how many seeds would settle a claim that is not hopeless."""
    if deciding is None:
        return f"at this mean and spread more than {MOST_SEEDS} seeds would settle it"
    if deciding.last is None:
        return f"at this mean and spread {deciding.span} seeds would settle it"
    return f"at this mean and spread only {deciding.span} seeds would decide, with more it is open again"


_REASONS: Mapping[str, str] = {
    EQUIVALENT: "the means of both groups of runs differ by less than the margin {m:.3g}, p {e:.2g}",
    WITHIN: "distance {d:.3g} and half-width {h:.3g} together are within the margin {m:.3g}",
    CONSISTENT: "distance {d:.3g} is within the half-width {h:.3g}, and that within the margin {m:.3g}",
    NOT_REPRODUCED: "distance {d:.3g} exceeds the margin {m:.3g}, adjusted p {p:.2g}",
    INCONCLUSIVE: "distance {d:.3g}, half-width {h:.3g}, margin {m:.3g}, adjusted p {p:.2g}; {k}",
}


def _unresolvable(evidence: Evidence) -> str:
    """Return the template of the reason why no number of seeds decides.

    With ever more seeds the half-width falls to H = 1.96 s, and D gets its last p-value. D <= H <= margin would be
    consistent, D + H <= margin would be within the margin.
    """
    limit = evidence.half_width(math.inf)
    if evidence.report is not None:
        return (
            "however many seeds are added, the reported runs leave the difference of the means uncertain by "
            "{limit_h:.3g}: distance {d:.3g}, margin {m:.3g}, adjusted p {p:.2g}"
        )
    if limit > evidence.margin:
        return "seed noise exceeds the margin {m:.3g}: half-width {h:.3g}, distance {d:.3g}, adjusted p {p:.2g}"
    if evidence.distance <= evidence.margin:
        return (
            "beyond our seed noise but within the margin {m:.3g}, which no number of seeds changes: distance {d:.3g}, "
            "half-width {h:.3g}, with ever more seeds {limit_h:.3g}"
        )
    return (
        "distance {d:.3g} exceeds the margin {m:.3g}, but the adjusted p, {p:.2g} now, would still be {limit_p:.2g} "
        "with ever more seeds"
    )
