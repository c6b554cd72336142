"""The rule of verdicts for one claim: could the reported number be one more run of ours?

Everything is on the claim's scale (`bench.judge.stats.scales`). D is the distance of our mean from the nearest number
that prints as the reported one. h is the half-width of the 95 % prediction interval for one more run of ours. M is the
margin, the difference that would matter, declared with the claim. p is the probability that one more run of ours lies
at least D away. R is the shift of the mean that one reported run reveals with 80 % power. The first line that holds is
the outcome:

    not run            nothing was measured
    exact, not exact   the number is computed, not trained: the printed digits decide
    too few seeds      fewer than `ENOUGH`, or a seed without a number; p and h are given all the same
    too few seeds      all seeds are equal, and the report of one run is another number: no spread, so no test
    differs            the adjusted p is below `ALPHA`; if D <= M, the reason adds "less than the margin"
    agrees             D + h <= M: even one more run of ours would land within the margin
    agrees, coarsely   otherwise: shifts below R might not have shown

If a report gives the mean of several runs and their spread, Welch's test of the two means gives p and h. The report
agrees if Welch's two one-sided tests show that the means differ by less than the margin, p < `ALPHA`.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cached_property

from bench.judge.claims import CLOSED_FORM, Claim, measured_key, print_interval
from bench.judge.samples import Sample
from bench.judge.stats.prediction import (
    Group,
    best_of_p,
    equivalence_p,
    error_half_width,
    error_p,
    prediction_error,
    resolution,
    welch,
)
from bench.judge.stats.scales import (
    IDENTITY,
    LOG,
    Scale,
    ends_on_scale,
    from_scale,
    margin_on_scale,
    scale_of,
    to_scale,
    width_in_words,
)

ALPHA = 0.05
ENOUGH = 5  # seeds
EXACT, NOT_EXACT = "exact", "not exact"
AGREES, COARSE, DIFFERS = "agrees", "agrees, coarsely", "differs"
TOO_FEW, NOT_RUN = "too few seeds", "not run"
OUTCOMES = (EXACT, AGREES, COARSE, DIFFERS, NOT_EXACT, TOO_FEW, NOT_RUN)
ALL_PRUNED = ".pruned100."  # in the id of a claim on a network of zeros, which answers class 0 whatever it learnt
TRIES = 3  # number of runs of which a report may be the best


@dataclass(frozen=True)
class Evidence:
    """The numbers that decide a claim or a curve, on its scale."""

    values: tuple[float, ...]  # of our seeds, at least two
    low: float  # smallest number that prints as the reported one
    high: float  # largest one
    margin: float
    report: Group | None = None  # spread and number of the reported runs; None if the report is of one run

    @property
    def n(self) -> int:
        """Return the number of our seeds."""
        return len(self.values)

    @cached_property
    def mean(self) -> float:
        """Return the mean of our seeds."""
        return statistics.fmean(self.values)

    @cached_property
    def sd(self) -> float:
        """Return the standard deviation of our seeds (divisor n - 1)."""
        return statistics.stdev(self.values)

    @property
    def distance(self) -> float:
        """Return D, the distance of our mean from the nearest number that prints as the report."""
        return max(0.0, self.low - self.mean, self.mean - self.high)

    @cached_property
    def error(self) -> tuple[float, float]:
        """Return the standard error of the report minus our mean, and its degrees of freedom."""
        if self.report is None:
            return prediction_error(self.sd, self.n), self.n - 1
        return welch(Group(self.sd, self.n), self.report)

    @property
    def has_spread(self) -> bool:
        """Return whether the report can be judged. Equal seeds cannot judge another number that is of one run."""
        return self.sd > 0 or self.report is not None or self.distance == 0

    @property
    def half_width(self) -> float:
        """Return h, the half-width of the 95 % interval."""
        return error_half_width(*self.error)

    @property
    def p(self) -> float:
        """Return the two-sided p-value of D, not adjusted."""
        return error_p(self.distance, *self.error)

    @property
    def percentile(self) -> float:
        """Return the percentage of our runs below the reported number.

        A run that is printed as the report counts as half a run.
        """
        below = sum(1.0 if value < self.low else 0.5 if value <= self.high else 0.0 for value in self.values)
        return 100 * below / self.n

    @property
    def p_equivalence(self) -> float | None:
        """Return the p-value of equivalence within the margin; None if the report is of one run."""
        if self.report is None:
            return None
        middle = (self.low + self.high) / 2
        return equivalence_p(self.mean - middle, self.margin, Group(self.sd, self.n), self.report)

    def resolution(self, level: float) -> float:
        """Return R, the shift that the reported runs reveal with 80 % power, at this level of the test."""
        return resolution(*self.error, level)

    def outcome(self, p_adjusted: float) -> str:
        """Return the outcome, if there are enough seeds."""
        if p_adjusted < ALPHA:
            return DIFFERS
        same = self.p_equivalence
        is_close = self.distance + self.half_width <= self.margin if same is None else same < ALPHA
        return AGREES if is_close else COARSE


@dataclass(frozen=True)
class Verdict:
    """The outcome of a claim, and the numbers that led to it."""

    claim: Claim
    outcome: str
    sample: Sample  # what our seeds measured, in the claim's unit
    scale: Scale = IDENTITY
    evidence: Evidence | None = None  # for a trained number with at least two seeds, on the scale
    p_adjusted: float | None = None  # over the document's claims, if the claim was tested
    level: float = ALPHA  # at which the claim is tested
    curve: str = ""  # name of the curve that it is a point of
    is_point: bool = False  # the outcome is that of the curve

    @property
    def difference(self) -> float | None:
        """Return the mean of our seeds minus the reported value, in the claim's unit."""
        return None if self.sample.mean is None else self.sample.mean - self.claim.value

    @property
    def centre(self) -> float | None:
        """Return the mean of our seeds in the claim's unit; on scale log, the geometric mean."""
        if self.evidence is not None and self.scale == LOG:
            return from_scale(LOG, self.evidence.mean)
        return self.sample.mean

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval for the reported number, in the claim's unit; a fraction is cut at 0 and 1."""
        if self.evidence is None:
            return None
        low, high = (from_scale(self.scale, self.evidence.mean + side * self.evidence.half_width) for side in (-1, 1))
        is_fraction = self.claim.unit == "fraction"
        return (max(0.0, low), min(1.0, high)) if is_fraction else (low, high)

    @property
    def best_of_three_p(self) -> float | None:
        """Return p if the report is the best of three runs; None where no direction is better."""
        better, ours = better_direction(self.claim), self.evidence
        if ours is None or ours.report is not None or not better:
            return None
        low, high = sorted((better * (ours.low - ours.mean), better * (ours.high - ours.mean)))
        return best_of_p(low, high, ours.sd, ours.n, TRIES)

    def in_words(self, width: float) -> str:
        """Return a width on the scale as text, in the claim's unit."""
        return width_in_words(self.scale, 0.0 if self.evidence is None else self.evidence.mean, width)


