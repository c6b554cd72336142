"""Asks whether the numbers of a folder were edited: metrics are computed again from the stored scores of all rows.

Nobody can see an edit of a record without scores, or one for which somebody made scores that fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bench.core.records import Record
from bench.core.store import Store
from bench.measure.stored import computed_again

SUMMED = 1e-9  # relative rounding error of float64 sums of 60,000 rows in another order: 60,000 x 2^-53 = 7e-12
CLOSE = 0.1  # a metric counts as computed again if rounded scores leave at most this share of its value open


@dataclass
class Verified:
    """What computing metrics again came to."""

    records: int = 0  # finished
    scored: int = 0  # of them, those with scores
    metrics: int = 0  # computed again
    differing: list[str] = field(default_factory=list)  # a line for each metric that its scores do not make
    left_out: set[str] = field(default_factory=set)  # names of metrics that the scores do not determine


def verify(records: Iterable[Record], store: Store) -> Verified:
    """Compute the metrics of the finished records of a folder again, as far as scores are there."""
    found = Verified()
    for record in records:
        if record.outcome != "done":
            continue
        found.records += 1
        scores = store.scores(record)
        if not scores:
            continue
        found.scored += 1
        metrics = {key: value for key, value in record.metrics.items() if value is not None}
        bounds = {key: both for key, both in computed_again(scores).items() if key in metrics}
        name = f"{record.title}, profile {record.profile}"
        found.differing += [
            f"{name}: {key} is {metrics[key]:.6g}, its scores make it {_between(both)}"
            for key, both in bounds.items()
            if not _is_within(metrics[key], both)
        ]
        known = _known(metrics, bounds)
        found.metrics += len(known)
        found.left_out |= {key.partition("/")[2] for key in metrics.keys() - known}
    return found


def _known(metrics: Mapping[str, float], bounds: Mapping[str, tuple[float, float]]) -> set[str]:
    """Return the keys of the metrics that their scores determine, or that differ from them."""
    return {
        key
        for key, (low, high) in bounds.items()
        if high - low <= CLOSE * abs(metrics[key]) or not _is_within(metrics[key], (low, high))
    }


def _is_within(value: float, bounds: tuple[float, float]) -> bool:
    slack = SUMMED * max(map(abs, bounds))
    return bounds[0] - slack <= value <= bounds[1] + slack


def _between(bounds: tuple[float, float]) -> str:
    low, high = (f"{value:.6g}" for value in bounds)
    return low if low == high else f"{low} to {high}"
