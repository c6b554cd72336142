"""The numbers that a verdict looks at, and which of its rules hold with a given number of seeds."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from bench.judge.stats.equivalence import Group, difference_half_width, difference_p, equivalence_p
from bench.judge.stats.prediction import HolmStep, half_width, p_value

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


class Hypothesis(NamedTuple):
    """What is tested together with a claim: its curve over epochs, or the claim alone."""

    n_epochs: int = 1
    smallest_p: float = 1.0  # of its epochs
    n_hypotheses: int = 1  # of the document
    step: HolmStep = HolmStep(1, 0.0)  # among these


class Deciding(NamedTuple):
    """The numbers of seeds that would decide a claim, if more seeds keep today's mean and spread."""

    first: int
    last: int | None  # with more seeds the claim is open again; None: it stays decided

    @property
    def span(self) -> str:
        """Return the numbers in words."""
        return f"{self.first}" if self.last in (None, self.first) else f"{self.first} to {self.last}"


@dataclass(frozen=True)
class Evidence:
    """The numbers that decide a claim."""

    distance: float  # from our mean to the nearest number that prints as the reported one
    sd: float  # standard deviation of our seeds
    margin: float  # declared difference that would matter
    hypothesis: Hypothesis
    report: Reported | None = None  # None: the report is of one run

    def decide(self, n: float, p_adjusted: float) -> str | None:
        """Return the outcome that n seeds of this mean and spread decide; None if they decide nothing."""
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

    def decides(self, n: float) -> bool:
        """Return whether n seeds of this mean and spread decide; n is infinite for ever more seeds.

        More seeds would change the p-values of the document's other claims too, so that their floor does not count.
        """
        return self.decide(n, self.p_without_floor(n)) is not None

    def deciding(self, n: int) -> Deciding | None:
        """Return the numbers of seeds above n that decide; None if there are none up to `MOST_SEEDS`.

        If the claim stays decided from some number on, return that number; None if it lies beyond `MOST_SEEDS`.
        """
        begins = [(next(numbers), holds) for holds, numbers in itertools.groupby(self._changes(n), self.decides)]
        in_the_limit = self.decides(math.inf)
        if begins and begins[-1][1]:
            return Deciding(begins[-1][0], None if in_the_limit else MOST_SEEDS)
        if len(begins) < 2 or in_the_limit:
            return None
        (first, _), (after, _) = begins[-2:]
        return Deciding(first, after - 1)

    def _changes(self, n: int) -> list[int]:
        """Return the numbers of seeds above n at which a condition of the rule may begin or cease to hold.

        For one more run, half-width and p-value only fall with more seeds, so that each condition changes once. For
        two means they may rise, because Welch's degrees of freedom may fall: then every number counts.
        """
        more = range(n + 1, MOST_SEEDS + 1)
        if self.report is not None:
            return list(more)
        conditions: tuple[Callable[[int], bool], ...] = (
            lambda k: self.distance + half_width(self.sd, k) <= self.margin,
            lambda k: half_width(self.sd, k) <= self.margin,
            lambda k: half_width(self.sd, k) < self.distance,
            lambda k: self.p_without_floor(k) < ALPHA,
        )
        places = {0, *(bisect.bisect_left(more, True, key=condition) for condition in conditions)}
        return sorted(more[place] for place in places if place < len(more))

    def half_width(self, n: float) -> float:
        """Return the half-width for one more run, or for the difference of means if the report has several runs."""
        if self.report is None:
            return half_width(self.sd, n)
        return difference_half_width(Group(self.sd, n), Group(self.report.sd, self.report.n))

    def p(self, n: float) -> float:
        """Return the p-value of the distance, not adjusted; n may be infinite."""
        if self.report is None:
            return p_value(self.distance, self.sd, n)
        return difference_p(self.distance, Group(self.sd, n), Group(self.report.sd, self.report.n))

    def p_equivalence(self, n: float) -> float | None:
        """Return the p-value of equivalence up to the margin; None if the report is of one run."""
        return None if self.report is None else self._p_equivalence(self.report, n)

    def _p_equivalence(self, report: Reported, n: float) -> float:
        return equivalence_p(report.difference, self.margin, Group(self.sd, n), Group(report.sd, report.n))

    def p_adjusted(self, n: int) -> float:
        """Return the adjusted p-value of the distance."""
        return self.hypothesis.step.adjust(self.hypothesis.n_epochs * self.p(n))

    def p_without_floor(self, n: float) -> float:
        """Return a lower bound of the adjusted p-value of n seeds; n may be infinite."""
        return min(1.0, self.hypothesis.step.factor * self.hypothesis.n_epochs * self.p(n))
