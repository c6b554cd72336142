"""Compare networks at equal coverage: each answers the same share of the digits, those of which it is surest.

A fixed threshold, such as 99 % sure, asks a cautious network for fewer answers than a bold one. Rows of equal
confidence have no order: each quantity is the mean over all orders of such rows.
"""

from __future__ import annotations

import numpy as np

from bench.core.errors import ConfigError
from bench.measure.metrics.arrays import BoolArray, FloatArray


def wrong_among(confidence: FloatArray, hits: BoolArray, coverage: float) -> float:
    """Return the share of wrong answers among the surest rows.

    Args:
        confidence: [N], larger for surer answers, on any scale.
        hits: [N], whether the answer is right.
        coverage: the share of rows that are answered, above 0 and at most 1.
    """
    answered = _answered(confidence, coverage)
    return float((answered * ~hits).sum() / answered.sum())


def accepted(inside: FloatArray, outside: FloatArray, coverage: float) -> float:
    """Return the share of out-of-distribution rows that are answered if `coverage` of the in-distribution rows are.

    The threshold is the confidence of the last in-distribution row that is answered.

    Args:
        inside: [N], confidence of in-distribution rows.
        outside: [M], of out-of-distribution rows, on the same scale.
        coverage: the share of in-distribution rows that are answered, above 0 and at most 1.
    """
    weights = _answered(inside, coverage)
    threshold = inside[weights > 0].min()
    at_threshold = weights[inside == threshold].mean()  # the share of rows at the threshold that are answered
    return float((outside > threshold).mean() + at_threshold * (outside == threshold).mean())


def refused_for(confidence: FloatArray, hits: BoolArray, risk: float) -> float | None:
    """Return the least share of rows to refuse, least sure first, so that at most `risk` of the answers are wrong.

    The threshold is chosen on the rows themselves, with their labels. None: even the surest rows are wrong too often.
    """
    order = np.argsort(-confidence, kind="stable")
    _, group, size = np.unique(-confidence[order], return_inverse=True, return_counts=True)
    mean_error = np.bincount(group.reshape(-1), ~hits[order]) / size
    wrong = np.repeat(mean_error, size).cumsum() / np.arange(1, len(hits) + 1)
    enough = np.flatnonzero(wrong <= risk)
    return None if not len(enough) else float(1 - (enough[-1] + 1) / len(hits))


def _answered(confidence: FloatArray, coverage: float) -> FloatArray:
    """Return how much each row counts, [N]: 1 or 0, or a share if rows at the threshold are tied."""
    if not len(confidence) or not 0 < coverage <= 1:
        raise ConfigError(
            f"coverage {coverage} of {len(confidence)} rows was asked for; give rows, and a share above 0 and at most 1"
        )
    wanted = max(1, round(coverage * len(confidence)))
    threshold = np.sort(confidence)[len(confidence) - wanted]
    above, tied = confidence > threshold, confidence == threshold
    return np.asarray(above + tied * ((wanted - above.sum()) / tied.sum()))
