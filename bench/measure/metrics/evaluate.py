"""Compute every metric of a data set: the values, and reasons for the missing ones."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from bench.core.metric_table import PROMISED_OF_SURE, RIGHT_OF_SURE, SCORES, SHARE_SURE, SURE
from bench.core.reasons import Reason
from bench.interface import Noise
from bench.measure.metrics import classification, ood
from bench.measure.metrics.arrays import FloatArray, IntArray, Labels, as_labels
from bench.measure.metrics.draws import DrawSummary
from bench.measure.metrics.published import geometric_entropy
from bench.measure.metrics.refusal import MEDIAN_RULE, STRICT_RULE, risk_coverage

MetricValues = dict[str, float]
MissingMetrics = dict[str, Reason]  # by metric
MetricArrays = dict[str, dict[str, list[float | None]]]  # ready for JSON; None where a bin is empty

_ONE_DRAW = Reason("one-draw")
_ALL_REFUSED = Reason("rows-refused")
_NOISE_REASONS: dict[Noise, Reason] = {
    "none": _ONE_DRAW,
    "row": Reason("row-noise"),
    "shared": Reason("shared-noise"),
}


def evaluate_classification(
    summary: DrawSummary, labels: Labels, hits: IntArray, noise: Noise
) -> tuple[MetricValues, MissingMetrics, MetricArrays]:
    """Return the metrics of an in-distribution test set.

    Args:
        summary: all rows.
        labels: [N].
        hits: [S], number of correct rows of each draw (`draw_hits`, added up over blocks).
        noise: the posterior's kind of noise; the spread of accuracy over draws has a meaning only for "weights".

    Raises:
        ConfigError: labels do not fit the summary.
    """
    truth = as_labels(labels, *summary.log_mean_probs.shape)
    probs = summary.mean_probs
    curve = risk_coverage(probs, truth)
    right, promised = classification.sure_answers(probs, truth, SURE)
    found: dict[str, float | Reason] = {
        "accuracy": classification.accuracy(probs, truth),
        "nll": _finite_nll(summary.log_mean_probs, truth),
        "brier": classification.brier(probs, truth),
        "ece": classification.ece(probs, truth),
        "ece_equal_mass": classification.ece_equal_mass(probs, truth),
        **_label_free(summary),
        "selective_accuracy": _or(MEDIAN_RULE.selective_accuracy(summary, truth), _ALL_REFUSED),
        "selective_accuracy_strict": _or(STRICT_RULE.selective_accuracy(summary, truth), _ALL_REFUSED),
        "risk_coverage_area": curve.area,
        RIGHT_OF_SURE: right,
        PROMISED_OF_SURE: promised,
        **_draw_accuracy(summary, hits, noise),
    }
    values, missing = _split(found)
    thin = curve.thinned()
    bins = classification.reliability(probs, truth)
    arrays: MetricArrays = {
        "risk_coverage": {"coverage": thin.coverage.tolist(), "risk": thin.risk.tolist()},
        "reliability": {name: _without_nan(values) for name, values in vars(bins).items()},
    }
    return values, missing, arrays


def evaluate_mean_network(summary: DrawSummary, labels: Labels) -> tuple[MetricValues, MissingMetrics]:
    """Return the metrics of the mean network's predictions (one draw)."""
    return _split(
        {
            "mean_network/accuracy": classification.accuracy(summary.log_mean_probs, labels),
            "mean_network/nll": _finite_nll(summary.log_mean_probs, labels),
        }
    )


def evaluate_shift(log_probs: FloatArray, labels: Labels) -> tuple[MetricValues, MissingMetrics]:
    """Return the metrics of moved images, from the logarithms of mean probabilities [N, K] and labels [N]."""
    probs = np.exp(log_probs)
    return _split(
        {
            "accuracy": classification.accuracy(probs, labels),
            "nll": _finite_nll(log_probs, labels),
            "ece": classification.ece(probs, labels),
            SHARE_SURE: classification.share_sure(probs, SURE),
        }
    )


def evaluate_ood(in_summary: DrawSummary, ood_summary: DrawSummary) -> tuple[MetricValues, MissingMetrics]:
    """Return the metrics of an out-of-distribution set, also of how well scores separate it from the test set.

    Both must be predicted with the same draws: scores can be compared only at equal numbers of draws.
    """
    found = _label_free(ood_summary)
    found["geometric_entropy"] = float(geometric_entropy(ood_summary.mean_log_probs).mean())
    inside, outside = ood.scores(in_summary), ood.scores(ood_summary)
    for score in SCORES:
        found[f"auroc_{score}"] = ood.auroc(inside[score], outside[score])
        found[f"aupr_{score}"] = ood.aupr(inside[score], outside[score])
        found[f"fpr95_{score}"] = ood.fpr_at_tpr(inside[score], outside[score])
    return _split(found)


def _label_free(summary: DrawSummary) -> dict[str, float | Reason]:
    return {
        **{name: float(values.mean()) for name, values in classification.entropies(summary).items()},
        "refusal_rate": MEDIAN_RULE.refusal_rate(summary),
        "refusal_rate_strict": STRICT_RULE.refusal_rate(summary),
        SHARE_SURE: classification.share_sure(summary.mean_probs, SURE),
        "disagreement_rate": _ONE_DRAW if summary.n_draws == 1 else classification.disagreement_rate(summary.votes),
    }


def _draw_accuracy(summary: DrawSummary, hits: IntArray, noise: Noise) -> dict[str, float | Reason]:
    accuracies = hits / len(summary)
    spread: float | Reason
    if summary.n_draws == 1:
        spread = _ONE_DRAW
    elif noise != "weights":
        spread = _NOISE_REASONS[noise]
    else:
        spread = float(accuracies.std(ddof=1))
    return {"draw_accuracy_mean": float(accuracies.mean()), "draw_accuracy_std": spread}


def _finite_nll(log_probs: FloatArray, labels: Labels) -> float | Reason:
    value = classification.nll(log_probs, labels)
    return value if math.isfinite(value) else Reason("label-impossible")


def _or(value: float | None, reason: Reason) -> float | Reason:
    return reason if value is None else value


def _split(found: Mapping[str, float | Reason]) -> tuple[MetricValues, MissingMetrics]:
    values = {name: value for name, value in found.items() if not isinstance(value, Reason)}
    return values, {name: value for name, value in found.items() if isinstance(value, Reason)}


def _without_nan(values: FloatArray) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]
