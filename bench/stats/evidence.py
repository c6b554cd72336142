"""The numbers that a verdict looks at, and which of its rules hold for them with a given number of seeds."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass

from bench.stats.equivalence import Group, difference_half_width, difference_p, equivalence_p
from bench.stats.prediction import HolmStep, half_width, p_value

ALPHA = 0.05
MOST_SEEDS = 1_000  # looked at when asking how many would settle a claim
EQUIVALENT, WITHIN = "reproduced (equivalent)", "reproduced (within margin)"
CONSISTENT, NOT_REPRODUCED = "reproduced (consistent)", "not reproduced"


@dataclass(frozen=True)
class Reported:
    """What a report of several runs gives besides their mean."""

    sd: float  # standard deviation of its runs, n - 1 below
    n: int  # number of its runs, at least 2
    difference: float  # our mean minus its mean


@dataclass(frozen=True)
class Evidence:
    """What the rule looks at."""

    distance: float  # of our mean from the numbers that print as the reported one
    sd: float  # standard deviation of our seeds
    margin: float  # declared difference that would matter
    n_tests: int  # epochs of the curve that the claim is of
    step: HolmStep  # of the curve among the document's hypotheses
    report: Reported | None = None  # None: the report is of one run

    def decide(self, n: float, p_adjusted: float) -> str | None:
        """Return the outcome of the rules that decide, with n seeds of this mean and spread; None if none does."""
        width = self.half_width(n)
        if self.report is not None:
            if self._p_equivalence(self.report, n) < ALPHA:
                return EQUIVALENT
        elif self.distance + width <= self.margin:
            return WITHIN
        elif self.distance <= width <= self.margin:
            return CONSISTENT
        if self.distance > self.margin and p_adjusted < ALPHA:
            return NOT_REPRODUCED
        return None

    def seeds_needed(self, n: int) -> int | None:
        """Return the smallest number of seeds above n that decides, None if `MOST_SEEDS` do not.

        With more seeds the half-width and the p-values only fall, so that each condition begins to hold at one number.
        Those of the document's other claims would fall too: their floor is left out.
        """
        more = range(n + 1, MOST_SEEDS + 1)
        report = self.report
        conditions: tuple[Callable[[int], bool], ...] = (
            lambda k: self.distance + half_width(self.sd, k) <= self.margin,
            lambda k: half_width(self.sd, k) <= self.margin,
        )
        if report is not None:
            conditions = (lambda k: self._p_equivalence(report, k) < ALPHA,)
        conditions = (*conditions, lambda k: self.p_without_floor(k) < ALPHA)
        places = [bisect.bisect_left(more, True, key=condition) for condition in conditions]
        starts = sorted(more[place] for place in places if place < len(more))
        return next((k for k in starts if self.decide(k, self.p_without_floor(k)) is not None), None)

    def half_width(self, n: float) -> float:
        """Return the half-width for one more run, or for the difference of the means where the report has several."""
        if self.report is None:
            return half_width(self.sd, n)
        return difference_half_width(Group(self.sd, n), Group(self.report.sd, self.report.n))

    def p(self, n: float) -> float:
        """Return the p-value of the distance for one claim alone; n may be infinite."""
        if self.report is None:
            return p_value(self.distance, self.sd, n)
        return difference_p(self.distance, Group(self.sd, n), Group(self.report.sd, self.report.n))

    def p_equivalence(self, n: float) -> float | None:
        """Return the p-value of equivalence up to the margin, None where the report is of one run."""
        return None if self.report is None else self._p_equivalence(self.report, n)

    def _p_equivalence(self, report: Reported, n: float) -> float:
        return equivalence_p(report.difference, self.margin, Group(self.sd, n), Group(report.sd, report.n))

    def p_adjusted(self, n: int) -> float:
        """Return the adjusted p-value of the distance."""
        return self.step.adjust(self.n_tests * self.p(n))

    def p_without_floor(self, n: float) -> float:
        """Return what the adjusted p-value of n seeds (infinite: in the limit) is at least."""
        return min(1.0, self.step.factor * self.n_tests * self.p(n))
