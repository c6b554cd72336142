"""Bounds of metrics: the least and the largest value, if the numbers of the rows are known only up to rounding.

Nothing here imports PyTorch or SciPy, so that commands that only read a folder stay fast.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from bench.core.metric_table import SLACK
from bench.measure.metrics.arrays import BoolArray, FloatArray, IntArray
from bench.measure.metrics.classification import CALIBRATION_BINS
from bench.measure.metrics.refusal import RefusalRule

Bounds = tuple[float, float]
FOUND = 0.95  # the share of out-of-distribution rows that fpr95 finds


class Within(NamedTuple):
    """Lower and upper bounds of numbers."""

    low: FloatArray
    high: FloatArray

    def mean(self) -> Bounds:
        """Return the bounds of the mean."""
        return float(self.low.mean()), float(self.high.mean())

    def ordered(self) -> Within:
        """Return the bounds of the smallest number, of the second smallest, and so on."""
        return Within(np.sort(self.low), np.sort(self.high))


class Draws(NamedTuple):
    """What is known of the draws of each row."""

    number: int
    own_entropy: Within  # mean over draws of the entropy of a draw
    votes: IntArray  # [N, K], of the first draws


def told_apart(inside: Within, outside: Within) -> Iterator[tuple[str, Bounds]]:
    """Yield the names and bounds of AUROC, AUPR and FPR95 from ordered scores (`Within.ordered`).

    AUROC is the share of pairs in which the out-of-distribution row has the higher score; a tie counts 1/2.
    `metrics.ood.auroc` computes it from ranks. Here it comes from counts, which are faster and need no SciPy.
    """
    n_inside, n_outside = len(inside.low), len(outside.low)
    wrongly = Within(_reaching(inside.low, outside.high), _reaching(inside.high, outside.low))
    higher = Within(_reaching(inside.low, outside.high, "right"), _reaching(inside.high, outside.low, "right"))
    pairs = 2 * n_inside * n_outside
    most, least = ((pairs - (reach.sum() + more.sum())) / pairs for reach, more in zip(wrongly, higher, strict=True))
    yield "auroc", (float(least), float(most))
    rank = np.arange(n_outside, 0, -1)  # for each out-of-distribution row, how many score as high or higher
    found = Within(np.maximum(rank, _reaching(outside.low, outside.high)), _reaching(outside.high, outside.low))
    precision = Within(found.low / (found.low + wrongly.high), found.high / (found.high + wrongly.low))
    yield "aupr", precision.mean()
    last = -1 - int((np.arange(1, n_outside + 1) / n_outside >= FOUND).argmax())
    yield "fpr95", (wrongly.low[last] / n_inside, wrongly.high[last] / n_inside)


def _reaching(ordered: FloatArray, thresholds: FloatArray, side: Literal["left", "right"] = "left") -> FloatArray:
    """Return for each threshold how many numbers are at or above it; if `side` is "right", how many are above it."""
    return np.asarray(len(ordered) - np.searchsorted(ordered, thresholds, side), dtype=np.float64)


def ece(confidence: Within, hits: BoolArray) -> Bounds:
    """Return the bounds of the expected calibration error over bins of equal width."""
    edges = np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1]
    return _calibration(confidence, hits, *(np.searchsorted(edges, side, "left") for side in confidence))


def ece_equal_mass(confidence: Within, hits: BoolArray) -> Bounds:
    """Return the bounds of the expected calibration error over bins of equal numbers of rows."""
    low, high = confidence.ordered()
    itself = confidence.low < confidence.high
    first, last = np.searchsorted(high, confidence.low, "left"), np.searchsorted(low, confidence.high, "left") - itself
    return _calibration(confidence, hits, *(smaller * CALIBRATION_BINS // len(hits) for smaller in (first, last)))


def _calibration(confidence: Within, hits: BoolArray, first: IntArray, last: IntArray) -> Bounds:
    """Return the bounds of a calibration error. `first` and `last`: the bins between which the bin of each row lies.

    If the bin of a row is not known, the row changes the sum by at most its own gap.
    """
    gap = Within(hits - confidence.high, hits - confidence.low)
    known = first == last
    low, high = (np.bincount(first[known], side[known], CALIBRATION_BINS) for side in gap)
    open_rows = np.maximum(-gap.low, gap.high)[~known].sum()
    together = max(gap.low.sum(), -gap.high.sum())  # the error is least if all rows share one bin
    least = max(np.maximum(np.maximum(low, -high), 0).sum() - open_rows, together, 0)
    return least / len(hits), (np.maximum(-low, high).sum() + open_rows) / len(hits)


def risks(confidence: Within, hits: BoolArray) -> Within:
    """Return the bounds of the risk if the 1, 2, ... N surest rows are answered.

    It is largest if the wrong rows are as sure as they may be, the right ones as unsure, and if at equal confidence
    wrong rows come first.
    """
    best = _risks(np.where(hits, confidence.high, confidence.low), hits, first=hits)
    return Within(best, _risks(np.where(hits, confidence.low, confidence.high), hits, first=~hits))


def _risks(confidence: FloatArray, hits: BoolArray, first: BoolArray) -> FloatArray:
    errors = ~hits[np.lexsort((~first, -confidence))]
    risk: FloatArray = errors.cumsum() / np.arange(1, len(errors) + 1)
    return risk


def refusals(rule: RefusalRule, confidence: Within, draws: Draws) -> tuple[BoolArray, BoolArray]:
    """Return which rows a rule surely answers, and which rows it surely refuses.

    Let t be the threshold. If the rule answers a row, a share `above` of its draws gives one class a probability of t
    or more. If it refuses, a share `below` of its draws gives the likeliest class t or less.

    If a class has probability p in a draw, the entropy of the draw is at least that of two classes with p and 1 - p.
    This is concave in p, so it lies above the straight line from its value at t to 0, its value at a certain answer.
    The confidence of the row says how far the share's draws are from certain, and so gives their least mean entropy. If
    the row has less entropy, there is no such share of draws.
    """
    t, last = rule.threshold, draws.number - 1
    above = (draws.number - math.ceil(rule.quantile * last)) / draws.number
    below = (math.floor(rule.quantile * last) + 1) / draws.number
    entropy = -t * math.log(t) - (1 - t) * math.log(1 - t)
    slack = SLACK if last else 0
    own, high, rest = draws.own_entropy.high, confidence.high / above, (1 - confidence.low) / below
    refused = (high < t - slack) | (own / above < entropy * (1 - high) / (1 - t) - slack)
    answered = (rest < 1 - t - slack) | (own / below < entropy * (1 - rest) / t - slack)
    if t >= 1 / 2:  # a draw votes for a class that has more than half
        refused |= draws.votes.max(axis=1) < draws.votes.sum(axis=1) - math.ceil(rule.quantile * last)
    return answered, refused


def selective_accuracy(rule: RefusalRule, confidence: Within, draws: Draws, hits: BoolArray) -> Bounds | None:
    """Return the bounds of the accuracy of the answered rows; None if there may be none."""
    answered, refused = refusals(rule, confidence, draws)
    above = (draws.number - math.ceil(rule.quantile * (draws.number - 1))) / draws.number
    # The rule answers the class of the largest quantile. Suppose that another class has the largest mean probability.
    # That other class has at most 1/2 in a share `above` of the draws, so the confidence is at most 1 - above / 2.
    is_known = (confidence.low > 1 - above / 2 + SLACK) | (draws.number == 1)
    right, wrong = (int((answered & is_known & found).sum()) for found in (hits, ~hits))
    is_open = ~refused & ~(answered & is_known)
    can_be_right, can_be_wrong = (int((is_open & (found | ~is_known)).sum()) for found in (hits, ~hits))
    if not right + wrong:
        return None
    return right / (right + wrong + can_be_wrong), (right + can_be_right) / (right + can_be_right + wrong)


def draw_accuracy(promised: Within, labels: IntArray, draws: Draws) -> Bounds:
    """Return the bounds of the mean accuracy of one draw.

    For each row, take the share of draws that give the right answer. It differs from the label's mean probability by at
    most the mean entropy of a draw / (2 log 2). The votes of the first draws, often of all, give closer bounds.
    """
    voted = draws.votes[np.arange(len(labels)), labels]
    unknown = draws.number - draws.votes.sum(axis=1)
    reach = draws.own_entropy.high / (2 * math.log(2)) + SLACK
    low = np.maximum(promised.low - reach, voted / draws.number)
    return Within(low, np.minimum(promised.high + reach, (voted + unknown) / draws.number)).mean()
