"""Compute metrics again from the stored scores of all rows, with the functions that measured them.

A stored score is rounded, most to half precision. So each metric is computed twice: with every score moved by its
rounding so that the metric is least, and so that it is largest. What was measured lies between the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bench.core.metric_table import EXPECTED_OF_SURE, RIGHT_OF_SURE, SCORES, SHARE_SURE, SURE
from bench.core.row_scores import CLASSES, LOG_OTHERS, Scores
from bench.measure.metrics import classification, ood, uncertainty
from bench.measure.metrics.arrays import FloatArray, IntArray
from bench.measure.metrics.refusal import risk_coverage

UNNORMALISED = 1e-3  # how far from 1 the probabilities of a row may sum, `metrics.draws`

Bounds = tuple[float, float]  # the least and the largest value of a metric


class Moved(NamedTuple):
    """Scores [N] of the rows, each moved down and up by its rounding."""

    low: FloatArray
    high: FloatArray


def computed_again(scores: Scores) -> dict[str, Bounds]:
    """Return the bounds of every metric that scores (from `Store.scores`) give, by the metric's key in a record.

    Scores do not have what depends on each draw or on the mean network: rates of refusal, accuracies of draws,
    geometric entropies, metrics of `mean_network`. Rounded scores do not say which rows share a bin of equal mass.
    """
    found: dict[str, Bounds] = {}
    sets = sorted({key.rpartition("/")[0] for key in scores})
    for name in sets:
        found |= {f"{name}/{metric}": bounds for metric, bounds in _of_rows(name, scores)}
    for inside in (name for name in sets if _has_labels(name, scores)):
        for name in sets:
            if name != inside:
                found |= {f"{name}/{metric}": bounds for metric, bounds in _told_apart(inside, name, scores)}
    return found


def _of_rows(name: str, scores: Scores) -> Iterator[tuple[str, Bounds]]:
    """Yield the metrics of one data set."""
    means = {
        kind: _means(_moved(scores, f"{name}/{kind}"))
        for kind in ("predictive_entropy", "expected_entropy", "nll", "brier")
        if f"{name}/{kind}" in scores and np.isfinite(scores[f"{name}/{kind}"]).all()
    }
    yield from means.items()
    if {"predictive_entropy", "expected_entropy"} <= means.keys():
        whole, own = means["predictive_entropy"], means["expected_entropy"]
        yield "mutual_information", (max(0, whole[0] - own[1]), max(0, whole[1] - own[0]))
    if f"{name}/votes" in scores:
        share = uncertainty.disagreement_rate(scores[f"{name}/votes"].astype(np.int64))
        yield "disagreement_rate", (share, share)
    confidence = _confidence(name, scores)
    if confidence is None:
        return
    answers = scores[f"{name}/predicted"].astype(np.int64)
    least, most = (_probs(answers, side) for side in confidence)
    yield SHARE_SURE, (classification.share_sure(least, SURE), classification.share_sure(most, SURE))
    if _has_labels(name, scores):
        yield from _of_answers(answers, confidence, scores[f"{name}/label"].astype(np.int64))


def _has_labels(name: str, scores: Scores) -> bool:
    """Return whether the rows of a data set have labels: only the test set's do."""
    return f"{name}/label" in scores and bool(np.greater_equal(scores[f"{name}/label"], 0).all())


def _confidence(name: str, scores: Scores) -> Moved | None:
    """Return the largest probabilities of a data set's rows, or None if its scores do not tell them.

    What the other probabilities leave is less exact: it relies on their sum, which is 1 only within `UNNORMALISED`.
    """
    if f"{name}/max_probability" in scores:
        return _moved(scores, f"{name}/max_probability")
    if f"{name}/{LOG_OTHERS}" not in scores:
        return None
    others = _moved(scores, f"{name}/{LOG_OTHERS}")
    return Moved(1 - np.exp(others.high) - UNNORMALISED, 1 - np.exp(others.low) + UNNORMALISED)


