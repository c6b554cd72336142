"""Scores of class probabilities against labels, and calibration.

Shapes: N rows, K classes. The largest probability of a row is its confidence. If two classes have it, the
lower class is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.core.metric_table import BRIER, FRACTION, GAP, NATS, SURE, metric
from bench.core.reasons import Reason
from bench.measure.metrics.arrays import BoolArray, FloatArray, IntArray, Labels, as_labels

_INFINITE = Reason("label-impossible")
CALIBRATION_BINS = 15  # Guo et al. 2017, "On Calibration of Modern Neural Networks", section 2


def row_hits(probs: FloatArray, labels: Labels) -> BoolArray:
    """Return whether the class with the largest value is right, bool [N]; `probs` [N, K] may be log-probabilities."""
    truth = as_labels(labels, *probs.shape)
    return np.asarray(probs.argmax(axis=1) == truth)


@metric(
    "mean_network/accuracy",
    FRACTION,
    "higher",
    "accuracy of the one network of posterior means",
    "rabanser2017 measured it",
    rows="mean network",
)
@metric(
    "accuracy",
    FRACTION,
    "higher",
    "share of rows whose largest mean probability is at the label",
    "argmax of the Monte Carlo predictive distribution",
)
def accuracy(probs: FloatArray, labels: Labels) -> float:
    """Share of rows whose largest probability is at the label."""
    return float(row_hits(probs, labels).mean())


@metric(
    "sure",
    FRACTION,
    "none",
    "sure@T: share of rows whose largest mean probability is at least T",
    "protocols common and shift, and the derived metrics of ablations",
    rows="every",
    at=SURE,
)
def share_sure(probs: FloatArray, threshold: float = SURE) -> float:
    """Share of rows whose largest probability is at least a threshold."""
    return float((probs.max(axis=1) >= threshold).mean())


def sure_answers(probs: FloatArray, labels: Labels, threshold: float) -> tuple[float, float]:
    """Return how many sure answers are right, and how many should be, as shares of all rows.

    Args:
        probs: mean probabilities [N, K].
        labels: [N].
        threshold: a row is sure if its largest probability is at least this.

    Returns:
        The share of rows that are sure and right; and the share to expect by the probabilities: the sum of the largest
        probabilities of the sure rows, divided by N.
    """
    largest = probs.max(axis=1)
    is_sure = largest >= threshold
    return float((is_sure & row_hits(probs, labels)).mean()), float(np.where(is_sure, largest, 0.0).mean())


@metric(
    "sure_right",
    FRACTION,
    "none",
    "sure_right@T: share of all rows that have a largest mean probability of at least T, at the label",
    "with sure@T, the accuracy of the answers of which a network is sure",
    at=SURE,
)
def sure_right(probs: FloatArray, labels: Labels) -> float:
    """Share of rows that are sure and right."""
    return sure_answers(probs, labels, SURE)[0]


@metric(
    "sure_expected",
    GAP,
    "none",
    "sure_expected@T: sum of the largest mean probabilities that are at least T, divided by the number of rows",
    "the sure_right@T to expect by the network's own probabilities",
    at=SURE,
)
def sure_expected(probs: FloatArray, labels: Labels) -> float:
    """Share of rows that should be sure and right by their probabilities."""
    return sure_answers(probs, labels, SURE)[1]


def row_nll(log_probs: FloatArray, labels: Labels) -> FloatArray:
    """Return minus the log-probability of the label of each row, nats [N], from log-probabilities [N, K]."""
    truth = as_labels(labels, *log_probs.shape)
    return np.asarray(-log_probs[np.arange(len(truth)), truth])


@metric(
    "mean_network/nll",
    NATS,
    "lower",
    "nll of the one network of posterior means",
    "logarithmic score, Good 1952",
    rows="mean network",
    undefined=_INFINITE,
)
@metric(
    "nll",
    NATS,
    "lower",
    "mean over rows of minus the log of the label's mean probability",
    "logarithmic score, Good 1952",
    undefined=_INFINITE,
)
def nll(log_probs: FloatArray, labels: Labels) -> float:
    """Mean of minus the log-probability of the label, nats per row."""
    return float(row_nll(log_probs, labels).mean())


def row_brier(probs: FloatArray, labels: Labels) -> FloatArray:
    """Return the squared distance of probabilities [N, K] from the one-hot label, summed over classes, [N]."""
    truth = as_labels(labels, *probs.shape)
    return np.asarray(((probs - np.eye(probs.shape[1])[truth]) ** 2).sum(axis=1))


@metric(
    "brier",
    BRIER,
    "lower",
    "mean over rows of the squared distance between mean probabilities and one-hot label, summed over classes",
    "Brier 1950",
)
def brier(probs: FloatArray, labels: Labels) -> float:
    """Mean Brier score per row, from 0 to 2 (Brier 1950: summed over the classes)."""
    return float(row_brier(probs, labels).mean())


@dataclass(frozen=True)
class Reliability:
    """Bins of rows with similar confidence; an empty bin has NaN."""

    lower: FloatArray  # [M], smallest confidence that belongs to the bin
    upper: FloatArray  # [M], largest
    count: IntArray  # [M], rows
    confidence: FloatArray  # [M], mean confidence
    accuracy: FloatArray  # [M], share of correct rows


def reliability(probs: FloatArray, labels: Labels, n_bins: int = CALIBRATION_BINS) -> Reliability:
    """Sort rows into equal-width bins of confidence, ((m-1)/M, m/M] for m = 1 .. M (Guo et al. 2017)."""
    edges = np.linspace(0, 1, n_bins + 1)
    count, confidence, share = _bin_means(probs, labels, equal_width_bins(probs, n_bins), n_bins)
    return Reliability(edges[:-1], edges[1:], count, confidence, share)


def equal_width_bins(probs: FloatArray, n_bins: int = CALIBRATION_BINS) -> IntArray:
    """Return the bin of each row, [N], for equal-width bins of confidence."""
    # A confidence above an edge by less than the rounding of single precision is on it, in the bin below.
    edges = np.linspace(0, 1, n_bins + 1)[1:-1] * (1 + np.finfo(np.float32).eps)
    return np.asarray(np.searchsorted(edges, probs.max(axis=1), side="left"))


def equal_mass_bins(probs: FloatArray, n_bins: int) -> IntArray:
    """Return the bin of each row, [N], for bins of equal numbers of rows (Nixon et al. 2019, adaptive binning).

    Rows of equal confidence share one bin, that of the first of them. So the order of rows does not matter. If many
    rows have the same confidence, some bins are empty.
    """
    top = probs.max(axis=1)
    n_smaller = np.searchsorted(np.sort(top), top, side="left")
    return np.asarray(n_smaller * n_bins // max(1, len(top)))


@metric(
    "ece",
    GAP,
    "lower",
    "mean over rows of |accuracy - confidence| of the row's bin; confidence is the largest mean probability, "
    "in 15 equal-width bins",
    "Guo et al. 2017, 'On Calibration of Modern Neural Networks'",
)
def ece(probs: FloatArray, labels: Labels, n_bins: int = CALIBRATION_BINS) -> float:
    """Return the expected calibration error over equal-width bins, from 0 to 1."""
    bins = reliability(probs, labels, n_bins)
    return _calibration_error(bins.count, bins.confidence, bins.accuracy)


@metric(
    "ece_equal_mass",
    GAP,
    "lower",
    "as ece, but each of the 15 bins has the same number of rows; rows of equal confidence are in one bin",
    "Nixon et al. 2019, 'Measuring Calibration in Deep Learning'",
)
def ece_equal_mass(probs: FloatArray, labels: Labels, n_bins: int = CALIBRATION_BINS) -> float:
    """Return the expected calibration error over bins of equal numbers of rows, from 0 to 1."""
    return _calibration_error(*_bin_means(probs, labels, equal_mass_bins(probs, n_bins), n_bins))


def _calibration_error(count: IntArray, confidence: FloatArray, share: FloatArray) -> float:
    """Return the mean over rows of |share of right answers - confidence| of the row's bin. The arguments are [M]."""
    filled = count > 0
    return float(np.average(np.abs(share[filled] - confidence[filled]), weights=count[filled]))


def _bin_means(
    probs: FloatArray, labels: Labels, index: IntArray, n_bins: int
) -> tuple[IntArray, FloatArray, FloatArray]:
    hits = row_hits(probs, labels)
    count = np.bincount(index, minlength=n_bins)
    with np.errstate(invalid="ignore"):  # an empty bin gets 0/0 = NaN
        confidence = np.bincount(index, probs.max(axis=1), n_bins) / count
        share = np.bincount(index, hits, n_bins) / count
    return count, confidence, share
