"""Differences of paired records, over seeds or (for one seed) over test rows; and the metrics that one side lacks."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from bench.core.records import Record
from bench.core.row_scores import Scores
from bench.data.manifest import TASKS
from bench.judge.compare.pairing import Pairs, TrainedRunName
from bench.judge.comparison import ALPHA, Estimate, holm_over, paired
from bench.judge.samples import LAST_EPOCH, MissingValue, metric

IDENTICAL, LOWER, HIGHER, UNSEEN, ONE_SEED = "identical", "B lower", "B higher", "no difference seen", "one seed"
NO_SPREAD = "no spread"  # few seeds, whose differences are equal: for shares of few images that is often chance

MAIN_METRICS = (
    *(f"{task.inside}/{name}" for task in TASKS.values() for name in ("accuracy", "nll", "ece")),
    "noise_gaussian/predictive_entropy",
    "*/auroc_predictive_entropy",
    "*/train_loss*",
    "*/*/accuracy",
    "*/*/refusal_rate",
    "*/*/predictive_entropy",
    "toy/*",
)


@dataclass(frozen=True)
class Difference:
    """One metric of one trained run: the estimate of B minus A."""

    trained_run: TrainedRunName
    metric: str
    estimate: Estimate
    p_adjusted: float | None = None  # over all metrics; None without a spread, and for identical numbers

    @property
    def outcome(self) -> str:
        """Return what the seeds say of the metric."""
        if self.estimate.is_identical:
            return IDENTICAL
        if self.p_adjusted is None:
            return ONE_SEED if self.estimate.n == 1 else NO_SPREAD
        if self.p_adjusted >= ALPHA:
            return UNSEEN
        return HIGHER if self.estimate.difference > 0 else LOWER


@dataclass(frozen=True)
class RowTest:
    """The comparison of two networks of one seed on the same rows. It says nothing of their recipes."""

    trained_run: TrainedRunName
    seed: int
    n_rows: int
    only_a: int  # rows that only A has right
    only_b: int
    accuracy_difference: float  # B minus A
    half_width: float  # of its 95 % interval over rows
    p: float  # McNemar's exact test


@dataclass(frozen=True)
class Lack:
    """A metric that cannot be compared, because these seeds of one side have no number."""

    trained_run: TrainedRunName
    metric: str
    side: str  # "A" or "B"
    seeds: tuple[int, ...]
    reason: str


def differences(pairs: Iterable[Pairs], patterns: Sequence[str]) -> list[Difference]:
    """Return the differences of all metrics that fit a pattern and that every record has; Holm adjusts the p-values."""
    found = [
        Difference(trained_run.trained_run, name, _estimate(trained_run, name))
        for trained_run in pairs
        for name in _names(trained_run, patterns)
        if not _missing_values(trained_run, name)
    ]
    adjusted = holm_over({place: one.estimate for place, one in enumerate(found)})
    return [replace(one, p_adjusted=adjusted.get(place)) for place, one in enumerate(found)]


def _estimate(trained_run: Pairs, name: str) -> Estimate:
    a, b = ({record.seed: _number(record, name) for record in side} for side in (trained_run.a, trained_run.b))
    found = paired(a, b)
    assert found is not None, "a trained run of both folders has a seed in common"
    return found


def _number(record: Record, name: str) -> float:
    value = metric(record, name)
    assert not isinstance(value, MissingValue), "only what every record has is compared"
    return value


def lacking(pairs: Iterable[Pairs], patterns: Sequence[str]) -> list[Lack]:
    """Return the metrics that fit a pattern and that some records have and others lack."""
    return [
        lack
        for trained_run in pairs
        for name in _names(trained_run, patterns)
        for lack in _missing_values(trained_run, name)
    ]


def _names(trained_run: Pairs, patterns: Sequence[str]) -> list[str]:
    """Return the metrics that fit a pattern and are a finite number in some record of either side."""
    records = [*trained_run.a, *trained_run.b]
    final = dict.fromkeys(name for record in records for name in record.metrics)
    last = [record.epochs[-1].metrics for record in records if record.epochs]
    traced = dict.fromkeys(name for metrics in last for name in metrics if "/" in name and name not in final)
    names = [
        *(name for name in final if _fits(name, patterns)),
        *(LAST_EPOCH + name for name in traced if _fits(name, patterns)),
    ]
    return [name for name in names if not all(isinstance(metric(record, name), MissingValue) for record in records)]


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _missing_values(trained_run: Pairs, name: str) -> list[Lack]:
    """Return which records have no finite number for a metric: one entry for each side and reason."""
    found: dict[tuple[str, str], list[int]] = {}
    for side, records in (("A", trained_run.a), ("B", trained_run.b)):
        for seed, record in zip(trained_run.seeds, records, strict=True):
            value = metric(record, name)
            if isinstance(value, MissingValue):
                found.setdefault((side, value.reason), []).append(seed)
    return [Lack(trained_run.trained_run, name, side, tuple(seeds), reason) for (side, reason), seeds in found.items()]


def row_test(trained_run: TrainedRunName, seed: int, a: Scores, b: Scores, inside: str = "mnist") -> RowTest | None:
    """Compare the accuracies of two networks on the data set `inside`; None unless both have scores of the same rows.

    The interval is that of the mean over rows of differences that are -1, 0 or 1. The p-value is McNemar's exact one:
    without a difference, a row that only one network has right is A's or B's with equal probability (McNemar 1947,
    Psychometrika 12).
    """
    label, predicted = (f"{inside}/{name}" for name in ("label", "predicted"))
    if any(name not in side for side in (a, b) for name in (label, predicted)):
        return None
    if not np.array_equal(a[label], b[label]):
        return None
    right_a, right_b = (side[predicted] == side[label] for side in (a, b))
    only_a, only_b = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    n = len(right_a)
    step = (only_b - only_a) / n
    variance = (only_a + only_b) / n - step**2
    p = float(stats.binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
    return RowTest(trained_run, seed, n, only_a, only_b, step, 1.959964 * math.sqrt(max(0.0, variance) / n), p)
