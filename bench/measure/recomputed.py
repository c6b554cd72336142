"""Compute metrics again from a record's scores, to find numbers that were changed without the scores.

The scores are rounded, most of them to half precision, so that they give bounds of a metric. A number outside its
bounds contradicts the scores. A true number is always inside, because the bounds include every rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from bench.core.folder import Problem
from bench.core.metric_table import LARGEST, PROMISED_OF_SURE, RIGHT_OF_SURE, ROUNDING, SCORES, SHARE_SURE, SURE
from bench.core.records import Record
from bench.core.row_scores import Scores
from bench.core.store import Store
from bench.measure.bounds import (
    Bounds,
    Draws,
    Within,
    draw_accuracy,
    ece,
    ece_equal_mass,
    refusals,
    risk_coverage_area,
    selective_accuracy,
    told_apart,
)
from bench.measure.metrics.arrays import BoolArray
from bench.measure.metrics.classification import disagreement_rate
from bench.measure.metrics.refusal import MEDIAN_RULE, STRICT_RULE
from bench.measure.metrics.shifts import areas

INSIDE = "mnist"  # the in-distribution data set where no set has labels
SUMMED = 1e-6  # relative rounding error of a sum of 60,000 numbers in another order
EXP = 4e-16  # relative rounding error of a logarithm's exponential
TOLD = 0.1  # bounds of a metric that are farther apart than this share of it do not tell it
# Rounding changes a number by at most half of its last digit: (relative, absolute near zero).
_ROUNDED = {np.dtype(np.float16): (2.0**-11, 2.0**-25), np.dtype(np.float32): (2.0**-24, 2.0**-150)}

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
    return compared(metrics, scores)[0]


def compared(metrics: Mapping[str, float | None], scores: Scores) -> tuple[list[str], list[str]]:
    """Return the texts of `contradictions`, and the metrics that scores do not tell to a tenth of their value."""
    bounds = [("scores make", key, *both) for key, both in _bounds(scores)]
    bounds += [("curve makes", key, value, value) for key, value in areas(metrics)]
    found, open_keys = [], {key for key, value in metrics.items() if value is not None}
    for origin, key, low, high in bounds:
        value = metrics.get(key)
        if value is None:
            continue
        slack = SUMMED * max(abs(low), abs(high))
        if not low - slack <= value <= high + slack:
            found.append(f"{key} is {value:.6g}, but its {origin} it {low:.6g} to {high:.6g}")
        if high - low <= TOLD * abs(value):
            open_keys.discard(key)
    return found, sorted(open_keys)


def _bounds(scores: Scores) -> Iterator[tuple[str, Bounds]]:
    """Yield the metrics that the scores make, with the least and the largest value that each can have."""
    names = {key.rpartition("/")[0] for key in scores}
    spreads = {name: _spreads(name, scores) for name in names}
    within = next((name for name in names if f"{name}/nll" in scores), INSIDE)  # the set whose labels are classes
    ordered = {score: spread.ordered() for score, spread in spreads.get(within, {}).items()}
    for name in names:
        yield from ((f"{name}/{metric}", both) for metric, both in _of_rows(name, scores, spreads[name]))
        for score in SCORES:
            if name != within and score in ordered and score in spreads[name]:
                for metric, both in told_apart(ordered[score], spreads[name][score].ordered()):
                    yield f"{name}/{metric}_{score}", both


def _of_rows(name: str, scores: Scores, spreads: Mapping[str, Within]) -> Iterator[tuple[str, Bounds]]:
    """Yield the metrics of one data set."""
    for score in ("predictive_entropy", "expected_entropy", "mutual_information"):
        if score in spreads:
            yield score, spreads[score].mean()
    if f"{name}/votes" in scores:
        share = disagreement_rate(scores[f"{name}/votes"].astype(np.int64))
        yield "disagreement_rate", (share, share)
    hits, nll = _hits(name, scores), f"{name}/nll"
    if hits is not None:
        yield "accuracy", (float(hits.mean()), float(hits.mean()))
    if f"{name}/brier" in scores:
        yield "brier", _rounded(scores, f"{name}/brier").mean()
    if nll in scores:
        is_possible = not np.isposinf(scores[nll].astype(np.float64)).any()
        yield "nll", _rounded(scores, nll).mean() if is_possible else (np.inf, np.inf)
    if "max_probability" not in spreads:
        return
    confidence = Within(-spreads["max_probability"].high, -spreads["max_probability"].low)
    yield from _of_confidence(confidence, hits)
    draws = _draws(name, scores)
    if draws is not None:
        yield from _of_draws(confidence, hits, draws)
        if draws.number == 1 and "predictive_entropy" in spreads:
            low, high = spreads["predictive_entropy"].mean()
            yield "geometric_entropy", (low - ROUNDING, high)  # 1e-10 is added inside ten logarithms
        if hits is not None:
            labels = scores[f"{name}/label"].astype(np.int64)
            yield "draw_accuracy_mean", draw_accuracy(_promised(scores, nll), labels, draws)


def _of_confidence(confidence: Within, hits: BoolArray | None) -> Iterator[tuple[str, Bounds]]:
    least, most = confidence.low >= SURE, confidence.high >= SURE
    yield SHARE_SURE, (float(least.mean()), float(most.mean()))
    if hits is not None:
        yield RIGHT_OF_SURE, (float((least & hits).mean()), float((most & hits).mean()))
        yield PROMISED_OF_SURE, Within(confidence.low * least, confidence.high * most).mean()
        yield "ece", ece(confidence, hits)
        yield "ece_equal_mass", ece_equal_mass(confidence, hits)
        yield "risk_coverage_area", risk_coverage_area(confidence, hits)


def _of_draws(confidence: Within, hits: BoolArray | None, draws: Draws) -> Iterator[tuple[str, Bounds]]:
    for rule, of in ((MEDIAN_RULE, ""), (STRICT_RULE, "_strict")):
        answered, refused = refusals(rule, confidence, draws)
        yield f"refusal_rate{of}", (float(refused.mean()), float((~answered).mean()))
        if hits is not None and (both := selective_accuracy(rule, confidence, draws, hits)):
            yield f"selective_accuracy{of}", both


def _hits(name: str, scores: Scores) -> BoolArray | None:
    """Return which rows are answered rightly; None without labels, where there is no NLL."""
    label, answer = f"{name}/label", f"{name}/predicted"
    return scores[answer] == scores[label] if {label, answer, f"{name}/nll"} <= scores.keys() else None


def _draws(name: str, scores: Scores) -> Draws | None:
    own, votes, draws = (f"{name}/{kind}" for kind in ("expected_entropy", "votes", "draws"))
    if not {own, votes, draws} <= scores.keys():
        return None
    return Draws(len(scores[draws]), _rounded(scores, own), scores[votes].astype(np.int64))


def _spreads(name: str, scores: Scores) -> dict[str, Within]:
    """Return the scores that tell unlike rows; a row has a higher score if it looks less like the training data."""
    keys = {kind: f"{name}/{kind}" for kind in ("predictive_entropy", "expected_entropy", "max_probability")}
    found = {kind: _rounded(scores, key) for kind, key in keys.items() if key in scores}
    if "max_probability" in found:
        largest, hits = found["max_probability"], _hits(name, scores)
        if hits is not None:  # the NLL of a right answer has more digits
            promised = _promised(scores, f"{name}/nll")
            largest = Within(*(np.where(hits, fine, side) for fine, side in zip(promised, largest, strict=True)))
        found["max_probability"] = Within(-largest.high, -largest.low)
    if {"predictive_entropy", "expected_entropy"} <= found.keys():
        whole, own = found["predictive_entropy"], found["expected_entropy"]
        found["mutual_information"] = Within(np.maximum(whole.low - own.high, 0), np.maximum(whole.high - own.low, 0))
        if len(scores.get(f"{name}/draws", ())) == 1:
            found["mutual_information"] = Within(*np.zeros((2, len(whole.low))))
    return found


def _promised(scores: Scores, nll: str) -> Within:
    """Return the mean probability of each row's label."""
    low, high = _rounded(scores, nll)
    return Within(np.exp(-high) * (1 - EXP), np.exp(-low) * (1 + EXP))


def _rounded(scores: Scores, key: str) -> Within:
    values = scores[key]
    relative, least = _ROUNDED[values.dtype]
    exact = np.minimum(values.astype(np.float64), LARGEST)
    half = np.abs(exact) * relative + least
    return Within(exact - half, exact + half)
