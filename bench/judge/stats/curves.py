"""A curve over epochs as one claim: one statistic for each run.

The runs are the report and our k seeds. The numbers of every epoch, on its claim's scale, are standardised by the mean
and standard deviation of all k + 1 runs. The statistic of a run is the mean over its epochs. The t rule compares the
statistic of the report with those of our seeds. The margin is the mean of the epochs' margins, standardised too.
Standardising by our seeds alone would raise the rate of false alarms to 10 to 12 %. A curve of one epoch, or of epochs
that move together, is judged like a single claim.

Before, the p-value of a curve was the smallest p-value of its epochs times their number. It misses a curve that lies a
little high everywhere, and one epoch whose seeds agree by chance can decide it. The statistic replaced it on
2026-11-23, after alsibahi2019's training accuracy had been seen: it lies above ours in most of its 50 epochs. So both
p-values are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.judge.claims import Claim, ClaimRow
from bench.judge.comparison import ALPHA, ENOUGH, Reported
from bench.judge.samples import Samples
from bench.judge.stats.on_scale import OnScale, on_scale
from bench.judge.stats.rule import TOO_FEW, is_exact

SEEN_BEFORE = "alsibahi2019/dropout_fcn/accuracy/mnist/train50k"
"""The curve that had been seen when the statistic was chosen."""


@dataclass(frozen=True)
class Curve:
    """The points of a curve, the numbers that decide it, and its verdict."""

    name: str
    rows: tuple[ClaimRow, ...]  # the measured points, in the order of the claims
    on_scale: OnScale | None  # None with fewer than two seeds, or where the seeds of the epochs are not the same
    smallest_p: float | None  # the smallest p-value of its points, times their number
    outcome: str = TOO_FEW
    p_adjusted: float | None = None  # over the document's claims, if the curve was tested
    level: float = ALPHA  # at which the curve is tested

    @property
    def first(self) -> Claim:
        """Return its first point."""
        return self.rows[0].claim

    @property
    def is_testable(self) -> bool:
        """Return whether there are enough seeds, none of which failed."""
        return all(row.sample.n >= ENOUGH and not row.sample.missing_value for row in self.rows)


def curve_name(claim: Claim) -> str:
    """Return the curve that a claim is a point of; '' for a number that stands alone, or is of several runs."""
    if claim.stage == "final" or claim.spread is not None or is_exact(claim):
        return ""
    return "/".join([claim.source, claim.approach, claim.metric, claim.dataset, claim.split])


def curves(rows: Iterable[ClaimRow]) -> list[Curve]:
    """Return the curves with at least two measured points, in the order of the claims."""
    found: dict[str, list[ClaimRow]] = {}
    for row in rows:
        if row.sample.n and (name := curve_name(row.claim)):
            found.setdefault(name, []).append(row)
    return [_curve(name, members) for name, members in found.items() if len(members) > 1]


def _curve(name: str, rows: Sequence[ClaimRow]) -> Curve:
    points = [on_scale(row.claim, row.sample) for row in rows]
    known = [point for point in points if point is not None]
    smallest = min(1.0, len(rows) * min(point.estimate.p for point in known)) if known else None
    # Values have no seed numbers. The seeds count as the same if their number and their missing values are equal.
    are_same_seeds = len({(row.sample.n, row.sample.missing_value) for row in rows}) == 1 and len(known) == len(rows)
    return Curve(name, tuple(rows), curve_on_scale(known) if are_same_seeds else None, smallest)


def curve_on_scale(points: Sequence[OnScale]) -> OnScale:
    """Return a curve as one claim, from its points, which have the same seeds in the same order."""
    ours = np.array([point.ours.values for point in points])
    low, high = np.array([(point.reported.low, point.reported.high) for point in points]).T
    margins = np.array([point.margin for point in points])
    runs = np.column_stack([ours, (low + high) / 2])
    mean, sd = runs.mean(axis=1), runs.std(axis=1, ddof=1)
    moves = sd > 0  # an epoch in which all runs are equal tells nothing
    if not moves.any():
        return OnScale(Samples.of([0.0] * ours.shape[1]), Reported(0.0, 0.0), float(margins.mean()))
    mean, sd = mean[moves], sd[moves]
    values = ((ours[moves] - mean[:, None]) / sd[:, None]).mean(axis=0)
    first, last = (float(((end[moves] - mean) / sd).mean()) for end in (low, high))
    return OnScale(Samples.of(values.tolist()), Reported(first, last), float((margins[moves] / sd).mean()))
