"""The statistics of the gate: tests of fresh runs against reference runs, and how often the tests raise an alarm.

Let k reference runs have mean a and standard deviation s (divisor k - 1), and m fresh runs of the same normal quantity
mean b. Then (b - a) / (s sqrt(1/m + 1/k)) ~ t(k - 1). The spread is that of the reference alone, so few fresh runs are
enough (Hahn & Meeker 1991, Statistical Intervals, section 4.8).

An alarm needs both a p-value below alpha and a difference above the margin. The rates of alarms, with and without a
shift, take the reference's standard deviation as the true one.

If seeds may diverge, their number is one more quantity. Fisher's exact test says whether fresh seeds diverge more often
than the reference's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bench.judge.stats.prediction import LEVEL, POWER, error_half_width, error_p

_GRID = 2_000  # points of the integral over the standard deviation


@dataclass(frozen=True)
class Design:
    """The numbers of a gated quantity that decide how often it raises an alarm."""

    sd: float  # of the reference runs
    k: int  # reference runs, at least 2
    m: int  # fresh runs
    margin: float  # the difference that would matter

    @property
    def standard_error(self) -> float:
        """Return the standard deviation of fresh mean minus reference mean."""
        return self.sd * math.sqrt(1 / self.m + 1 / self.k)

    def half_width(self, level: float = LEVEL) -> float:
        """Return the half-width of the two-sided prediction interval for the mean of the fresh runs."""
        return error_half_width(self.standard_error, self.k - 1, level)

    def p_value(self, difference: float) -> float:
        """Return the two-sided p-value of a difference of means; without a spread, 1 for difference 0, else 0."""
        return error_p(abs(difference), self.standard_error, self.k - 1)

    def alarm_rate(self, shift: float, alpha: float) -> float:
        """Return how often the p-value is below `alpha` and the difference is above the margin, both at once.

        Both sets of runs are random. The true mean of the fresh runs is `shift` above the reference's. The difference
        of means and the reference's standard deviation are independent, so one integral, over the standard deviation,
        is enough.
        """
        if self.sd == 0:
            return float(abs(shift) > self.margin)
        spreads, weights = _spreads(self.k)
        critical = float(stats.t.isf(alpha / 2, self.k - 1))
        limit = np.maximum(self.margin / self.standard_error, critical * spreads)
        away = abs(shift) / self.standard_error
        alarms = stats.norm.sf(limit - away) + stats.norm.cdf(-limit - away)
        return float(weights @ alarms)

    def false_alarm_rate(self, alpha: float) -> float:
        """Return how often unchanged code raises an alarm."""
        return self.alarm_rate(0.0, alpha)

    def smallest_shift(self, alpha: float) -> float:
        """Return the smallest shift that raises an alarm with probability `POWER`."""
        low, high = 0.0, self.margin + self.sd
        if self.sd == 0:
            return self.margin
        while self.alarm_rate(high, alpha) < POWER:
            low, high = high, 2 * high
        while high - low > 1e-4 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.alarm_rate(middle, alpha) < POWER else (low, middle)
        return high


@dataclass(frozen=True)
class DivergenceCounts:
    """How many seeds of one cell diverged."""

    of_reference: int
    k: int  # reference seeds
    of_fresh: int
    m: int  # fresh seeds

    @property
    def p_value(self) -> float:
        """Return the one-sided p-value that fresh seeds diverge more often than the reference's.

        In unchanged code, given how many of all k + m seeds diverged, the number among the m fresh ones has a
        hypergeometric distribution, whatever the share that diverges (Fisher 1935, The logic of inductive inference,
        JRSS 98).
        """
        n_diverged = self.of_reference + self.of_fresh
        return float(stats.hypergeom.sf(self.of_fresh - 1, self.k + self.m, n_diverged, self.m))

    def alarms(self, p_value: float, alpha: float) -> bool:
        """Return whether there is an alarm, by an adjusted or unadjusted p-value.

        If all fresh seeds diverge, there always is one, because no number is left to compare.
        """
        return self.of_fresh == self.m or p_value < alpha

    def false_alarm_rate(self, alpha: float) -> float:
        """Return how often unchanged code raises an alarm, taking the reference's share of diverged seeds as true."""
        if not self.of_reference:
            return 0.0
        counts = [replace(self, of_fresh=n) for n in range(self.m + 1)]
        alarms = [count.of_fresh for count in counts if count.alarms(count.p_value, alpha)]
        return float(stats.binom.pmf(alarms, self.m, self.of_reference / self.k).sum())


def false_alarm_rate(quantities: Sequence[Design | DivergenceCounts], alpha: float, n_quantities: int) -> float:
    """Return how often unchanged code raises any alarm, by Holm's procedure over independent quantities.

    Args:
        quantities: those whose alarms count.
        alpha: level of the procedure.
        n_quantities: number of all quantities that the procedure tests.

    Holm's procedure rejects nothing unless the smallest p-value is below alpha / n_quantities, so this is the level of
    each quantity. Quantities of one fit depend on each other, which only makes alarms rarer. A small p-value whose
    difference is below its margin gives the next quantity a higher level; `test_gate_stats` shows that this hardly
    matters.
    """
    return 1 - math.prod(1 - quantity.false_alarm_rate(alpha / n_quantities) for quantity in quantities)


@functools.cache
def _spreads(k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return possible standard deviations of k standard normal runs, and their weights, which add up to one.

    They are equally spaced in the cube root of the probability, so that small ones are dense: rare alarms come from
    runs that lie close together by chance.
    """
    root = (np.arange(_GRID) + 0.5) / _GRID
    weights = 3 * root**2
    return np.sqrt(stats.chi2.ppf(root**3, k - 1) / (k - 1)), weights / weights.sum()
