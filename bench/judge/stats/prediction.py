"""The statistics of verdicts: the interval for one more run, tests of two means, Holm's correction.

Let k runs of a normal quantity have mean m and standard deviation s (divisor k - 1). For one more run x,
(x - m) / (s sqrt(1 + 1/k)) ~ t(k - 1)  (Hahn & Meeker 1991, Statistical Intervals, section 4.7).

The difference of two independent means has standard error se = sqrt(s1^2/n1 + s2^2/n2) and approximately a t
distribution with the degrees of freedom of Welch 1947 (Biometrika 34). Two one-sided tests show equivalence (Schuirmann
1987, J. Pharmacokin. Biopharm. 15): that the difference is above -margin, and that it is below margin. The larger
p-value counts.

Commands that only read records use this file, so it does not import scipy.stats, which imports slowly.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

LEVEL = 0.95
POWER = 0.8  # a test that rejects with this probability counts as able to see a shift
NODES = 64  # of each of the two integrals: over the true mean, and over the true standard deviation

Floats = NDArray[np.float64]
K = TypeVar("K", bound=Hashable)


def prediction_error(sd: float, n: int) -> float:
    """Return the standard error of one more run minus the mean of n runs with this standard deviation."""
    return sd * math.sqrt(1 + 1 / n)


def error_half_width(error: float, freedom: float, level: float = LEVEL) -> float:
    """Return the half-width of a two-sided t interval, from a standard error and its degrees of freedom."""
    return _quantile(0.5 + level / 2, freedom) * error if error else 0.0


def error_p(distance: float, error: float, freedom: float) -> float:
    """Return the two-sided p-value of a distance (>= 0), from its standard error and degrees of freedom.

    If the standard error is 0, the p-value is 1 for distance 0, else 0.
    """
    if distance == 0:
        return 1.0
    return 2 * float(special.stdtr(freedom, -distance / error)) if error else 0.0


def resolution(error: float, freedom: float, level: float) -> float:
    """Return the shift that a two-sided t test at `level` detects with probability `POWER`, by the noncentral t.

    `error` is the standard error of the difference (for one more run, s sqrt(1 + 1/k)), `freedom` its finite degrees
    of freedom.
    """
    if error == 0:
        return 0.0
    return float(special.nctdtrinc(freedom, 1 - POWER, _quantile(1 - level / 2, freedom))) * error


def best_of_p(low: float, high: float, sd: float, n: int, tries: int) -> float:
    """Return the two-sided p-value of a report that is the highest of several runs.

    Args:
        low: lowest number that prints as the report, minus the mean of our runs.
        high: the highest one.
        sd: standard deviation of our runs.
        n: number of our runs.
        tries: number of reported runs of which the highest was kept.
    """
    if sd == 0:
        return 1.0 if low <= 0 <= high else 0.0
    below, above = _highest_below(high / sd, n, tries), 1 - _highest_below(low / sd, n, tries)
    one_above = float(special.stdtr(n - 1, -low / prediction_error(sd, n)))  # p of one run: the integral is 0 far out
    return min(1.0, 2 * below, 2 * max(above, one_above))


def _highest_below(t: float, n: int, tries: int) -> float:
    """Return P(highest of several new runs < m + t s), for mean m and standard deviation s of n runs.

    The runs are standard normal. Let z be standard normal, and w^2 (n - 1) chi squared with n - 1 degrees of freedom.
    Then m = z / sqrt(n) and s = w. Given m and s, the new runs are independent, so the probability is the mean of
    Phi(t w + z / sqrt(n))^tries over w and z.
    """
    w, m, weights = _nodes(n)
    inside = special.ndtr(t * w[:, None] + m[None, :]) ** tries
    return float(weights @ inside @ weights)


@functools.cache
def _nodes(n: int) -> tuple[Floats, Floats, Floats]:
    """Return values of w, values of z / sqrt(n), and the weights of both, `NODES` numbers each."""
    places, weights = special.roots_legendre(NODES)
    share = (places + 1) / 2
    w = np.sqrt(special.chdtri(n - 1, share) / (n - 1))
    return w, special.ndtri(share) / math.sqrt(n), weights / 2


@functools.cache
def _quantile(probability: float, freedom: float) -> float:
    return float(special.stdtrit(freedom, probability))


class Group(NamedTuple):
    """The spread and the number of some runs."""

    sd: float  # standard deviation, divisor n - 1
    n: int  # number of runs, at least 2


def equivalence_p(difference: float, margin: float, first: Group, second: Group) -> float:
    """Return the p-value of Welch's two one-sided tests that |difference of the means| < margin.

    If both groups have no spread, the p-value is 0 inside the margin, else 1.
    """
    error, freedom = welch(first, second)
    room = margin - abs(difference)  # the larger p-value is that of the nearer end
    if error == 0:
        return 0.0 if room > 0 else 1.0
    return float(special.stdtr(freedom, -room / error))


def welch(first: Group, second: Group) -> tuple[float, float]:
    """Return the standard error of the difference of two means and its degrees of freedom."""
    parts = [(group.sd**2 / group.n, group.n - 1) for group in (first, second)]
    error = math.sqrt(sum(variance for variance, _ in parts))
    below = sum(variance**2 / freedom for variance, freedom in parts)
    return error, error**4 / below if below else math.inf


def holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """Return the adjusted p-value of each hypothesis.

    The smallest p-value is multiplied by the number of hypotheses n, the next one by n - 1, and so on. No adjusted
    p-value is below that of a smaller p-value.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6.
    """
    adjusted: dict[K, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[name]))
        adjusted[name] = largest
    return adjusted


def leaves_unit_interval(mean: float, width: float) -> bool:
    """Return whether an interval of a fraction extends below 0 or above 1, or has width 0 at 0 or at 1.

    Then the t rule is rough: it assumes normal numbers, but a fraction near 0 or 1 is skewed. At .98 of 10,000 images,
    one more run lies outside the interval of five seeds in 5 % of the cases, as often above as below. At .98 of 100
    images, it lies outside in 4.3 % of the cases, but mostly below (3.5 % against 0.8 %). Such an interval extends
    above 1. Logits are no better: 5.0 % and 7.5 % lie outside in the two cases, and they are infinite at 0 and 1.
    """
    return mean - width < 0 or mean + width > 1 or (width == 0 and mean in (0.0, 1.0))
