"""Ranks methods that were measured with the same seeds; methods that the seeds cannot tell apart share their places.

Each pair of methods gets the paired t test over seeds (Student 1908). Holm's correction (1979) over all pairs keeps the
probability of any false order below 5 %. If k of n methods are better than a method, and l are worse, its place may be
any from 1 + k to n - l.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bench.judge.comparison import ALPHA, holm, paired


class Rank(NamedTuple):
    """The places that a method may have; 1 is best."""

    best: int
    worst: int

    def __str__(self) -> str:
        """Return the place, or the best and the worst one, such as "2-4"."""
        return str(self.best) if self.best == self.worst else f"{self.best}-{self.worst}"


class Order(NamedTuple):
    """Two methods that the seeds can tell apart."""

    better: str
    worse: str


def orders(numbers: Mapping[str, Mapping[int, float]], *, is_higher_better: bool) -> list[Order]:
    """Return the pairs of methods that the seeds can tell apart, from each method's numbers by seed."""
    pairs = {
        (one, other): found
        for one, other in itertools.combinations(numbers, 2)
        if (found := paired(numbers[one], numbers[other])) is not None and found.n > 1
    }
    # Nothing tells identical numbers apart.
    adjusted = holm({both: found.p if found.is_testable else 1.0 for both, found in pairs.items()})
    return [
        Order(other, one) if (found.difference > 0) == is_higher_better else Order(one, other)
        for (one, other), found in pairs.items()
        if adjusted[one, other] < ALPHA
    ]


def places(numbers: Mapping[str, Mapping[int, float]], *, is_higher_better: bool) -> dict[str, Rank]:
    """Return the places of each method, from its numbers by seed; telling two apart needs two common seeds."""
    found = orders(numbers, is_higher_better=is_higher_better)
    better, worse = Counter(one.worse for one in found), Counter(one.better for one in found)
    return {name: Rank(1 + better[name], len(numbers) - worse[name]) for name in numbers}


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Kendall's tau-b (1945) of two rankings of the same methods: 1 is the same order, 0 no relation.

    It is 0 if one of them ranks nothing, because all of its numbers are equal.
    """
    here, there = (np.sign(np.subtract.outer(numbers, numbers)) for numbers in (one, other))
    scale = math.sqrt(float((here**2).sum() * (there**2).sum()))
    return float((here * there).sum()) / scale if scale else 0.0
