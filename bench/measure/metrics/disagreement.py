"""Disagreement among draws (alsibahi2019's "uncertain images")."""

from __future__ import annotations

import numpy as np

from bench.measure.metrics.arrays import BoolArray, IntArray


def row_disagrees(votes: IntArray) -> BoolArray:
    """Return for each row of votes [N, K] whether they are not unanimous, bool [N]."""
    return np.asarray((votes > 0).sum(axis=1) > 1)


def disagreement_rate(votes: IntArray) -> float:
    """Share of rows whose votes [N, K] are not unanimous."""
    return float(row_disagrees(votes).mean())
