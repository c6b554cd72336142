"""The rule of verdicts for one claim: could the reported number be one more run of ours?

Version 3. Everything is on the claim's scale (`bench.judge.stats.scales`). D is the distance of our mean from the
nearest number that prints as the reported one, E from the farthest. h is the half-width of the 95 % prediction interval
for one more run of ours. M is the margin, the difference that would matter, declared with the claim; what lies within
it does so on the scale and in the claim's unit. p is the probability that one more run of ours lies at least D away. R
is the shift of the mean that one reported run reveals with 80 % power. The first line that holds is the outcome:

    not run                  nothing was measured
    exact, not exact         the number is computed, not trained: the printed digits decide
    too few seeds            fewer than `ENOUGH`, or a seed without a number; p and h are given all the same
    too few seeds            all seeds are equal, and the report of one run is another number: no spread, so no test
    contradicted             the adjusted p is below `ALPHA`; if D <= M, the reason adds "less than the margin"
    confirmed                E + h <= M: one more run of ours would land within the margin, whichever number was printed
    no single run can tell   otherwise

Which claims one run can confirm is decided before any report is read: those for which h, and half of the interval that
prints alike, are within M. With more seeds, h falls towards 1.96 s; so some number of seeds settles a claim, or none.

If a report gives the mean of several runs and their spread, Welch's test of the two means gives p and h. The report is
confirmed if Welch's two one-sided tests show that the means differ by less than the margin, p < `ALPHA`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.judge.claims import CLOSED_FORM, Claim, ClaimRow, measured_key, print_interval
from bench.judge.comparison import (
    ALPHA,
    CANNOT_TELL,
    CONFIRMED,
    CONTRADICTED,
    ENOUGH,
    Estimate,
    holm_over,
)
from bench.judge.samples import Samples
from bench.judge.stats.on_scale import OnScale, on_scale
from bench.judge.stats.one_more_run import best_of_p
from bench.judge.stats.scales import (
    IDENTITY,
    LOG,
    Scale,
    from_scale,
    scale_of,
    width_in_words,
)

EXACT, NOT_EXACT = "exact", "not exact"
TOO_FEW, NOT_RUN = "too few seeds", "not run"
OUTCOMES = (EXACT, CONFIRMED, CONTRADICTED, CANNOT_TELL, NOT_EXACT, TOO_FEW, NOT_RUN)
ALL_PRUNED = ".pruned100."  # in the id of a claim on a network of zeros, which answers class 0 whatever it learnt
TRIES = 3  # number of runs of which a report may be the best


@dataclass(frozen=True)
class Verdict:
    """The outcome of a claim, and the numbers that led to it."""

    claim: Claim
    outcome: str
    sample: Samples  # what our seeds measured, in the claim's unit
    scale: Scale = IDENTITY
    on_scale: OnScale | None = None  # for a trained number with at least two seeds
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
        if self.on_scale is not None and self.scale == LOG:
            return from_scale(LOG, self._mean)
        return self.sample.mean

    @property
    def _mean(self) -> float:
        """Return the mean of our seeds on the scale; 0 without."""
        return (self.on_scale and self.on_scale.ours.mean) or 0.0

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval for the reported number, in the claim's unit; a fraction is cut at 0 and 1."""
        if self.on_scale is None:
            return None
        half = self.on_scale.half_width
        low, high = (from_scale(self.scale, end) for end in (self._mean - half, self._mean + half))
        is_fraction = self.claim.unit == "fraction"
        return (max(0.0, low), min(1.0, high)) if is_fraction else (low, high)

    @property
    def best_of_three_p(self) -> float | None:
        """Return p if the report is the best of three runs; None where no direction is better."""
        better, found = better_direction(self.claim), self.on_scale
        if found is None or found.reported.sd is not None or not better:
            return None
        low, high = sorted((better * found.reported.low, better * found.reported.high))
        return best_of_p(found.ours.converted(lambda value: better * value), low, high, TRIES, found.spread)

    def in_words(self, width: float) -> str:
        """Return a width on the scale as text, in the claim's unit."""
        return width_in_words(self.scale, self._mean, width)


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


def testable(row: ClaimRow) -> Estimate | None:
    """Return the estimate of a trained claim with enough seeds and a spread, of which none failed; else None."""
    if is_exact(row.claim) or row.sample.n < ENOUGH or row.sample.missing_value is not None:
        return None
    found = on_scale(row.claim, row.sample, row.others)
    return found.estimate if found is not None and found.estimate.has_spread else None


def judge_one(claim: Claim, sample: Samples, n_claims: int = 1, others: Sequence[Samples] = ()) -> Verdict:
    """Return the verdict of one of `n_claims` claims that are tested together, by Bonferroni's adjustment."""
    row = ClaimRow(claim, sample, tuple(others))
    estimate = testable(row)
    p = None if estimate is None else min(1.0, n_claims * estimate.p)
    return conclude(row, p, ALPHA / n_claims)


def judge_family(rows: Sequence[ClaimRow]) -> list[Verdict]:
    """Return the verdicts of claims that are tested together, by Holm's adjustment over all of them."""
    n = len(rows)
    adjusted = holm_over({place: testable(row) for place, row in enumerate(rows)}, n)
    return [conclude(row, adjusted.get(place), ALPHA / n) for place, row in enumerate(rows)]


def conclude(row: ClaimRow, p_adjusted: float | None, level: float) -> Verdict:
    """Return the verdict of a claim, from its adjusted p-value (None if it is not `testable`) and its test's level."""
    claim, sample = row.claim, row.sample
    if not sample.n:
        return Verdict(claim, NOT_RUN, sample)
    if is_exact(claim):
        prints_so = all(distance_from_print(claim, value) == 0 for value in sample.values)
        return Verdict(claim, EXACT if prints_so else NOT_EXACT, sample)
    found, scale = on_scale(claim, sample, row.others), scale_of(claim)
    if found is None or p_adjusted is None:
        return Verdict(claim, TOO_FEW, sample, scale, found)
    return Verdict(claim, found.outcome(p_adjusted), sample, scale, found, p_adjusted, level)
