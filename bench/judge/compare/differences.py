"""Paired differences: over seeds or, for a single seed, over the rows of the test set."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from bench.core.records import Record
from bench.core.row_scores import Scores
from bench.judge.compare.metrics import MAIN_METRICS, comparable
from bench.judge.compare.pairing import CellName, Pairs
from bench.judge.gate.samples import read
from bench.judge.samples import Gap
from bench.judge.stats.paired import Paired
from bench.judge.stats.prediction import holm

ALPHA = 0.05
IDENTICAL, LOWER, HIGHER, UNSEEN, ONE_SEED = "identical", "B lower", "B higher", "no difference seen", "one seed"


@dataclass(frozen=True)
class Difference:
    """One metric of one cell, B minus A."""

    cell: CellName
    metric: str
    seeds: tuple[int, ...]
    mean_a: float
    mean_b: float
    n_equal: int  # pairs whose numbers are the same to the last bit
    half_width: float | None  # of the 95 % interval over seeds; None for one seed
    p: float | None  # two-sided, of the paired t test; None for one seed and for identical numbers
    p_adjusted: float | None = None

    @property
    def difference(self) -> float:
        """Return the mean of B minus A."""
        return self.mean_b - self.mean_a

    @property
    def outcome(self) -> str:
        """Return what can be said."""
        if self.n_equal == len(self.seeds):
            return IDENTICAL
        if self.p_adjusted is None:
            return ONE_SEED
        if self.p_adjusted >= ALPHA:
            return UNSEEN
        return HIGHER if self.difference > 0 else LOWER


@dataclass(frozen=True)
class RowTest:
    """The two networks of one seed on the same rows. It compares these two networks, not their recipes."""

    cell: CellName
    seed: int
    n_rows: int
    only_a: int  # rows that only A has right
    only_b: int
    accuracy_difference: float  # B minus A
    half_width: float  # of its 95 % interval over rows
    p: float  # McNemar's exact test


def differences(pairs: Iterable[Pairs], patterns: Sequence[str] = MAIN_METRICS) -> list[Difference]:
    """Return the differences of every metric that a pattern names; p-values are adjusted over all (Holm)."""
    found = [_difference(cell, metric) for cell in pairs for metric in comparable(cell, patterns)]
    adjusted = holm({place: one.p for place, one in enumerate(found) if one.p is not None})
    return [replace(one, p_adjusted=adjusted.get(place)) for place, one in enumerate(found)]


def _difference(cell: Pairs, metric: str) -> Difference:
    """Return one metric's difference, with its interval over seeds where there are two or more."""
    a, b = (tuple(_number(record, metric) for record in side) for side in (cell.a, cell.b))
    paired, n_equal = Paired(cell.seeds, a, b), sum(one == other for one, other in zip(a, b, strict=True))
    means = statistics.fmean(a), statistics.fmean(b)
    return Difference(cell.cell, metric, cell.seeds, *means, n_equal, paired.half_width, paired.p)


def _number(record: Record, metric: str) -> float:
    value = read(record, metric)
    assert not isinstance(value, Gap), "only what every record has is comparable"
    return value


def row_test(cell: CellName, seed: int, a: Scores, b: Scores) -> RowTest | None:
    """Compare the accuracies of two networks on the same rows; None if a side has no per-row scores.

    The interval is that of a mean of paired differences in -1, 0, 1. The p-value is McNemar's exact one: if there is no
    difference, a row that only one side has right is as likely to be A's as B's (McNemar 1947, Psychometrika 12).
    """
    names = ("mnist/label", "mnist/predicted")
    if any(name not in side for side in (a, b) for name in names):
        return None
    if not np.array_equal(a["mnist/label"], b["mnist/label"]):
        return None
    right_a, right_b = (side["mnist/predicted"] == side["mnist/label"] for side in (a, b))
    only_a, only_b = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    n = len(right_a)
    step = (only_b - only_a) / n
    variance = (only_a + only_b) / n - step**2
    p = float(stats.binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
    return RowTest(cell, seed, n, only_a, only_b, step, 1.959964 * math.sqrt(max(0.0, variance) / n), p)
