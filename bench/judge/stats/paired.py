"""Differences between two measurements of the same seeds, with the t interval of their mean.

For n differences with mean d and standard deviation s (divisor n - 1), the interval is d +- t(n - 1, .975) s / sqrt(n)
(Student 1908). Both fits of a seed use the same random numbers (initial weights, order of images, noise images), so the
effect of the seed itself cancels. Fractions within a few counts of 0 or 1 are skewed, so their interval may be rough:
see `reaches_an_end`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from bench.judge.stats.prediction import LEVEL, error_half_width, error_p
from bench.judge.stats.rule import ENOUGH

ROUNDED = 1e-12  # share of the largest number: a smaller standard deviation of differences is mere rounding


@dataclass(frozen=True)
class Paired:
    """One number before and after a change, of the same seeds; at least one seed."""

    seeds: tuple[int, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def n(self) -> int:
        """Return the number of seeds."""
        return len(self.seeds)

    @property
    def differences(self) -> tuple[float, ...]:
        """Return after minus before for each seed."""
        return tuple(b - a for a, b in zip(self.before, self.after, strict=True))

    @property
    def mean(self) -> float:
        """Return the mean difference."""
        return statistics.fmean(self.differences)

    def half_width(self, level: float = LEVEL) -> float | None:
        """Return the half-width of the interval of the mean difference; None for one seed."""
        return None if self.n < 2 else error_half_width(self._sd, self.n - 1, level) / math.sqrt(self.n)

    @property
    def p(self) -> float | None:
        """Return the two-sided p-value of the paired t test; None without a spread, and for identical numbers."""
        if self.identical or not self.has_spread:
            return None
        return error_p(abs(self.mean), self._sd / math.sqrt(self.n), self.n - 1)

    @property
    def has_spread(self) -> bool:
        """Return whether the differences show how much chance moves them.

        One seed does not show it. Nor do fewer than `ENOUGH` seeds whose differences are equal up to rounding: t would
        be infinite, but differences of shares of few images are often equal by chance. If no number changed at all,
        the difference is certain: it is zero.
        """
        if self.n < 2:
            return False
        largest = max(map(abs, (*self.before, *self.after)))
        return self.n >= ENOUGH or self.identical or self._sd > ROUNDED * largest

    @property
    def _sd(self) -> float:
        return statistics.stdev(self.differences)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the mean difference, None for one seed."""
        half = self.half_width()
        return None if half is None else (self.mean - half, self.mean + half)

    @property
    def identical(self) -> bool:
        """Return whether the change left the number of every seed exactly as it was."""
        return self.before == self.after

    @property
    def excludes_zero(self) -> bool:
        """Return whether the 95 % interval of the mean difference excludes zero; False for one seed."""
        found = self.interval
        return found is not None and not found[0] <= 0 <= found[1]

    def reaches_an_end(self) -> bool:
        """Return whether the interval of a fraction reaches beyond 0 or 1, so that the t rule is rough."""
        found = self.interval
        if found is None:
            return False
        start = statistics.fmean(self.before)
        return start + found[0] < 0 or start + found[1] > 1


def pair(before: Mapping[int, float], after: Mapping[int, float]) -> Paired | None:
    """Pair two mappings from seed to number, for the seeds that both have; None without a common seed."""
    seeds = tuple(sorted(before.keys() & after.keys()))
    if not seeds:
        return None
    return Paired(seeds, tuple(before[seed] for seed in seeds), tuple(after[seed] for seed in seeds))
