"""Metrics: pure functions of predictions, each with its unit, definition and source.

`draws.reduce_draws` turns blocks of draws into a summary of each row, `evaluate` turns summaries into named
numbers, and `METRICS` says what the names mean. Estimators of the documents are in `published`.
"""

from bench.metrics.draws import DrawSummary, concatenate, draw_hits, reduce_draws
from bench.metrics.evaluate import (
    evaluate_classification,
    evaluate_mean_network,
    evaluate_ood,
)
from bench.metrics.table import METRICS, METRICS_VERSION, MetricSpec

__all__ = [
    "METRICS",
    "METRICS_VERSION",
    "DrawSummary",
    "MetricSpec",
    "concatenate",
    "draw_hits",
    "evaluate_classification",
    "evaluate_mean_network",
    "evaluate_ood",
    "reduce_draws",
]
