"""The documents' own estimators, with their mistakes, for the protocol `published`.

A function has the name of its document; its docstring says what is unusual. Rows are in the order in which the document
saw them. A protocol that draws new networks for each batch concatenates the summaries of the batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench.core.metric_table import ENTROPY, metric
from bench.measure.metrics.arrays import FloatArray, Labels, as_labels
from bench.measure.metrics.classification import row_hits, row_nll
from bench.measure.metrics.refusal import MEDIAN_RULE

if TYPE_CHECKING:
    from bench.measure.metrics.draws import DrawSummary

BATCH_SIZE = 128  # of every test loader of feldman2018 and chopra2018
FELDMAN2018_INSIDE_LOG = 1e-10  # added to a probability inside the logarithm


def geometric_entropy(mean_log_probs: FloatArray) -> FloatArray:
    """Return feldman2018's entropy of each row of mean log-probabilities [N, K], in nats [N].

    It is -sum p log(p + 1e-10), where p is the geometric mean over draws: p = exp(mean of log-probabilities). These p
    sum to less than 1 and are not renormalised, so the result can be smaller than the entropy of every draw. For one
    draw it is the usual entropy, up to the 1e-10.
    """
    p = np.exp(mean_log_probs)
    return np.asarray(-(p * np.log(p + FELDMAN2018_INSIDE_LOG)).sum(axis=1))


@metric(
    "geometric_entropy",
    ENTROPY,
    "none",
    "mean over rows of -sum p log(p + 1e-10) with p = exp(mean over draws of log p), not renormalised",
    "feldman2018, compute_entropy (there in bits)",
    rows="outside",
)
def mean_geometric_entropy(summary: DrawSummary) -> float:
    """Mean of feldman2018's entropy, nats per row."""
    return float(geometric_entropy(summary.mean_log_probs).mean())


def feldman2018_accuracy(mean_log_probs: FloatArray, labels: Labels, batch_size: int = BATCH_SIZE) -> float:
    """Mean over batches of the batch's accuracy, by the argmax of mean log-probabilities [N, K].

    The last batch has only 16 of the 10,000 test images, but weighs as much as a batch of 128. So the result is not
    exactly the share of correct images.
    """
    hits = row_hits(mean_log_probs, labels).astype(np.float64)
    return float(np.mean([batch.mean() for batch in _batches(hits, batch_size)]))


def feldman2018_mlp_test_loss(mean_log_probs: FloatArray, labels: Labels, batch_size: int = BATCH_SIZE) -> float:
    """Mean over batches of the batch's mean cross-entropy, nats, for the deterministic network."""
    losses = row_nll(mean_log_probs, labels)
    return float(np.mean([batch.mean() for batch in _batches(losses, batch_size)]))


def feldman2018_test_loss(
    mean_log_probs: FloatArray,
    labels: Labels,
    log_density_ratio: FloatArray,
    n_train: int,
    batch_size: int = BATCH_SIZE,
) -> float:
    """Mean over batches of the summed cross-entropy of mean log-probabilities [N, K] + KL / (n_train / batch_size).

    The KL of a batch is the mean of log q(w) - log p(w) over the networks drawn for it, in nats; `log_density_ratio`
    has this number for each batch. With 60,000 training images it is divided by 468.75, although an epoch has 469
    batches. The short last batch gets the same KL term as the others.
    """
    sums = np.array([batch.sum() for batch in _batches(row_nll(mean_log_probs, labels), batch_size)])
    return float(np.mean(log_density_ratio / (n_train / batch_size) + sums))


@dataclass(frozen=True)
class PrintedShare:
    """A share of images, and how chopra2018 printed it."""

    correct: int
    total: int

    @property
    def fraction(self) -> float | None:
        """The share; None if there are no images."""
        return self.correct / self.total if self.total else None

    @property
    def printed_percent(self) -> int | None:
        """The percentage as "%d" prints it: truncated, not rounded."""
        return int(100 * self.correct / self.total) if self.total else None


def chopra2018_forced_accuracy(mean_log_probs: FloatArray, labels: Labels) -> PrintedShare:
    """Accuracy by the argmax of the mean of raw logits over 10 networks.

    In a draw, all logits of a row differ from the log-probabilities by the same number. So the argmax of the mean
    log-probabilities [N, K] is the same. Networks with large logits have more influence than the others.
    """
    hits = row_hits(mean_log_probs, labels)
    return PrintedShare(int(hits.sum()), len(hits))


@dataclass(frozen=True)
class Chopra2018Outcomes:
    """How many images the median rule answered correctly, answered wrongly and refused."""

    correct: int
    incorrect: int
    undecided: int

    @property
    def total(self) -> int:
        """Number of images."""
        return self.correct + self.incorrect + self.undecided

    @property
    def refusal_rate(self) -> float:
        """Share of refused images."""
        return self.undecided / self.total

    @property
    def accepted(self) -> PrintedShare:
        """Accuracy "when made predictions"."""
        return PrintedShare(self.correct, self.correct + self.incorrect)


def chopra2018_outcomes(summary: DrawSummary, labels: Labels) -> Chopra2018Outcomes:
    """Apply the median rule: answer the class with the largest median if that median is above 0.2.

    The rule never answers with two digits, contrary to the article's text.
    """
    truth = as_labels(labels, *summary.log_mean_probs.shape)
    accepted = MEDIAN_RULE.accepted(summary)
    right = summary.quantile_probs[MEDIAN_RULE.quantile].argmax(axis=1) == truth
    return Chopra2018Outcomes(int((accepted & right).sum()), int((accepted & ~right).sum()), int((~accepted).sum()))


def _batches(values: FloatArray, batch_size: int) -> list[FloatArray]:
    return [values[start : start + batch_size] for start in range(0, len(values), batch_size)]
