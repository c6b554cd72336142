"""Compute metrics again from a record's scores, to find numbers that were changed without the scores.

The scores are rounded, most of them to half precision, so that they give bounds of a metric. A number outside its
bounds contradicts the scores. A true number is always inside, because the bounds include every rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from bench.core.folder import Problem
from bench.core.metric_table import RIGHT_OF_SURE, SCORES, SHARE_SURE, SURE
from bench.core.records import Record
from bench.core.row_scores import Scores
from bench.core.store import Store
from bench.measure.metrics.arrays import FloatArray
from bench.measure.metrics.disagreement import disagreement_rate
from bench.measure.metrics.shifts import areas

INSIDE = "mnist"  # the in-distribution data set where no set has labels
SUMMED = 1e-6  # relative rounding error of a sum of 60,000 numbers in another order
# Rounding changes a number by at most half of its last digit: (relative, absolute near zero).
_ROUNDED = {np.dtype(np.float16): (2.0**-11, 2.0**-25), np.dtype(np.float32): (2.0**-24, 2.0**-150)}


class _Within(NamedTuple):
    """Lower and upper bounds of numbers."""

    low: FloatArray
    high: FloatArray

    def mean(self) -> tuple[float, float]:
        return float(self.low.mean()), float(self.high.mean())


_compared: dict[tuple[str, str], list[str]] = {}  # by the hashes of a record and of its scores


def sound(records: Iterable[Record], store: Store) -> tuple[list[Record], list[Problem]]:
    """Return the records of a folder that their scores do not contradict, and a problem for each of the others.

    A folder may come from somebody else. A record without scores has nothing to be compared with, and stays.
    """
    kept, problems = [], []
    for record in records:
        if found := _found_in(record, store):
            path = store.record_path(record)
            more = f", and {len(found) - 1} more" if len(found) > 1 else ""
            problems.append(Problem(path, f"record {path} contradicts its scores and is left out: {found[0]}{more}"))
        else:
            kept.append(record)
    return kept, problems


def _found_in(record: Record, store: Store) -> list[str]:
    """Return the contradictions of a record, computed once: tables of several groups read the same folder."""
    key = (record.sha256, record.scores_sha256 or "")
    if key not in _compared:
        scores = store.scores(record) if record.scores_sha256 else {}
        found = contradictions(record.metrics, scores)
        if not scores:  # another folder may have them
            return found
        _compared[key] = found
    return _compared[key]


def contradictions(metrics: Mapping[str, float | None], scores: Scores) -> list[str]:
    """Return a text for every metric that a record's scores, as `Store.scores` gives them, contradict.

    A record of protocol shift has no scores, but an area must be that under the record's own curve.
    """
    bounds = [("scores make", key, *both) for key, both in _bounds(scores)]
    bounds += [("curve makes", key, value, value) for key, value in areas(metrics)]
    found = []
    for origin, key, low, high in bounds:
        value = metrics.get(key)
        slack = SUMMED * max(abs(low), abs(high))
        if value is not None and not low - slack <= value <= high + slack:
            found.append(f"{key} is {value:.6g}, but its {origin} it {low:.6g} to {high:.6g}")
    return found


def _bounds(scores: Scores) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield the metrics that the scores make, with the least and the largest value that each can have."""
    names = {key.rpartition("/")[0] for key in scores}
    spreads = {name: _spreads(name, scores) for name in names}
    within = next((name for name in names if f"{name}/nll" in scores), INSIDE)  # the set whose labels are classes
    for name in names:
        yield from _of_labels(name, scores)
        yield from _of_the_sure(name, scores)
        for score in ("predictive_entropy", "expected_entropy", "mutual_information"):
            if score in spreads[name]:
                yield f"{name}/{score}", spreads[name][score].mean()
        if f"{name}/votes" in scores:
            share = disagreement_rate(scores[f"{name}/votes"].astype(np.int64))
            yield f"{name}/disagreement_rate", (share, share)
        for score in SCORES:
            inside, outside = (spreads.get(one, {}).get(score) for one in (within, name))
            if inside is not None and outside is not None and name != within:
                yield f"{name}/auroc_{score}", (_auroc(inside.high, outside.low), _auroc(inside.low, outside.high))


def _auroc(inside: FloatArray, outside: FloatArray) -> float:
    """Return the share of pairs in which the outer row scores higher, ties counting 1/2.

    `metrics.ood.auroc` gets this number from ranks. Counts are faster here, and need neither SciPy nor PyTorch.
    """
    ordered, wanted = np.sort(inside), np.sort(outside)  # in order, a search finds the next place nearby
    pairs = np.searchsorted(ordered, wanted, "left").sum() + np.searchsorted(ordered, wanted, "right").sum()
    return float(pairs / (2 * len(inside) * len(outside)))


def _of_labels(name: str, scores: Scores) -> Iterator[tuple[str, tuple[float, float]]]:
    label, answer, brier, nll = (f"{name}/{kind}" for kind in ("label", "predicted", "brier", "nll"))
    if {label, answer, nll} <= scores.keys():  # without labels there is no NLL
        share = float((scores[answer] == scores[label]).mean())
        yield f"{name}/accuracy", (share, share)
    if brier in scores:
        yield brier, _rounded(scores, brier).mean()
    if nll in scores:
        is_possible = not np.isposinf(scores[nll].astype(np.float64)).any()
        yield nll, _rounded(scores, nll).mean() if is_possible else (np.inf, np.inf)


def _of_the_sure(name: str, scores: Scores) -> Iterator[tuple[str, tuple[float, float]]]:
    largest, label, answer, nll = (f"{name}/{kind}" for kind in ("max_probability", "label", "predicted", "nll"))
    if largest not in scores:
        return
    bounds = _rounded(scores, largest)
    least, most = bounds.low >= SURE, bounds.high >= SURE
    yield f"{name}/{SHARE_SURE}", (float(least.mean()), float(most.mean()))
    if {label, answer, nll} <= scores.keys():
        right = scores[answer] == scores[label]
        yield f"{name}/{RIGHT_OF_SURE}", (float((least & right).mean()), float((most & right).mean()))


def _spreads(name: str, scores: Scores) -> dict[str, _Within]:
    """Return the scores that tell unlike rows; a row has a higher score if it looks less like the training data."""
    keys = {kind: f"{name}/{kind}" for kind in ("predictive_entropy", "expected_entropy", "max_probability")}
    found = {kind: _rounded(scores, key) for kind, key in keys.items() if key in scores}
    if "max_probability" in found:
        largest = found["max_probability"]
        found["max_probability"] = _Within(-largest.high, -largest.low)
    if {"predictive_entropy", "expected_entropy"} <= found.keys():
        whole, own = found["predictive_entropy"], found["expected_entropy"]
        found["mutual_information"] = _Within(np.maximum(whole.low - own.high, 0), np.maximum(whole.high - own.low, 0))
    return found


def _rounded(scores: Scores, key: str) -> _Within:
    values = scores[key]
    relative, least = _ROUNDED[values.dtype]
    exact = values.astype(np.float64)
    half = np.abs(exact) * relative + least
    return _Within(exact - half, exact + half)
