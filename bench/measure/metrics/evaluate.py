"""Compute every declared metric of a data set: the values, and reasons for the missing ones."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from bench.core.metric_table import Metric, MetricFunction, Rows, metrics
from bench.core.reasons import Reason
from bench.measure.metrics import classification, ood
from bench.measure.metrics.arrays import FloatArray, IntArray, Labels, as_labels
from bench.measure.metrics.refusal import RiskCoverage, risk_coverage
from bench.measure.metrics.shifts import MEASURED

if TYPE_CHECKING:
    from bench.interface import Noise
    from bench.measure.metrics.draws import DrawSummary

MetricValues = dict[str, float]
MissingMetrics = dict[str, Reason]  # by metric
MetricArrays = dict[str, dict[str, list[float | None]]]  # ready for JSON; None where a bin is empty


class Inputs(TypedDict, total=False):
    """What a metric's function may take, by the names of its parameters. N rows, K classes, S draws."""

    summary: DrawSummary
    probs: FloatArray  # [N, K], means over draws
    log_probs: FloatArray  # [N, K], their logarithms
    labels: Labels  # [N], of the test set
    hits: IntArray  # [S], how many rows of the test set each draw classifies correctly
    noise: Noise
    curve: RiskCoverage
    in_scores: dict[str, FloatArray]  # {score: [N]} of the test set, for a set out of distribution
    ood_scores: dict[str, FloatArray]  # of that set


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
    given = Inputs(summary=summary, log_probs=summary.log_mean_probs, probs=probs, labels=truth)
    values, missing = _evaluate(_of("test", "every"), {**given, "hits": hits, "noise": noise, "curve": curve})
    thin = curve.thinned()
    bins = classification.reliability(probs, truth)
    arrays: MetricArrays = {
        "risk_coverage": {"coverage": thin.coverage.tolist(), "risk": thin.risk.tolist()},
        "reliability": {name: _without_nan(values) for name, values in vars(bins).items()},
    }
    return values, missing, arrays


def evaluate_mean_network(summary: DrawSummary, labels: Labels) -> tuple[MetricValues, MissingMetrics]:
    """Return the metrics of the mean network's predictions (one draw)."""
    given = Inputs(log_probs=summary.log_mean_probs, probs=summary.log_mean_probs, labels=labels)
    return _evaluate(_of("mean network"), given)


def evaluate_shift(log_probs: FloatArray, labels: Labels) -> tuple[MetricValues, MissingMetrics]:
    """Return the metrics of moved images, from the logarithms of mean probabilities [N, K] and labels [N]."""
    chosen = [each for each in metrics().values() if each.key in MEASURED]
    return _evaluate(chosen, Inputs(log_probs=log_probs, probs=np.exp(log_probs), labels=labels))


def evaluate_ood(in_summary: DrawSummary, ood_summary: DrawSummary) -> tuple[MetricValues, MissingMetrics]:
    """Return the metrics of an out-of-distribution set, also of how well scores separate it from the test set.

    Both must be predicted with the same draws: scores can be compared only at equal numbers of draws.
    """
    given = Inputs(summary=ood_summary, log_probs=ood_summary.log_mean_probs, probs=ood_summary.mean_probs)
    scores = Inputs(in_scores=ood.scores(in_summary), ood_scores=ood.scores(ood_summary))
    return _evaluate(_of("every", "outside"), {**given, **scores})


def _of(*rows: Rows) -> list[Metric]:
    return [each for each in metrics().values() if each.rows in rows]


def _evaluate(chosen: Iterable[Metric], given: Inputs) -> tuple[MetricValues, MissingMetrics]:
    """Call each function with the inputs that its parameters name."""
    values: MetricValues = {}
    missing: MissingMetrics = {}
    inputs = dict(given)
    for each in chosen:
        found = each.function(**{name: inputs[name] for name in _taken(each.function) if name in inputs})
        if each.undefined and (found is None or found == math.inf):
            found = each.undefined
        if isinstance(found, Reason):
            missing[each.key] = found
        else:
            assert found is not None, f"{each.name} has no value, and its declaration does not say why"
            values[each.key] = found
    return values, missing


@cache
def _taken(function: MetricFunction) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def _without_nan(values: FloatArray) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]
