"""Samples: one number from the record of each seed, or why there is none."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bench.core.errors import StoreError
from bench.core.reasons import Reason, in_words
from bench.core.records import Record, StoredNumber

NO_RECORD = "not run"  # code of the missing value if there is no record
LAST_EPOCH = "last epoch/"  # begins the key of a number of the last epoch, which stands in the training trace


class MissingValue(NamedTuple):
    """Why there is no number: a short code for the cell of a table, and the whole reason for the table's notes."""

    code: str
    reason: str
    is_fault: bool = False  # a seed diverged or gave a number that is not finite


@dataclass(frozen=True)
class Samples:
    """One metric, measured with several seeds; the missing value says why some or all seeds have no value."""

    by_seed: Mapping[int, float] = field(default_factory=dict)  # in the order of the seeds
    missing_value: MissingValue | None = None
    sources: tuple[str, ...] = field(default=(), compare=False)  # keys of all records that were read

    @classmethod
    def of(cls, values: Iterable[float], missing_value: MissingValue | None = None) -> Samples:
        """Return values whose seeds do not matter, numbered from 0."""
        return cls(dict(enumerate(values)), missing_value)

    @cached_property
    def values(self) -> tuple[float, ...]:
        """Return the values in the order of the seeds."""
        return tuple(self.by_seed.values())

    @property
    def n(self) -> int:
        """Return the number of seeds."""
        return len(self.by_seed)

    @property
    def mean(self) -> float | None:
        """Return the mean over seeds, None without any."""
        return statistics.fmean(self.values) if self.values else None

    @cached_property
    def sd(self) -> float | None:
        """Return the standard deviation over seeds (divisor n - 1), None for fewer than two."""
        if self.n < 2:
            return None
        from_first = np.subtract(self.values, self.values[0])  # so that equal values have exactly 0
        return float(from_first.std(ddof=1))

    def converted(self, change: Callable[[float], float]) -> Samples:
        """Return the values in another unit or on another scale."""
        return replace(self, by_seed={seed: change(value) for seed, value in self.by_seed.items()})


def gather(records: Sequence[Record], read: Callable[[Record], float | MissingValue]) -> Samples:
    """Read one number from each record of a trained run; `read` gets the finished records.

    Raises:
        StoreError: two records have the same seed, which would count one run twice.
    """
    found: dict[int, tuple[str, float | MissingValue]] = {}
    for record in records:
        if record.seed in found:
            rivals = f"{found[record.seed][0]} and {record.key}"
            raise StoreError(f"two records of {record.title}; keep one of {rivals}")
        found[record.seed] = record.key, read(record) if record.outcome == "done" else unfinished(record)
    return samples_of(found)


def samples_of(found: Mapping[int, tuple[str, float | MissingValue]]) -> Samples:
    """Return the samples of numbers by seed, each with the key of its record."""
    ordered = sorted(found.items())
    missing_values = [(seed, one) for seed, (_, one) in ordered if isinstance(one, MissingValue)]
    values = {seed: one for seed, (_, one) in ordered if not isinstance(one, MissingValue)}
    return Samples(values, _summarise(missing_values, len(ordered)), tuple(key for _, (key, _) in ordered))


def _summarise(missing_values: Sequence[tuple[int, MissingValue]], n_records: int) -> MissingValue | None:
    if not n_records:
        return MissingValue(NO_RECORD, "no record of this trained run; python -m bench run makes it")
    if not missing_values:
        return None
    if len(missing_values) == n_records:
        return missing_values[0][1]
    seeds_by_missing_value: dict[MissingValue, list[int]] = {}
    for seed, missing_value in missing_values:
        seeds_by_missing_value.setdefault(missing_value, []).append(seed)
    named = "; ".join(
        f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))} {missing_value.code}: {missing_value.reason}"
        for missing_value, seeds in seeds_by_missing_value.items()
    )
    text = f"{len(missing_values)} of {n_records} seeds not counted ({named})"
    return MissingValue("*", text, any(missing_value.is_fault for missing_value in seeds_by_missing_value))


def unfinished(record: Record) -> MissingValue:
    """Return why a record without numbers has none."""
    return MissingValue(record.outcome, in_words(record.reason), record.outcome == "diverged")


def metrics_of(records: Sequence[Record], key: str) -> Samples:
    """Return a metric of a trained run's records."""
    return gather(records, lambda record: metric(record, key))


def metric(record: Record, key: str) -> float | MissingValue:
    """Return a metric of a finished record (with `LAST_EPOCH`, of its last epoch), or why there is none."""
    if not key.startswith(LAST_EPOCH):
        return value_of(record.metrics, key, record)
    if not record.epochs:
        return MissingValue("n/a", "the record has no epochs")
    return value_of(record.epochs[-1].metrics, key.removeprefix(LAST_EPOCH), record)


def value_of(numbers: Mapping[str, StoredNumber], key: str, record: Record) -> float | MissingValue:
    """Return one of the numbers of a record, or why there is none."""
    value = numbers.get(key)
    if value is not None and math.isfinite(value):
        return float(value)
    part, reason = why_missing(record, key)
    if reason is not None:
        return MissingValue("n/a" if "/" in part else "no data", in_words(reason), reason.kind == "not-finite")
    if key in numbers:
        return MissingValue("not finite", f"the measured '{key}' is not a finite number", is_fault=True)
    return MissingValue("n/a", f"the record has no '{key}'")


def why_missing(record: Record, key: str) -> tuple[str, Reason | None]:
    """Return the longest part of a key for which the record has a reason, and the reason; None without any."""
    parts = key.split("/")
    names = ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]
    return next(((name, record.missing[name]) for name in names if name in record.missing), ("", None))
