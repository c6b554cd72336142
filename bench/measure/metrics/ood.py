"""Separate out-of-distribution rows from in-distribution rows by a score.

A score is higher for rows that look less like the training data. Out-of-distribution rows are the positives. A row is
flagged if its score is at or above a threshold, so that rows with equal scores are flagged together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from bench.core.errors import ConfigError
from bench.core.metric_table import FRACTION, SCORES, MetricFunction, metric
from bench.measure.metrics.arrays import FloatArray, IntArray
from bench.measure.metrics.uncertainty import entropies

if TYPE_CHECKING:
    from bench.measure.metrics.draws import DrawSummary

_TITLES = dict(
    zip(SCORES, ("the predictive entropy", "the mutual information", "minus the largest mean probability"), strict=True)
)


def scores(summary: DrawSummary) -> dict[str, FloatArray]:
    """Return the value of every score in `bench.core.metric_table.SCORES` for each row, [N]."""
    spread = entropies(summary)
    return {
        "predictive_entropy": spread["predictive_entropy"],
        "mutual_information": spread["mutual_information"],
        "max_probability": -summary.mean_probs.max(axis=1),
    }


def auroc(in_scores: FloatArray, ood_scores: FloatArray) -> float:
    """Probability that an out-of-distribution row scores higher than an in-distribution one, ties counting 1/2.

    This is the area under the receiver operating characteristic (the Mann-Whitney statistic).
    """
    _check(in_scores, ood_scores)
    every = np.concatenate([ood_scores, in_scores])
    _, place, count = np.unique(every, return_inverse=True, return_counts=True)
    ranks = (count.cumsum() - (count - 1) / 2)[place.reshape(-1)][: len(ood_scores)]  # of equal scores, the mean rank
    n_ood, n_in = len(ood_scores), len(in_scores)
    return float((ranks.sum() - n_ood * (n_ood + 1) / 2) / (n_ood * n_in))


def aupr(in_scores: FloatArray, ood_scores: FloatArray) -> float:
    """Average precision: sum over thresholds of precision times the gain in recall, without interpolation.

    The value of a random score is the share of out-of-distribution rows. So do not compare data sets of unequal sizes.
    """
    true_positives, false_positives = _flagged(in_scores, ood_scores)
    precision = true_positives / (true_positives + false_positives)
    return float((np.diff(true_positives, prepend=0) * precision).sum() / len(ood_scores))


def fpr_at_tpr(in_scores: FloatArray, ood_scores: FloatArray, tpr: float = 0.95) -> float:
    """Share of in-distribution rows flagged by the highest threshold that flags `tpr` of the out-of-distribution rows.

    Out-of-distribution rows are the positives, as for AUPR. (In Hendrycks and Gimpel 2017 they are the negatives.)
    """
    true_positives, false_positives = _flagged(in_scores, ood_scores)
    enough = true_positives / len(ood_scores) >= tpr
    return float(false_positives[enough.argmax()] / len(in_scores))


Separation = Callable[[FloatArray, FloatArray], float]
"""(in-distribution scores [N], out-of-distribution scores [M]) -> how well they are apart."""


def _of_score(score: str, separation: Separation) -> MetricFunction:
    def separate(in_scores: Mapping[str, FloatArray], ood_scores: Mapping[str, FloatArray]) -> float:
        return separation(in_scores[score], ood_scores[score])

    return separate


for _score, _title in _TITLES.items():
    metric(
        f"auroc_{_score}",
        FRACTION,
        "higher",
        f"probability that {_title} of an out-of-distribution row is above that of an in-distribution row, ties 1/2",
        "Hendrycks and Gimpel 2017",
        rows="outside",
    )(_of_score(_score, auroc))
    metric(
        f"aupr_{_score}",
        FRACTION,
        "higher",
        f"average precision of finding out-of-distribution rows by {_title}; compare only on one pair of data sets",
        "Hendrycks and Gimpel 2017; average precision without interpolation",
        rows="outside",
    )(_of_score(_score, aupr))
    metric(
        f"fpr95_{_score}",
        FRACTION,
        "lower",
        f"share of in-distribution rows that are flagged by {_title} when 95 % of out-of-distribution rows are",
        "Liang, Li and Srikant 2018 (ODIN), with out-of-distribution as the positive class",
        rows="outside",
    )(_of_score(_score, fpr_at_tpr))


def _flagged(in_scores: FloatArray, ood_scores: FloatArray) -> tuple[IntArray, IntArray]:
    """Count the flagged positives and negatives at every distinct score, from the highest threshold down."""
    _check(in_scores, ood_scores)
    thresholds = np.unique(np.concatenate([in_scores, ood_scores]))[::-1]
    true_positives = len(ood_scores) - np.searchsorted(np.sort(ood_scores), thresholds, side="left")
    false_positives = len(in_scores) - np.searchsorted(np.sort(in_scores), thresholds, side="left")
    return true_positives, false_positives


def _check(in_scores: FloatArray, ood_scores: FloatArray) -> None:
    for name, values in (("in-distribution", in_scores), ("out-of-distribution", ood_scores)):
        if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
            raise ConfigError(
                f"{name} scores of shape {values.shape} were given; give at least one row, all of them finite numbers"
            )
