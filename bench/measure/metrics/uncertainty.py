"""Uncertainty of answers: the predictive entropy and its parts, disagreement of draws, spread of their accuracies.

Shapes: N rows, K classes, S draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench.core.errors import ContractViolation
from bench.core.metric_table import ENTROPY, FRACTION, Found, metric
from bench.core.reasons import Reason
from bench.measure.metrics.arrays import SMALLEST_LOG, BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from bench.interface import Noise
    from bench.measure.metrics.draws import DrawSummary

ONE_DRAW = Reason("one-draw")
_NOT_ONE_NETWORK = {"none": ONE_DRAW, "row": Reason("row-noise"), "shared": Reason("shared-noise")}  # by noise
_ENTROPIES = "Depeweg et al. 2018, 'Decomposition of Uncertainty in Bayesian Deep Learning'"
_ROUNDING = 1e-9  # nats; the rounding error of float64 sums of K terms is about 1e-14


def entropy(log_probs: FloatArray) -> FloatArray:
    """Return the entropy of each row of log-probabilities [N, K], nats [N]."""
    return np.asarray(-(np.exp(log_probs) * np.maximum(log_probs, SMALLEST_LOG)).sum(axis=1))


def log_others(log_probs: FloatArray) -> FloatArray:
    """Return log(1 - largest probability) of each row of log-probabilities [N, K], nats [N].

    It is the logarithm of the sum of the other K - 1 probabilities: 1 - probability would be 0 for every row that is
    surer than 1 - 1e-16. It is -inf where all others are 0.
    """
    return np.asarray(np.logaddexp.reduce(np.sort(log_probs, axis=1)[:, :-1], axis=1))


def mutual_information(predictive_entropy: FloatArray, expected_entropy: FloatArray) -> FloatArray:
    """Return the mutual information of label and network, nats [N]: predictive minus expected entropy.

    Both are [N], of the same draws. The difference cannot be negative, because entropy is concave. Rounding can make
    it -1e-15; then it is set to zero.

    Raises:
        ContractViolation: the difference is more negative than rounding explains.
    """
    difference = predictive_entropy - expected_entropy
    if difference.min(initial=0.0) < -_ROUNDING:
        raise ContractViolation(
            f"a mutual information of {difference.min():.3g} nats was computed; it cannot be negative: "
            "give the predictive and the expected entropy of the same draws"
        )
    return np.maximum(difference, 0.0)


def entropies(summary: DrawSummary) -> dict[str, FloatArray]:
    """Return predictive entropy, expected entropy and mutual information of each row, nats [N].

    One draw has no spread: its mutual information is exactly zero.
    """
    predictive = entropy(summary.log_mean_probs)
    expected = predictive if summary.n_draws == 1 else summary.expected_entropy
    return {
        "predictive_entropy": predictive,
        "expected_entropy": expected,
        "mutual_information": mutual_information(predictive, expected),
    }


@metric(
    "predictive_entropy",
    ENTROPY,
    "none",
    "mean over rows of the entropy of the mean probabilities",
    _ENTROPIES,
    rows="every",
)
def mean_predictive_entropy(summary: DrawSummary) -> float:
    """Mean predictive entropy, nats per row."""
    return float(entropies(summary)["predictive_entropy"].mean())


@metric(
    "expected_entropy",
    ENTROPY,
    "none",
    "mean over rows of the mean over draws of the entropy of a draw's probabilities",
    _ENTROPIES,
    rows="every",
)
def mean_expected_entropy(summary: DrawSummary) -> float:
    """Mean expected entropy, nats per row."""
    return float(entropies(summary)["expected_entropy"].mean())


@metric(
    "mutual_information",
    ENTROPY,
    "none",
    "predictive entropy minus expected entropy; exactly 0 for one draw",
    _ENTROPIES,
    rows="every",
)
def mean_mutual_information(summary: DrawSummary) -> float:
    """Mean mutual information of label and network, nats per row."""
    return float(entropies(summary)["mutual_information"].mean())


def row_disagrees(votes: IntArray) -> BoolArray:
    """Return for each row of votes [N, K] whether the draws disagree, bool [N] (alsibahi2019's "uncertain images")."""
    return np.asarray((votes > 0).sum(axis=1) > 1)


def disagreement_rate(votes: IntArray) -> float:
    """Share of rows whose votes [N, K] are not unanimous."""
    return float(row_disagrees(votes).mean())


@metric(
    "disagreement_rate",
    FRACTION,
    "none",
    "share of rows for which the classes of the first 30 draws (all, if there are fewer) are not unanimous",
    "alsibahi2019, 'uncertain images'",
    rows="every",
)
def disagreement(summary: DrawSummary) -> Found:
    """Share of rows whose votes are not unanimous; one draw has no votes to compare."""
    return ONE_DRAW if summary.n_draws == 1 else disagreement_rate(summary.votes)


@metric(
    "draw_accuracy_mean",
    FRACTION,
    "higher",
    "mean over draws of the accuracy of one draw alone",
    "alsibahi2019 reports the accuracy of one draw",
)
def draw_accuracy_mean(summary: DrawSummary, hits: IntArray) -> float:
    """Mean accuracy of a draw; hits [S] are its correct rows."""
    return float((hits / len(summary)).mean())


@metric(
    "draw_accuracy_std",
    FRACTION,
    "none",
    "standard deviation over draws (S - 1 in the denominator) of the accuracy of one network alone",
    "sample standard deviation",
)
def draw_accuracy_std(summary: DrawSummary, hits: IntArray, noise: Noise) -> Found:
    """Spread of the accuracies of draws; it has a meaning only if a draw is one network, noise "weights"."""
    if summary.n_draws == 1:
        return ONE_DRAW
    return _NOT_ONE_NETWORK.get(noise) or float((hits / len(summary)).std(ddof=1))