def _of_answers(answers: IntArray, confidence: Moved, labels: IntArray) -> Iterator[tuple[str, Bounds]]:
    """Yield the metrics of answers and confidences against labels, all [N]."""
    least, most = (_probs(answers, side) for side in confidence)
    right = classification.accuracy(most, labels)
    yield "accuracy", (right, right)
    sides = (classification.sure_answers(probs, labels, SURE) for probs in (least, most))
    yield from zip((RIGHT_OF_SURE, EXPECTED_OF_SURE), zip(*sides, strict=True), strict=True)
    hits = classification.row_hits(most, labels)
    best, worst = np.where(hits, confidence.high, confidence.low), np.where(hits, confidence.low, confidence.high)
    area, largest = (risk_coverage(_probs(answers, side), labels).area for side in (best, worst))
    yield "risk_coverage_area", (area, largest)
    # Moving a confidence changes its bin's sum by as much. A row that may be in another bin takes its whole gap there.
    stored, half = (confidence.low + confidence.high) / 2, (confidence.high - confidence.low) / 2
    first, last = (classification.equal_width_bins(probs) for probs in (least, most))
    gaps = np.where(first == last, 0, np.abs(hits - stored) + half)
    error, reach = classification.ece(_probs(answers, stored), labels), float((half + 2 * gaps).mean())
    yield "ece", (error - reach, error + reach)


def _told_apart(inside: str, outside: str, scores: Scores) -> Iterator[tuple[str, Bounds]]:
    """Yield how well each score separates the rows of two data sets."""
    within, beyond = _detection(inside, scores), _detection(outside, scores)
    for score in (score for score in SCORES if score in within and score in beyond):
        near, far = (within[score].high, beyond[score].low), (within[score].low, beyond[score].high)
        yield f"auroc_{score}", (ood.auroc(*near), ood.auroc(*far))
        if score != "mutual_information":  # of different rows it may be equal, which raises the average precision
            yield f"aupr_{score}", (ood.aupr(*_without_ties(*near)), ood.aupr(*far))
        yield f"fpr95_{score}", (ood.fpr_at_tpr(*far), ood.fpr_at_tpr(*near))


def _detection(name: str, scores: Scores) -> dict[str, Moved]:
    """Return the scores of `bench.measure.metrics.ood.scores` of one data set."""
    found = {kind: _moved(scores, f"{name}/{kind}") for kind in SCORES if f"{name}/{kind}" in scores}
    if (largest := _confidence(name, scores)) is not None:
        found["max_probability"] = Moved(-largest.high, -largest.low)
    if "predictive_entropy" in found and f"{name}/expected_entropy" in scores:
        whole, own = found["predictive_entropy"], _moved(scores, f"{name}/expected_entropy")
        found["mutual_information"] = Moved(np.maximum(whole.low - own.high, 0), np.maximum(whole.high - own.low, 0))
    return found


def _without_ties(inside: FloatArray, outside: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ranks in the place of scores. Rows that rounding made equal would raise the average precision."""
    every = np.concatenate([outside, inside])
    ranks = np.empty(len(every))
    ranks[np.lexsort((np.arange(len(every)), every))] = np.arange(len(every))
    return ranks[len(outside) :], ranks[: len(outside)]


def _probs(answers: IntArray, confidence: FloatArray) -> FloatArray:
    """Return probabilities [N, K] with these answers and confidences; the other classes have none."""
    probs = np.zeros((len(answers), CLASSES))
    probs[np.arange(len(answers)), answers] = np.maximum(confidence, np.finfo(np.float64).tiny)
    return probs


def _means(moved: Moved) -> Bounds:
    return float(moved.low.mean()), float(moved.high.mean())


def _moved(scores: Scores, key: str) -> Moved:
    values = scores[key]
    exact = values.astype(np.float64)
    half = np.spacing(np.abs(np.where(np.isfinite(values), values, 0))).astype(np.float64) / 2
    return Moved(exact - half, exact + half)