def is_exact(claim: Claim) -> bool:
    """Return whether a claim's number is computed and not trained."""
    return measured_key(claim)[0] == CLOSED_FORM or ALL_PRUNED in claim.id


def better_direction(claim: Claim) -> int:
    """Return 1 where higher is better, -1 where lower is, else 0."""
    if "accuracy" in claim.metric or claim.metric == "fraction_correct":
        return 1
    return -1 if "loss" in claim.metric or claim.metric == "fraction_incorrect" else 0


def distance_from_print(claim: Claim, value: float) -> float:
    """Return the distance from a number to the nearest one that prints as the claim; 0 if that is the number itself."""
    interval = print_interval(claim)
    return max(0.0, interval.low - value, value - interval.high)


def evidence_of(claim: Claim, sample: Sample) -> Evidence | None:
    """Return the numbers that decide a claim; None for fewer than two seeds, or a number that the scale cannot hold."""
    scale = scale_of(claim)
    try:
        values = tuple(to_scale(scale, value) for value in sample.values)
    except ValueError:
        return None
    if len(values) < 2:
        return None
    report = None if claim.spread is None else Group(claim.spread, claim.n_runs)
    return Evidence(values, *ends_on_scale(claim, scale), margin_on_scale(claim, scale), report)


def testable(claim: Claim, sample: Sample) -> Evidence | None:
    """Return the evidence of a trained claim with enough seeds and a spread, of which none failed; else None."""
    if is_exact(claim) or sample.n < ENOUGH or sample.gap is not None:
        return None
    evidence = evidence_of(claim, sample)
    return evidence if evidence is not None and evidence.has_spread else None


def judge_one(claim: Claim, sample: Sample, n_claims: int = 1) -> Verdict:
    """Return the verdict of one of `n_claims` claims that are tested together, by Bonferroni's adjustment."""
    evidence = testable(claim, sample)
    p = None if evidence is None else min(1.0, n_claims * evidence.p)
    return conclude(claim, sample, p, ALPHA / n_claims)


def conclude(claim: Claim, sample: Sample, p_adjusted: float | None, level: float) -> Verdict:
    """Return the verdict of a claim, from its adjusted p-value (None if it is not `testable`) and its test's level."""
    if not sample.n:
        return Verdict(claim, NOT_RUN, sample)
    if is_exact(claim):
        prints_so = all(distance_from_print(claim, value) == 0 for value in sample.values)
        return Verdict(claim, EXACT if prints_so else NOT_EXACT, sample)
    evidence, scale = evidence_of(claim, sample), scale_of(claim)
    if evidence is None or p_adjusted is None:
        return Verdict(claim, TOO_FEW, sample, scale, evidence)
    return Verdict(claim, evidence.outcome(p_adjusted), sample, scale, evidence, p_adjusted, level)
