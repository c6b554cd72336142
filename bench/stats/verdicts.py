"""What our seeds say of a reported number: one of the outcomes below, by one rule, with its reason.

D is the distance of our mean m from the numbers that print as the reported one, h the half-width of the 95 % prediction
interval for one more run of ours (which is what a single reported run is), and the margin the difference that would
matter, declared with the claim. In this order, and exactly one holds:

    exact           claims that are computed, not trained: inside the printed digits or not
    not run         nothing was measured
    inconclusive    fewer than `ENOUGH` seeds, or one without a number
    within margin   D + h <= margin: even one more run of ours would land that close
    consistent      D <= h <= margin: the report looks like one of our runs, and these are precise enough for a margin
    not reproduced  the p-value of D, adjusted over the document's claims, is below `ALPHA`, and D > margin
    unresolvable    none of these three could hold with our m and s however many seeds were added
    inconclusive    otherwise; the number of seeds that would settle it is given
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.claims import CLOSED_FORM, Claim, ClaimRow, Sample, measured_key, print_interval
from bench.stats.prediction import HolmStep, half_width, holm, p_value

ENOUGH = 5  # seeds
ALPHA = 0.05
MOST_SEEDS = 1_000  # looked at when asking how many would settle a claim
EXACT, WITHIN, CONSISTENT = "reproduced (exact)", "reproduced (within margin)", "reproduced (consistent)"
NOT_REPRODUCED, UNRESOLVABLE = "not reproduced", "unresolvable"
INCONCLUSIVE, NOT_RUN = "inconclusive", "not run"
OUTCOMES = (EXACT, WITHIN, CONSISTENT, NOT_REPRODUCED, UNRESOLVABLE, INCONCLUSIVE, NOT_RUN)
ALL_PRUNED = ".pruned100."  # a network of zeros answers one class whatever it has learnt


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
    seeds_needed: int | None = None  # in all, where more would settle it


@dataclass(frozen=True)
class _Numbers:
    """What the rule looks at."""

    distance: float
    sd: float
    margin: float
    n_tests: int  # epochs of the curve that the claim is of
    step: HolmStep  # of the curve among the document's hypotheses

    def decide(self, n: float, p_adjusted: float) -> str | None:
        """Return the outcome of the three rules that decide, with n seeds of this mean and spread."""
        width = half_width(self.sd, n)
        if self.distance + width <= self.margin:
            return WITHIN
        if self.distance <= width <= self.margin:
            return CONSISTENT
        if self.distance > self.margin and p_adjusted < ALPHA:
            return NOT_REPRODUCED
        return None

    def seeds_needed(self, n: int) -> int | None:
        """Return the smallest number of seeds above n that decides, None if `MOST_SEEDS` do not.

        With more seeds the half-width and the p-value only fall, so that each condition begins to hold at one number.
        Those of the document's other claims would fall too: their floor is left out.
        """
        more = range(n + 1, MOST_SEEDS + 1)
        conditions: tuple[Callable[[int], bool], ...] = (
            lambda k: self.distance + half_width(self.sd, k) <= self.margin,
            lambda k: half_width(self.sd, k) <= self.margin,
            lambda k: self.p_without_floor(k) < ALPHA,
        )
        places = [bisect.bisect_left(more, True, key=condition) for condition in conditions]
        starts = sorted(more[place] for place in places if place < len(more))
        return next((k for k in starts if self.decide(k, self.p_without_floor(k)) is not None), None)

    def p_adjusted(self, n: int) -> float:
        """Return the adjusted p-value of the distance."""
        return self.step.adjust(self.n_tests * p_value(self.distance, self.sd, n))

    def p_without_floor(self, n: float) -> float:
        """Return what the adjusted p-value of n seeds (infinite: in the limit) is at least."""
        return min(1.0, self.step.factor * self.n_tests * p_value(self.distance, self.sd, n))


def judge(rows: Sequence[ClaimRow]) -> list[Verdict]:
    """Return the verdict of every claim, in the order given; p-values are adjusted over the claims of each document.

    A document's curve over epochs is one hypothesis, whose p-value is the smallest of its epochs times their number.
    """
    tests: dict[str, tuple[int, HolmStep]] = {}
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
    """Return how far a number is from those that print as the claim, 0 inside."""
    interval = print_interval(claim)
    return max(0.0, interval.low - value, value - interval.high)


def _is_testable(row: ClaimRow) -> bool:
    return not is_exact(row.claim) and row.sample.n >= ENOUGH and row.sample.gap is None


def _statistics(row: ClaimRow) -> tuple[float, float]:
    """Return (D, s) of a row with at least two seeds."""
    mean, sd = row.sample.mean, row.sample.sd
    assert mean is not None
    assert sd is not None
    return distance_from_print(row.claim, mean), sd


def _tests(rows: Iterable[ClaimRow]) -> dict[str, tuple[int, HolmStep]]:
    """Return for each claim of a document the length of its curve and the curve's step in Holm's procedure."""
    curves: dict[str, dict[str, float]] = {}
    for row in rows:
        claim = row.claim
        is_epoch = claim.stage != "final"
        curve = "/".join([claim.approach, claim.metric, claim.dataset, claim.split]) if is_epoch else claim.id
        distance, sd = _statistics(row)
        curves.setdefault(curve, {})[claim.id] = p_value(distance, sd, row.sample.n)
    steps = holm({name: min(1.0, min(found.values()) * len(found)) for name, found in curves.items()})
    return {claim: (len(found), steps[name]) for name, found in curves.items() for claim in found}


def _judge(row: ClaimRow, test: tuple[int, HolmStep] | None) -> Verdict:
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
    return _tested(row, _Numbers(distance, _statistics(row)[1], claim.margin, *test))


def _tested(row: ClaimRow, numbers: _Numbers) -> Verdict:
    claim, n = row.claim, row.sample.n
    width, p = half_width(numbers.sd, n), numbers.p_adjusted(n)
    outcome, needed = numbers.decide(n, p), None
    if outcome is None:
        needed = numbers.seeds_needed(n)
        is_hopeless = needed is None and numbers.decide(math.inf, numbers.p_without_floor(math.inf)) is None
        outcome = UNRESOLVABLE if is_hopeless else INCONCLUSIVE
    mean = row.sample.mean
    assert mean is not None
    return Verdict(
        claim,
        outcome,
        _REASONS[outcome].format(
            d=numbers.distance, h=width, m=claim.margin, p=p, k=needed or f"more than {MOST_SEEDS}"
        ),
        row.sample,
        mean - claim.value,
        numbers.distance,
        width,
        p,
        needed,
    )


_REASONS: Mapping[str, str] = {
    WITHIN: "distance {d:.3g} and half-width {h:.3g} together are within the margin {m:.3g}",
    CONSISTENT: "distance {d:.3g} is within the half-width {h:.3g}, and that within the margin {m:.3g}",
    NOT_REPRODUCED: "distance {d:.3g} exceeds the margin {m:.3g}, adjusted p {p:.2g}",
    UNRESOLVABLE: "seed noise exceeds the margin {m:.3g}: half-width {h:.3g}, distance {d:.3g}, adjusted p {p:.2g}",
    INCONCLUSIVE: "distance {d:.3g}, half-width {h:.3g}, margin {m:.3g}, adjusted p {p:.2g}; {k} seeds would settle it",
}
