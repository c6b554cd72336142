"""The curves of a record as single numbers, so that they can be compared with its metrics and with its scores.

A record has two curves of the test set: the risk (share of wrong answers) of the surest rows, and reliability
(confidence and accuracy of the rows in bins of confidence).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.core.records import Arrays, ReliabilityBins, RiskCurve
from bench.measure.bounds import Bounds, Within
from bench.measure.metrics.refusal import RiskCoverage

NO_ARRAYS = Arrays()


def points(arrays: Arrays) -> dict[str, float]:
    """Return the risk at each coverage, named like a metric."""
    return {
        f"{name}/{_point(coverage)}": risk
        for name, curve, _ in _curves(arrays)
        if curve is not None
        for coverage, risk in zip(curve.coverage, curve.risk, strict=True)
    }


def points_between(risk: Within) -> Iterator[tuple[str, Bounds]]:
    """Yield the points of a curve that a record keeps, with the bounds of the risk at each."""
    coverage = np.arange(1, len(risk.low) + 1) / len(risk.low)
    low, high = (RiskCoverage(coverage, side).thinned() for side in risk)
    for at, *both in zip(low.coverage, low.risk, high.risk, strict=True):
        yield _point(at), (float(both[0]), float(both[1]))


def made_by_curves(arrays: Arrays) -> Iterator[tuple[str, float]]:
    """Yield metrics that a record's curves determine, with the value that they make."""
    for name, curve, bins in _curves(arrays):
        if curve is not None and curve.coverage[-1] == 1:
            yield f"{name}/accuracy", 1 - curve.risk[-1]
        if bins is not None:
            yield from ((f"{name}/{metric}", value) for metric, value in _of_bins(bins))


def _of_bins(bins: ReliabilityBins) -> Iterator[tuple[str, float]]:
    full = [place for place, count in enumerate(bins.count) if count]
    count, confidence, accuracy = (
        np.array([numbers[place] for place in full], dtype=np.float64)
        for numbers in (bins.count, bins.confidence, bins.accuracy)
    )
    if len(full):
        yield "accuracy", float(count @ accuracy / count.sum())
        yield "ece", float(count @ np.abs(accuracy - confidence) / count.sum())


def _curves(arrays: Arrays) -> Iterator[tuple[str, RiskCurve | None, ReliabilityBins | None]]:
    yield "mnist", arrays.risk_coverage, arrays.reliability
    yield "fashion_mnist", arrays.clothes_risk_coverage, arrays.clothes_reliability


def _point(coverage: float) -> str:
    return f"risk at coverage {coverage:.6g}"
