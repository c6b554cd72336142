"""The one comparison of numbers that scatter between seeds: the estimate of a difference, and Holm's correction.

Three functions make an estimate, from numbers that are about normal on the scale that they are given on:

    against_reported   k runs with mean m and standard deviation s (divisor k - 1), and a number x reported of one more
                       run: (m - x) / (s sqrt(1 + 1/k)) ~ t(k - 1)  (Hahn & Meeker 1991, Statistical Intervals, 4.7).
                       If the report is the mean of several runs with a standard deviation, Welch's test of two means
                       (1947, Biometrika 34).
    independent        k runs, and m further runs with mean b: (b - a) / (s sqrt(1/m + 1/k)) ~ t(k - 1). The spread is
                       that of the k runs alone, so few further runs are enough (Hahn & Meeker 1991, 4.8).
    paired             n differences of the same seeds, with mean d and standard deviation s: d / (s / sqrt(n)) ~
                       t(n - 1)  (Student 1908). Both fits of a seed use the same random numbers (initial weights,
                       order of images, noise images), so the effect of the seed itself cancels.

Two one-sided tests show equivalence (Schuirmann 1987, J. Pharmacokin. Biopharm. 15): that the difference is above
-margin, and that it is below margin. The larger p-value counts.

SciPy's functions are imported when they are first used, and scipy.stats never: it imports slowly.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from bench.judge.samples import Samples

LEVEL = 0.95
ALPHA = 0.05
POWER = 0.8  # a test that rejects with this probability counts as able to see a shift
ENOUGH = 5  # seeds
CONFIRMED, CONTRADICTED, CANNOT_TELL = "confirmed", "contradicted", "no single run can tell"
ROUNDED = 1e-12  # share of the largest number: a smaller standard deviation of differences is mere rounding

K = TypeVar("K", bound=Hashable)


class Reported(NamedTuple):
    """A number reported elsewhere, as it is printed."""

    low: float  # smallest number that prints so
    high: float  # largest one
    sd: float | None = None  # standard deviation of the runs whose mean it is; None: it is of one run
    n_runs: int = 1

    @property
    def middle(self) -> float:
        """Return the middle of the numbers that print so."""
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class Estimate:
    """A difference of two numbers: (difference - true difference) / error has a t distribution."""

    first: Samples  # the seeds that are compared; ours, where a reported number is the other side
    second: Samples  # none for a reported number
    difference: float  # second minus first, or distance of our mean from the nearest number that prints as the report
    error: float  # standard error of the difference; 0 without a spread
    freedom: float  # degrees of freedom; 0 for one seed
    has_spread: bool = True  # whether the seeds show how much chance moves the difference

    @property
    def n(self) -> int:
        """Return the number of seeds of the first side."""
        return self.first.n

    @property
    def p(self) -> float:
        """Return the two-sided p-value, 1 for one seed; without a spread, 1 for difference 0, else 0."""
        if self.difference == 0 or not self.freedom:
            return 1.0
        return 2 * _t_below(-abs(self.difference) / self.error, self.freedom) if self.error else 0.0

    @property
    def is_identical(self) -> bool:
        """Return whether the numbers of every seed are equal to the last bit: then the difference is certain."""
        return self.first.by_seed == self.second.by_seed

    @property
    def is_testable(self) -> bool:
        """Return whether p says something: there is a spread, and not all numbers are identical."""
        return self.has_spread and not self.is_identical

    def half_width(self, level: float = LEVEL) -> float | None:
        """Return the half-width of the two-sided interval of the difference; None for one seed."""
        if not self.freedom:
            return None
        return quantile(0.5 + level / 2, self.freedom) * self.error if self.error else 0.0

    def interval(self, level: float = LEVEL) -> tuple[float, float] | None:
        """Return the two-sided interval of the difference; None for one seed."""
        half = self.half_width(level)
        return None if half is None else (self.difference - half, self.difference + half)

    @property
    def excludes_zero(self) -> bool:
        """Return whether the 95 % interval excludes zero; False for one seed."""
        found = self.interval()
        return found is not None and not found[0] <= 0 <= found[1]

    def equivalence_p(self, margin: float) -> float:
        """Return the p-value of the two one-sided tests that |difference| < margin; without a spread, 0 or 1."""
        room = margin - abs(self.difference)  # the larger p-value is that of the nearer end
        if self.error == 0:
            return 0.0 if room > 0 else 1.0
        return _t_below(-room / self.error, self.freedom)

    def resolution(self, level: float) -> float:
        """Return the shift that a two-sided test at `level` detects with probability `POWER`, by the noncentral t."""
        if self.error == 0:
            return 0.0
        from scipy import special

        return float(special.nctdtrinc(self.freedom, 1 - POWER, quantile(1 - level / 2, self.freedom))) * self.error


def against_reported(ours: Samples, reported: Reported, spread: tuple[float, int] | None = None) -> Estimate:
    """Compare at least two runs of ours with a reported number.

    `spread`: standard deviation and degrees of freedom, if not those of our runs. A report of several runs has none.
    """
    assert ours.sd is not None, "at least two runs"
    sd, freedom = spread or (ours.sd, ours.n - 1)
    mean = statistics.fmean(ours.values)
    distance = max(0.0, reported.low - mean, mean - reported.high)
    if reported.sd is None:
        # Equal seeds cannot judge another number that is of one run.
        has_spread = ours.sd > 0 or distance == 0
        return Estimate(ours, Samples(), distance, one_more_error(sd, ours.n), freedom, has_spread)
    return Estimate(ours, Samples(), distance, *welch((ours.sd, ours.n), (reported.sd, reported.n_runs)))


def welch(*groups: tuple[float, float]) -> tuple[float, float]:
    """Return error and degrees of freedom of a difference of means, from each group's sd and number of runs."""
    parts = [(sd**2 / n, n - 1) for sd, n in groups]
    error = math.sqrt(sum(variance for variance, _ in parts))
    below = sum(variance**2 / freedom for variance, freedom in parts)
    return error, error**4 / below if below else math.inf


