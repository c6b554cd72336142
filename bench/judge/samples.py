"""Samples: one number from the record of each seed, or why there is none."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from bench.core.errors import StoreError
from bench.core.reasons import in_words
from bench.core.records import Record, StoredNumber

NO_RECORD = "not run"  # code of the gap if there is no record
LAST_EPOCH = "last epoch/"  # begins the key of a number of the last epoch, which stands in the training trace


class Gap(NamedTuple):
    """Why there is no number: a short code for the cell of a table, and the whole reason for the table's notes."""

    code: str
    reason: str
    is_fault: bool = False  # a seed diverged or gave a number that is not finite


@dataclass(frozen=True)
class Samples:
    """One metric, measured with several seeds; the gap says why some or all seeds have no value."""

    by_seed: Mapping[int, float] = field(default_factory=dict)  # in the order of the seeds
    gap: Gap | None = None
    sources: tuple[str, ...] = field(default=(), compare=False)  # keys of all records that were read

    @classmethod
    def of(cls, values: Iterable[float], gap: Gap | None = None) -> Samples:
        """Return values whose seeds do not matter, numbered from 0."""
        return cls(dict(enumerate(values)), gap)

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

    @cached_property  # slow: it computes with exact fractions
    def sd(self) -> float | None:
        """Return the standard deviation over seeds (divisor n - 1), None for fewer than two."""
        return statistics.stdev(self.values) if self.n > 1 else None

    def converted(self, change: Callable[[float], float]) -> Samples:
        """Return the values in another unit or on another scale."""
        return replace(self, by_seed={seed: change(value) for seed, value in self.by_seed.items()})


def gather(records: Sequence[Record], read: Callable[[Record], float | Gap]) -> Samples:
    """Read one number from each record of a cell; `read` gets the finished records.

    Raises:
        StoreError: two records have the same seed, which would count one run twice.
    """
    found: dict[int, tuple[str, float | Gap]] = {}
    for record in records:
        if record.seed in found:
            rivals = f"{found[record.seed][0]} and {record.key}"
            raise StoreError(f"two records of {record.title}; keep one of {rivals}")
        found[record.seed] = record.key, read(record) if record.outcome == "done" else unfinished(record)
    return samples_of(found)


def samples_of(found: Mapping[int, tuple[str, float | Gap]]) -> Samples:
    """Return the samples of numbers by seed, each with the key of its record."""
    ordered = sorted(found.items())
    gaps = [(seed, one) for seed, (_, one) in ordered if isinstance(one, Gap)]
    values = {seed: one for seed, (_, one) in ordered if not isinstance(one, Gap)}
    return Samples(values, _summarise(gaps, len(ordered)), tuple(key for _, (key, _) in ordered))


def _summarise(gaps: Sequence[tuple[int, Gap]], n_records: int) -> Gap | None:
    if not n_records:
        return Gap(NO_RECORD, "no record of this cell; python -m bench run makes it")
    if not gaps:
        return None
    if len(gaps) == n_records:
        return gaps[0][1]
    seeds_by_gap: dict[Gap, list[int]] = {}
    for seed, gap in gaps:
        seeds_by_gap.setdefault(gap, []).append(seed)
    named = "; ".join(
        f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))} {gap.code}: {gap.reason}"
        for gap, seeds in seeds_by_gap.items()
    )
    text = f"{len(gaps)} of {n_records} seeds not counted ({named})"
    return Gap("*", text, any(gap.is_fault for gap in seeds_by_gap))


def unfinished(record: Record) -> Gap:
    """Return why a record without numbers has none."""
    return Gap(record.outcome, in_words(record.reason), record.outcome == "diverged")


def metrics_of(records: Sequence[Record], key: str) -> Samples:
    """Return a metric of a cell's records."""
    return gather(records, lambda record: metric(record, key))


def metric(record: Record, key: str) -> float | Gap:
    """Return a metric of a finished record (with `LAST_EPOCH`, of its last epoch), or why there is none."""
    if not key.startswith(LAST_EPOCH):
        return value_of(record.metrics, key, record)
    if not record.epochs:
        return Gap("n/a", "the record has no epochs")
    return value_of(record.epochs[-1].metrics, key.removeprefix(LAST_EPOCH), record)


def value_of(numbers: Mapping[str, StoredNumber], key: str, record: Record) -> float | Gap:
    """Return one of the numbers of a record, or why there is none."""
    value = numbers.get(key)
    if value is not None and math.isfinite(value):
        return float(value)
    parts = key.split("/")
    for end in range(len(parts), 0, -1):
        reason = record.missing.get("/".join(parts[:end]))
        if reason is not None:
            return Gap("no data" if end == 1 else "n/a", in_words(reason), reason.kind == "not-finite")
    if key in numbers:
        return Gap("not finite", f"the measured '{key}' is not a finite number", is_fault=True)
    return Gap("n/a", f"the record has no '{key}'")
