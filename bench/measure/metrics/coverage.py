"""Compare networks at equal coverage: each answers the same share of the digits, those of which it is surest.

A fixed threshold, such as 99 % sure, asks a cautious network for fewer answers than a bold one. Rows of equal
confidence have no order: each quantity is the mean over all orders of such rows.
"""

from __future__ import annotations

import numpy as np

from bench.core.errors import ConfigError
from bench.measure.metrics.arrays import BoolArray, FloatArray
from bench.measure.metrics.refusal import risk_by


def wrong_among(confidence: FloatArray, hits: BoolArray, coverage: float) -> float:
    """Return the share of wrong answers among the surest rows.

    Args:
        confidence: [N], larger for surer answers, on any scale.
        hits: [N], whether the answer is right.
        coverage: the share of rows that are answered, above 0 and at most 1.
    """
    return float(risk_by(confidence, hits).risk[_n_answers(len(confidence), coverage) - 1])


def accepted(inside: FloatArray, outside: FloatArray, coverage: float) -> float:
    """Return the share of out-of-distribution rows that are answered if `coverage` of the in-distribution rows are.

    The threshold is the confidence of the last in-distribution row that is answered.

    Args:
        inside: [N], confidence of in-distribution rows.
        outside: [M], of out-of-distribution rows, on the same scale.
        coverage: the share of in-distribution rows that are answered, above 0 and at most 1.
    """
    wanted = _n_answers(len(inside), coverage)
    threshold = np.sort(inside)[len(inside) - wanted]
    above, tied = (inside > threshold).sum(), (inside == threshold).sum()
    of_tied = (wanted - above) / tied  # the share of rows at the threshold that are answered
    return float((outside > threshold).mean() + of_tied * (outside == threshold).mean())


def refused_for(confidence: FloatArray, hits: BoolArray, risk: float) -> float | None:
    """Return the least share of rows to refuse, least sure first, so that at most `risk` of the answers are wrong.

    The threshold is chosen on the rows themselves, with their labels. None: even the surest rows are wrong too often.
    """
    curve = risk_by(confidence, hits)
    enough = curve.coverage[curve.risk <= risk]
    return float(1 - enough[-1]) if len(enough) else None


def _n_answers(n_rows: int, coverage: float) -> int:
    if not n_rows or not 0 < coverage <= 1:
        raise ConfigError(
            f"coverage {coverage} of {n_rows} rows was asked for; give rows, and a share above 0 and at most 1"
        )
    return max(1, round(coverage * n_rows))
