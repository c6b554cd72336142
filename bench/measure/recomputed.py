"""Compute metrics again from a record's scores, to find metrics that somebody changed without changing the scores.

Most scores are stored in half precision, so that they give only bounds of a metric. A metric outside its bounds
contradicts the scores. A true metric is always inside, because the bounds include every rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from bench.core.folder import Problem
from bench.core.metric_table import LARGEST, PROMISED_OF_SURE, RIGHT_OF_SURE, ROUNDING, SCORES, SHARE_SURE, SURE
from bench.core.records import Arrays, Record
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
    risks,
    selective_accuracy,
    told_apart,
)
from bench.measure.curves import NO_ARRAYS, made_by_curves, points, points_between
from bench.measure.metrics.arrays import BoolArray
from bench.measure.metrics.classification import disagreement_rate
from bench.measure.metrics.refusal import MEDIAN_RULE, STRICT_RULE
from bench.measure.metrics.shifts import areas

INSIDE = "mnist"  # taken for the in-distribution data set if no data set has labels
SUMMED = 1e-6  # relative rounding error of a sum of 60,000 numbers in another order
EXP = 4e-16  # relative rounding error of exp(log p)
DETERMINED = 0.1  # the scores determine a metric if its bounds differ by at most this share of its value
# Rounding changes a number by at most half of its last digit: (relative error, absolute error near zero).
_ROUNDED = {np.dtype(np.float16): (2.0**-11, 2.0**-25), np.dtype(np.float32): (2.0**-24, 2.0**-150)}

_compared: dict[tuple[str, str], list[str]] = {}  # by the hashes of a record and of its scores


def sound(records: Iterable[Record], store: Store) -> tuple[list[Record], list[Problem]]:
    """Return the records that their scores do not contradict, and a problem for each other record.

    The folder may come from somebody else. A record without scores cannot be checked, and is kept.
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
    """Return the contradictions of a record. They are cached, because several tables read the same folder."""
    key = (record.sha256, record.scores_sha256 or "")
    if key not in _compared:
        scores = store.scores(record) if record.scores_sha256 else {}
        found = contradictions(record.metrics, scores, record.arrays)
        if not scores:  # not cached, because another folder may have the scores of the same record
            return found
        _compared[key] = found
    return _compared[key]


def contradictions(metrics: Mapping[str, float | None], scores: Scores, arrays: Arrays = NO_ARRAYS) -> list[str]:
    """Return a text for every metric, and every point of a curve, that contradicts the scores (from `Store.scores`).

    A record of protocol `shift` has no scores. There, an area must be the area under the record's own curve.
    """
    return compared(metrics, scores, arrays)[0]


def compared(
    metrics: Mapping[str, float | None], scores: Scores, arrays: Arrays = NO_ARRAYS
) -> tuple[list[str], list[str]]:
    """Return the texts of `contradictions`, and the names of the metrics that the scores do not determine."""
    bounds = [("scores make", key, *both) for key, both in _bounds(scores)]
    bounds += [("curve makes", key, value, value) for key, value in (*areas(metrics), *made_by_curves(arrays))]
    found, undetermined = [], {key for key, value in metrics.items() if value is not None}
    risks_kept = points(arrays)
    numbers = {**metrics, **risks_kept}
    for origin, key, low, high in bounds:
        value = numbers.get(key)
        if value is None:
            continue
        slack = SUMMED * max(abs(low), abs(high))
        if not low - slack <= value <= high + slack:
            found.append(f"{key} is {value:.6g}, but its {origin} it {low:.6g} to {high:.6g}")
        if high - low <= DETERMINED * abs(value):
            undetermined.discard(key)
    known = {key for _, key, *_ in bounds}
    for key in risks_kept:
        if key not in known and f"{key.partition('/')[0]}/risk_coverage_area" in known:
            found.append(f"{key} is on its curve, but not one of the points that the scores make")
    return found, sorted(undetermined)


def _bounds(scores: Scores) -> Iterator[tuple[str, Bounds]]:
    """Yield the names of the metrics that the scores give, with the least and the largest value of each."""
    names = {key.rpartition("/")[0] for key in scores}
    spreads = {name: _spreads(name, scores) for name in names}
    within = next((name for name in names if f"{name}/nll" in scores), INSIDE)  # only labelled rows have an NLL
    ordered = {score: spread.ordered() for score, spread in spreads.get(within, {}).items()}
    for name in names:
        yield from ((f"{name}/{metric}", both) for metric, both in _of_rows(name, scores, spreads[name]))
        for score in SCORES:
            if name != within and score in ordered and score in spreads[name]:
                for metric, both in told_apart(ordered[score], spreads[name][score].ordered()):
                    yield f"{name}/{metric}_{score}", both


def _of_rows(name: str, scores: Scores, spreads: Mapping[str, Within]) -> Iterator[tuple[str, Bounds]]:
    """Yield the metrics of one data set, with their bounds."""
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
            yield "geometric_entropy", (low - ROUNDING, high)  # it adds 1e-10 inside ten logarithms
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
        risk = risks(confidence, hits)
        yield "risk_coverage_area", risk.mean()
        yield from points_between(risk)


def _of_draws(confidence: Within, hits: BoolArray | None, draws: Draws) -> Iterator[tuple[str, Bounds]]:
    for rule, of in ((MEDIAN_RULE, ""), (STRICT_RULE, "_strict")):
        answered, refused = refusals(rule, confidence, draws)
        yield f"refusal_rate{of}", (float(refused.mean()), float((~answered).mean()))
        if hits is not None and (both := selective_accuracy(rule, confidence, draws, hits)):
            yield f"selective_accuracy{of}", both


def _hits(name: str, scores: Scores) -> BoolArray | None:
    """Return which rows are answered correctly; None for a data set without labels, which has no NLL."""
    label, answer = f"{name}/label", f"{name}/predicted"
    return scores[answer] == scores[label] if {label, answer, f"{name}/nll"} <= scores.keys() else None


def _draws(name: str, scores: Scores) -> Draws | None:
    own, votes, draws = (f"{name}/{kind}" for kind in ("expected_entropy", "votes", "draws"))
    if not {own, votes, draws} <= scores.keys():
        return None
    return Draws(len(scores[draws]), _rounded(scores, own), scores[votes].astype(np.int64))


def _spreads(name: str, scores: Scores) -> dict[str, Within]:
    """Return bounds of the scores for detecting out-of-distribution rows: the higher, the less like training data."""
    keys = {kind: f"{name}/{kind}" for kind in ("predictive_entropy", "expected_entropy", "max_probability")}
    found = {kind: _rounded(scores, key) for kind, key in keys.items() if key in scores}
    if "max_probability" in found:
        largest, hits = found["max_probability"], _hits(name, scores)
        if hits is not None:  # if the answer is right, the NLL gives the largest probability with more digits
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
    """Return bounds of the mean probability of each row's label."""
    low, high = _rounded(scores, nll)
    return Within(np.exp(-high) * (1 - EXP), np.exp(-low) * (1 + EXP))


def _rounded(scores: Scores, key: str) -> Within:
    values = scores[key]
    relative, least = _ROUNDED[values.dtype]
    exact = np.minimum(values.astype(np.float64), LARGEST)
    half = np.abs(exact) * relative + least
    return Within(exact - half, exact + half)
