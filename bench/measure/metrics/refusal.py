"""Rules that refuse to answer: the quantile rules of chopra2018, and the curve of risk against coverage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench.core.metric_table import FRACTION, metric
from bench.core.reasons import Reason
from bench.measure.metrics.arrays import BoolArray, FloatArray, Labels
from bench.measure.metrics.classification import row_hits

if TYPE_CHECKING:
    from bench.measure.metrics.draws import DrawSummary


@dataclass(frozen=True)
class RefusalRule:
    """Take a quantile over draws of each class's probability. Answer if one is above `threshold`, else refuse.

    The answer is the class with the largest quantile. If every draw is one-hot, the median rule with a threshold below
    1/2 answers with a class that has at least half of the votes.
    """

    quantile: float  # of the probabilities of S draws, one of `draws.QUANTILES`
    threshold: float  # probability, compared with a strict ">"

    def accepted(self, summary: DrawSummary) -> BoolArray:
        """Return for each row whether the rule answers, bool [N]."""
        return np.asarray((summary.quantile_probs[self.quantile] > self.threshold).any(axis=1))

    def refusal_rate(self, summary: DrawSummary) -> float:
        """Share of rows that are refused."""
        return float((~self.accepted(summary)).mean())

    def selective_accuracy(self, summary: DrawSummary, labels: Labels) -> float | None:
        """Share of correct answers among the accepted rows; None if every row is refused."""
        accepted = self.accepted(summary)
        hits = row_hits(summary.quantile_probs[self.quantile], labels)
        return float(hits[accepted].mean()) if accepted.any() else None


MEDIAN_RULE = RefusalRule(0.5, 0.2)  # chopra2018, cells 15-16 of its notebook, which made its numbers
STRICT_RULE = RefusalRule(0.1, 0.5)  # chopra2018's proposal for fewer mistakes: 10th percentile above 0.5

_CHOPRA = "chopra2018, cells 15-16 of bnn.ipynb"
_ARTICLE = "chopra2018, the article's proposal of a stricter rule"
_ALL_REFUSED = Reason("rows-refused")


@metric(
    "refusal_rate",
    FRACTION,
    "none",
    "share of rows for which no class has a median probability over draws above 0.2",
    _CHOPRA,
    rows="every",
)
def refusal_rate(summary: DrawSummary) -> float:
    """Share of rows that the median rule refuses."""
    return MEDIAN_RULE.refusal_rate(summary)


@metric(
    "selective_accuracy",
    FRACTION,
    "higher",
    "share of rows whose largest median probability is at the label, among those that refusal_rate accepts",
    _CHOPRA,
    undefined=_ALL_REFUSED,
)
def selective_accuracy(summary: DrawSummary, labels: Labels) -> float | None:
    """Share of correct answers among the rows that the median rule accepts."""
    return MEDIAN_RULE.selective_accuracy(summary, labels)


@metric(
    "refusal_rate_strict",
    FRACTION,
    "none",
    "share of rows for which no class has a 10th percentile of probability over draws above 0.5",
    _ARTICLE,
    rows="every",
)
def refusal_rate_strict(summary: DrawSummary) -> float:
    """Share of rows that the strict rule refuses."""
    return STRICT_RULE.refusal_rate(summary)


@metric(
    "selective_accuracy_strict",
    FRACTION,
    "higher",
    "share of rows whose largest 10th percentile is at the label, among those that refusal_rate_strict accepts",
    _ARTICLE,
    undefined=_ALL_REFUSED,
)
def selective_accuracy_strict(summary: DrawSummary, labels: Labels) -> float | None:
    """Share of correct answers among the rows that the strict rule accepts."""
    return STRICT_RULE.selective_accuracy(summary, labels)


@dataclass(frozen=True)
class RiskCoverage:
    """The risk if only the most confident rows are answered."""

    coverage: FloatArray  # [N], share of answered rows: 1/N, 2/N, ..., 1
    risk: FloatArray  # [N], share of wrong answers among them

    @property
    def area(self) -> float:
        """Mean of the risk over all coverages: AURC of Geifman, Uziel and El-Yaniv 2019."""
        return float(self.risk.mean())

    def thinned(self, n_points: int = 101) -> RiskCoverage:
        """Return at most `n_points` points, equally spaced in coverage, both ends included."""
        keep = np.unique(np.linspace(0, len(self.risk) - 1, n_points).round().astype(np.int64))
        return RiskCoverage(self.coverage[keep], self.risk[keep])


def risk_coverage(probs: FloatArray, labels: Labels) -> RiskCoverage:
    """Answer rows of probabilities [N, K] in the order of falling confidence (the largest probability)."""
    return risk_by(probs.max(axis=1), row_hits(probs, labels))


def risk_by(confidence: FloatArray, hits: BoolArray) -> RiskCoverage:
    """Answer rows in the order of falling confidence [N]; `hits` [N] says which answers are right.

    Rows of equal confidence have no order, so each gets the mean error of these rows. Because the curve is linear in
    the errors, this is the mean of the curves over all orders of these rows.
    """
    _, group, size = np.unique(-confidence, return_inverse=True, return_counts=True)
    mean_error = np.bincount(group.reshape(-1), ~hits) / size
    answered = np.arange(1, len(hits) + 1)
    return RiskCoverage(answered / len(hits), np.repeat(mean_error, size).cumsum() / answered)


@metric(
    "risk_coverage_area",
    FRACTION,
    "lower",
    "mean over coverages 1/N to 1 of the share of errors among the rows with the largest mean probability; "
    "rows of equal confidence count with their mean error",
    "AURC: Geifman, Uziel and El-Yaniv 2019, 'Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers'",
)
def risk_coverage_area(curve: RiskCoverage) -> float:
    """Mean of the risk over all coverages."""
    return curve.area
