"""Which metrics both sides have, which metrics one side lacks, for which seeds, and why."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.judge.compare.pairing import CellName, Pairs
from bench.judge.gate.samples import LAST_EPOCH, read
from bench.judge.samples import Gap

MAIN_METRICS = (
    "mnist/accuracy",
    "mnist/nll",
    "mnist/ece",
    "noise_gaussian/predictive_entropy",
    "*/auroc_predictive_entropy",
    "*/train_loss*",
    "*/*/accuracy",
    "*/*/refusal_rate",
    "*/*/predictive_entropy",
    "toy/*",
)


@dataclass(frozen=True)
class Lack:
    """A metric that cannot be compared: some records have it, but these of one side do not."""

    cell: CellName
    metric: str
    side: str  # "A" or "B"
    seeds: tuple[int, ...]
    reason: str


def comparable(cell: Pairs, patterns: Sequence[str] = MAIN_METRICS) -> list[str]:
    """Return the metrics of the patterns that every record of a cell has, those of the last epoch last."""
    return [name for name in _names(cell, patterns) if not _gaps(cell, name)]


def lacking(pairs: Iterable[Pairs], patterns: Sequence[str] = MAIN_METRICS) -> list[Lack]:
    """Return the metrics of the patterns that some records have and others lack."""
    return [lack for cell in pairs for name in _names(cell, patterns) for lack in _gaps(cell, name)]


def _names(cell: Pairs, patterns: Sequence[str]) -> list[str]:
    """Return every metric that some record of either side has as a finite number."""
    records = [*cell.a, *cell.b]
    final = dict.fromkeys(name for record in records for name in record.metrics)
    last = [record.epochs[-1].metrics for record in records if record.epochs]
    traced = dict.fromkeys(name for metrics in last for name in metrics if "/" in name and name not in final)
    names = [
        *(name for name in final if _fits(name, patterns)),
        *(LAST_EPOCH + name for name in traced if _fits(name, patterns)),
    ]
    return [name for name in names if not all(isinstance(read(record, name), Gap) for record in records)]


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _gaps(cell: Pairs, metric: str) -> list[Lack]:
    """Return where a metric is no number: an entry for each side and reason."""
    found: dict[tuple[str, str], list[int]] = {}
    for side, records in (("A", cell.a), ("B", cell.b)):
        for seed, record in zip(cell.seeds, records, strict=True):
            value = read(record, metric)
            if isinstance(value, Gap):
                found.setdefault((side, value.reason), []).append(seed)
    return [Lack(cell.cell, metric, side, tuple(seeds), reason) for (side, reason), seeds in found.items()]
