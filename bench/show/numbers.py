"""The numbers of a record by name, and why one is missing: the rows of the frame of the results.

Metrics are named as in the record (`python -m bench table definitions` explains them), times and memory as
`timings/fit_s`, sizes as `model/n_weights`, numbers of pruned networks as `pruning/mean@0.5/accuracy`. A reason may
stand at the part of the name that several metrics share, such as a data set that was not there. The one row of an
unfinished record has no metric.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from bench.core.reasons import in_words
from bench.core.records import NetworkSize, Record, Timings
from bench.judge.samples import MissingValue, unfinished, value_of

RISK = 0.01  # share of wrong answers that is accepted
REFUSED_FOR_RISK = f"refused_for_risk@{RISK:g}"
UNREACHED = MissingValue("never", "even the most certain answers are wrong in more than 1 %")
NO_CURVE = MissingValue("n/a", "the record has no curve of risk against coverage")
NO_PRUNING = MissingValue("n/a", "the record has no pruning curve")
NOT_COUNTED = MissingValue("n/a", "the approach does not expose its weights")
NOT_TAKEN = MissingValue("n/a", "not measured: it does not apply to this task or protocol")

SIZES = NetworkSize.__struct_fields__
TIMES = tuple(name for name in Timings.__struct_fields__ if name not in ("valid", "reasons"))
PRUNED = ("accuracy", "nll", "noise_refusal_rate", "pruned_of_used", "kept", "bytes")  # fields of `PrunedRow`


class Row(NamedTuple):
    """One number of a record, or why it is missing."""

    metric: str  # '' for the one row of an unfinished record
    value: float  # NaN if it is missing
    missing: str = ""  # the short code of the missing value
    reason: str = ""  # the whole reason
    is_fault: bool = False  # see `MissingValue`


def rows_of(record: Record) -> Iterator[Row]:
    """Give the numbers of a record, then the reasons for numbers that it lacks."""
    if record.outcome != "done":
        yield _row("", unfinished(record))
        return
    for name in dict.fromkeys((*record.metrics, *record.missing)):
        if name != "pruning":  # see `_pruned`
            yield _row(name, value_of(record.metrics, name, record))
    yield _row(REFUSED_FOR_RISK, refused_for_risk(record))
    for name in SIZES:
        yield _row(f"model/{name}", _or_missing_value(getattr(record.model, name), NOT_COUNTED))
    for name in TIMES:
        yield _row(f"timings/{name}", _or_missing_value(getattr(record.timings, name), NOT_TAKEN))
    yield from _pruned(record)


def _row(metric: str, found: float | MissingValue) -> Row:
    return Row(metric, math.nan, *found) if isinstance(found, MissingValue) else Row(metric, found)


def _or_missing_value(value: float | None, missing_value: MissingValue) -> float | MissingValue:
    return missing_value if value is None else float(value)


def _pruned(record: Record) -> Iterator[Row]:
    curve = record.arrays.pruning
    if curve is None:
        reason = record.missing.get("pruning")
        yield _row("pruning", MissingValue("n/a", in_words(reason)) if reason else NO_PRUNING)
        return
    for row in curve.rows:
        for name in PRUNED:
            found = _or_missing_value(getattr(row, name), MissingValue("n/a", f"the pruning curve has no '{name}'"))
            yield _row(f"pruning/{row.network}@{row.fraction:g}/{name}", found)


def refused_for_risk(record: Record) -> float | MissingValue:
    """Return the percentage of images to refuse, the least certain first, until `RISK` of the answers are wrong."""
    curve = record.arrays.risk_coverage or record.arrays.clothes_risk_coverage
    if curve is None:
        return NO_CURVE
    enough = [coverage for coverage, risk in zip(curve.coverage, curve.risk, strict=True) if risk <= RISK]
    return 100 * (1 - max(enough)) if enough else UNREACHED


def times_invalid(record: Record) -> str:
    """Return why a record's times do not count, '' if they do."""
    if record.timings.valid or record.outcome != "done":
        return ""
    return in_words(*record.timings.reasons) or "the record does not say why"
