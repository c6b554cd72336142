"""Two means with unequal spreads: are they different, and are they equal up to a margin?

The difference of two independent means has standard error se = sqrt(s1^2/n1 + s2^2/n2) and, near enough, a t
distribution with the degrees of freedom of Welch 1947 (Biometrika 34). Equivalence is shown by two one-sided tests
(Schuirmann 1987, J. Pharmacokin. Biopharm. 15) that it is above -margin and below margin; the larger p-value counts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from bench.judge.stats.prediction import upper_tail


class Group(NamedTuple):
    """What is known of a group of runs."""

    sd: float  # standard deviation, divisor n - 1
    n: float  # number of runs, at least 2; may be infinite


def equivalence_p(difference: float, margin: float, first: Group, second: Group) -> float:
    """Return the p-value of Welch's two one-sided tests that |difference of the means| < margin.

    Without any spread it is 0 inside the margin, else 1.
    """
    error, freedom = welch(first, second)
    room = margin - abs(difference)  # the larger p-value is that of the nearer end
    if error == 0:
        return 0.0 if room > 0 else 1.0
    return upper_tail(room / error, freedom)


def welch(first: Group, second: Group) -> tuple[float, float]:
    """Return the standard error of the difference of two means and its degrees of freedom."""
    parts = [(group.sd**2 / group.n, group.n - 1) for group in (first, second)]
    error = math.sqrt(sum(variance for variance, _ in parts))
    below = sum(variance**2 / freedom for variance, freedom in parts)
    return error, error**4 / below if below else math.inf
