"""What cells cost: predicted from records of the same approach, device and precision."""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from bench.core.load import busy_cores
from bench.core.project import RESULTS
from bench.core.reasons import OTHER_LOAD
from bench.core.records import Number, Record
from bench.core.store import Store
from bench.plan.cells import Cell
from bench.plan.freshness import is_stale
from bench.plan.recipes import profile

# Other load slows a fit and the products before it alike, so that scaling by their rate still brings the fit's time
# nearer to that of a quiet machine: 88 records beside quiet ones of their cells were 58 % too long and then 14 % too
# short (geometric means). But the products take a tenth of a second, which a burst can stretch a hundredfold, and a fit
# takes minutes: those fits took 0.9 to 3.8 times their time.
UNDER_LOAD = (1 / 3, 3.0)


@dataclass(frozen=True)
class CostEstimate:
    """Expected seconds of a cell, and what the estimate is based on."""

    fit_s: float | None
    measure_s: float | None
    basis: str


@dataclass(frozen=True)
class Speed:
    """How fast this machine is now."""

    rate: float | None  # of matrix products; None where it says nothing of a quiet machine
    busy_cores: float | None = None  # that other processes keep busy, if too few are left


def speed_here(device_name: str, threads: int | None = None) -> Speed:
    """Measure this machine's speed on a device; on a busy machine there is no rate, as the load ends one day."""
    import torch  # here: who only counts cells does without

    from bench.core.timing import matmul_rate

    device, threads = torch.device(device_name), threads or torch.get_num_threads()
    if device.type != "cpu":
        return Speed(matmul_rate(device, threads) if torch.cuda.is_available() else None)  # a cluster may have one
    busy = busy_cores(threads)
    return Speed(matmul_rate(device, threads) if busy is None else None, busy)


def estimates(chosen: Sequence[Cell], records: Sequence[Record], speed: Speed) -> dict[str, CostEstimate]:
    """Return what cells cost on a machine of this speed, by key: fitted alone, and together with other seeds.

    The folder's own records tell it. If they cannot, the records of the repository are used too.
    """
    committed = cache(_committed)  # read where they are needed, and not kept for as long as a run lasts

    def expected(cell: Cell) -> CostEstimate:
        own = estimate(cell, records, speed.rate)
        if None not in (own.fit_s, own.measure_s):
            return own
        return estimate(cell, [*records, *committed()], speed.rate)

    both = [*chosen, *(cell.twin() for cell in chosen if cell.family)]
    return {cell.key: expected(cell) for cell in both}


def _committed() -> list[Record]:
    """Return the records that come with the repository, to learn costs from where a results folder tells none."""
    return Store(RESULTS).all_records()[0]


def estimate(cell: Cell, records: Sequence[Record], rate: float | None = None) -> CostEstimate:
    """Predict a cell's cost from the best records of its approach, device and precision, whatever their seeds.

    A record is better if it was made at today's versions, then if its times count, then if it is of the same recipe.
    The basis says what the best records lack.

    Args:
        cell: what would run.
        records: what is known.
        rate: this machine's rate of matrix products; times are scaled by it where a record knows its own.
    """
    same = (cell.approach, cell.naming().device, cell.precision)
    alike = [
        record
        for record in records
        if record.outcome == "done" and (record.approach, record.device, record.precision) == same
    ]
    training = _best(cell, _trained_alike(cell, alike))
    measuring = _best(cell, _measured_alike(cell, alike))
    if not training:
        return CostEstimate(None, None, "no record of this approach, device and precision to learn from")
    per_epoch = _median(_scaled(record, record.timings.epoch_with_measuring_s, rate) for record in training)
    return CostEstimate(
        0.0 if cell.epochs == 0 else None if per_epoch is None else per_epoch * cell.epochs,
        _median(_scaled(record, record.timings.measure_s, rate) for record in measuring),
        _basis(cell, training, rate),
    )


def time_for(jobs: Sequence[float], at_once: int) -> float:
    """Return the seconds that jobs take, `at_once` at a time, if each starts as soon as there is room."""
    ends = [0.0] * max(1, min(at_once, len(jobs)))
    for seconds in jobs:
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)


def _trained_alike(cell: Cell, records: Sequence[Record]) -> list[Record]:
    """Return the records whose training time tells that of the cell.

    A seed's share of a batch does not tell what a fit of one seed costs. What a fit of one seed costs is an upper
    bound for a seed of a batch.
    """
    steps = profile(cell.profile).steps_per_epoch
    alike = [record for record in records if profile(record.profile).steps_per_epoch == steps]
    alone = [record for record in alike if record.timings.batched is None]
    together = [record for record in alike if record.timings.batched is not None]
    return (together or alone) if cell.batched else alone


def _measured_alike(cell: Cell, records: Sequence[Record]) -> list[Record]:
    """Return the records that were measured by the cell's protocol on as many rows with as many draws."""
    return [
        record
        for record in records
        if record.protocol == cell.protocol
        and _extent(record.profile, cell.protocol) == _extent(cell.profile, cell.protocol)
    ]


def _extent(name: str, protocol: str) -> tuple[int | None, ...]:
    found = profile(name)
    return (found.common_rows, found.draws) if protocol == "common" else (found.rows,)


def _flaws(cell: Cell, record: Record) -> tuple[str, ...]:
    """Return what makes a record a worse guide to a cell's cost, the worst first; '' where it is as good as it gets."""
    of_recipe = record.recipe == cell.recipe
    is_share = cell.batched and record.timings.batched is not None  # a share does not count as a time; it is asked for
    return (
        "made at other versions" if is_stale(record) else "",
        "" if record.timings.valid or is_share else "whose times do not count",
        "" if of_recipe else f"of recipe {record.recipe}",
    )


def _best(cell: Cell, records: Sequence[Record]) -> list[Record]:
    ranks = [tuple(map(bool, _flaws(cell, record))) for record in records]
    return [record for record, rank in zip(records, ranks, strict=True) if rank == min(ranks)]


def _basis(cell: Cell, records: Sequence[Record], rate: float | None) -> str:
    parts = [f"{len(records)} record(s) on {records[0].provenance.cpu}", *_flaws(cell, records[0])]
    factors = [_factor(record, rate) for record in records]
    if any(factor != 1 for factor in factors):
        parts.append(f"times {statistics.median(factors):.2f} for this machine's speed")
    return ", ".join(filter(None, parts))


def _factor(record: Record, rate: float | None) -> float:
    """Return how much slower this machine is than that of the record was; bounded where other load was there."""
    then = record.provenance.matmul_rate
    if not then or not rate:
        return 1.0
    lowest, highest = UNDER_LOAD if _had_other_load(record) else (0.0, math.inf)
    return float(min(max(then / rate, lowest), highest))


def _had_other_load(record: Record) -> bool:
    return any(reason.kind == OTHER_LOAD for reason in record.timings.reasons)


def _scaled(record: Record, seconds: Number, rate: float | None) -> float | None:
    return None if seconds is None else seconds * _factor(record, rate)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