def independent(first: Samples, second: Samples) -> Estimate:
    """Compare at least two runs with at least one further run; the spread is that of the first runs."""
    assert first.sd is not None, "at least two runs"
    error = first.sd * math.sqrt(1 / second.n + 1 / first.n)
    difference = statistics.fmean(second.values) - statistics.fmean(first.values)
    return Estimate(first, second, difference, error, first.n - 1)


def paired(before: Mapping[int, float], after: Mapping[int, float]) -> Estimate | None:
    """Compare two mappings from seed to number, for the seeds that both have; None without a common seed.

    Fewer than `ENOUGH` seeds whose differences are equal up to rounding have no spread: t would be infinite, but
    differences of shares of few images are often equal by chance.
    """
    seeds = sorted(before.keys() & after.keys())
    if not seeds:
        return None
    first, second = (Samples({seed: numbers[seed] for seed in seeds}) for numbers in (before, after))
    differences = [second.by_seed[seed] - first.by_seed[seed] for seed in seeds]
    mean, n = statistics.fmean(differences), len(seeds)
    if n < 2:
        return Estimate(first, second, mean, 0.0, 0, has_spread=False)
    sd, largest = statistics.stdev(differences), max(map(abs, (*first.values, *second.values)))
    has_spread = n >= ENOUGH or first.by_seed == second.by_seed or sd > ROUNDED * largest
    return Estimate(first, second, mean, sd / math.sqrt(n), n - 1, has_spread)


def one_more_error(sd: float, n: float) -> float:
    """Return the standard error of one more run minus the mean of n runs with this standard deviation."""
    return sd * math.sqrt(1 + 1 / n)


def holm(p_values: Mapping[K, float], n: int = 0) -> dict[K, float]:
    """Return the adjusted p-value of each hypothesis, of `n` in all; those without a p-value count as p = 1.

    The smallest p-value is multiplied by the number of hypotheses n, the next one by n - 1, and so on. No adjusted
    p-value is below that of a smaller p-value.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6.
    """
    adjusted: dict[K, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, (max(n, len(p_values)) - rank) * p_values[name]))
        adjusted[name] = largest
    return adjusted


def holm_over(estimates: Mapping[K, Estimate | None], n: int = 0) -> dict[K, float]:
    """Return the adjusted p-value of each estimate that can be tested, of `n` hypotheses in all; others have none."""
    return holm({name: one.p for name, one in estimates.items() if one is not None and one.is_testable}, n)


def leaves_unit_interval(low: float, high: float) -> bool:
    """Return whether an interval of a fraction extends below 0 or above 1, or has width 0 at 0 or at 1.

    Then the t rule is rough: it assumes normal numbers, but a fraction near 0 or 1 is skewed. At .98 of 10,000 images,
    one more run lies outside the interval of five seeds in 5 % of the cases, as often above as below. At .98 of 100
    images, it lies outside in 4.3 % of the cases, but mostly below (3.5 % against 0.8 %). Such an interval extends
    above 1. Logits are no better: 5.0 % and 7.5 % lie outside in the two cases, and they are infinite at 0 and 1.
    """
    return low < 0 or high > 1 or (low == high and low in (0.0, 1.0))


@functools.cache
def quantile(probability: float, freedom: float) -> float:
    """Return a quantile of Student's t."""
    from scipy import special

    return float(special.stdtrit(freedom, probability))


def _t_below(t: float, freedom: float) -> float:
    from scipy import special

    return float(special.stdtr(freedom, t))
