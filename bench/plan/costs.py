"""What cells cost: predicted from records of the same approach, device and precision."""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from bench.core import environment
from bench.core.project import RESULTS
from bench.core.reasons import OTHER_LOAD
from bench.core.records import Number, Record
from bench.core.store import Store
from bench.plan.cells import Cell
from bench.plan.recipes import profile
from bench.plan.registry import source_files

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


def estimates(chosen: Sequence[Cell], records: Sequence[Record], threads: int | None = None) -> dict[str, CostEstimate]:
    """Return by key what cells, fitted either way, are expected to cost here.

    By a folder's own records where they tell; else also by those that come with the repository.
    """
    import torch  # here: who only counts cells does without

    from bench.core.timing import matmul_rate

    is_here = chosen[0].device == "cpu" or torch.cuda.is_available()  # a cluster may have what this machine lacks
    device = torch.device(chosen[0].device)
    rate = matmul_rate(device, threads or torch.get_num_threads()) if is_here else None
    sources = {name: environment.source_hash(source_files(name)) for name in {cell.approach for cell in chosen}}
    committed = cache(_committed)  # read where they are needed, and not kept for as long as a run lasts

    def expected(cell: Cell) -> CostEstimate:
        own = estimate(cell, records, rate, sources[cell.approach])
        if None not in (own.fit_s, own.measure_s):
            return own
        return estimate(cell, [*records, *committed()], rate, sources[cell.approach])

    both = [*chosen, *(cell.twin() for cell in chosen if cell.family)]
    return {cell.key: expected(cell) for cell in both}


def _committed() -> list[Record]:
    """Return the records that come with the repository, to learn costs from where a results folder tells none."""
    return Store(RESULTS).all_records()[0]


def estimate(
    cell: Cell, records: Sequence[Record], rate: float | None = None, source: str | None = None
) -> CostEstimate:
    """Predict a cell's cost from the best records of its approach, device and precision, whatever their seeds.

    Best are those made by today's code, whose times count, of the same recipe, in this order; where there are none,
    the next best, and the basis says so.

    Args:
        cell: what would run.
        records: what is known.
        rate: this machine's rate of matrix products; times are scaled by it where a record knows its own.
        source: hash of the approach's code of today; None takes all records for its work.
    """
    same = (cell.approach, cell.naming().device, cell.precision)
    alike = [
        record
        for record in records
        if record.outcome == "done" and (record.approach, record.device, record.precision) == same
    ]
    training = _best(cell, _trained_alike(cell, alike), source)
    measuring = _best(cell, _measured_alike(cell, alike), source)
    if not training:
        return CostEstimate(None, None, "no record of this approach, device and precision to learn from")
    per_epoch = _median(_scaled(record, record.timings.epoch_with_measuring_s, rate) for record in training)
    return CostEstimate(
        0.0 if cell.epochs == 0 else None if per_epoch is None else per_epoch * cell.epochs,
        _median(_scaled(record, record.timings.measure_s, rate) for record in measuring),
        _basis(cell, training, rate, source),
    )


def time_for(jobs: Sequence[float], at_once: int) -> float:
    """Return the seconds that jobs take of which so many run at a time, each begun in turn as soon as there is room."""
    ends = [0.0] * max(1, min(at_once, len(jobs)))
    for seconds in jobs:
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)


def _trained_alike(cell: Cell, records: Sequence[Record]) -> list[Record]:
    """Return the records whose training time tells that of the cell.

    A seed's share of a batch says nothing of a fit by itself; the reverse is where to start from: seeds together cost
    no more than one after the other.
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


def _flaws(cell: Cell, record: Record, source: str | None) -> tuple[str, ...]:
    """Return what makes a record a worse guide to a cell's cost, the worst first; '' where it is as good as it gets."""
    of_recipe = record.recipe == cell.recipe
    is_share = cell.batched and record.timings.batched is not None  # which never counts as a time, but is what is asked
    of_today = source is None or record.provenance.source_sha256 == source
    return (
        "" if of_today else "made by older code",
        "" if record.timings.valid or is_share else "whose times do not count",
        "" if of_recipe else f"of recipe {record.recipe}",
    )


def _best(cell: Cell, records: Sequence[Record], source: str | None) -> list[Record]:
    ranks = [tuple(map(bool, _flaws(cell, record, source))) for record in records]
    return [record for record, rank in zip(records, ranks, strict=True) if rank == min(ranks)]


def _basis(cell: Cell, records: Sequence[Record], rate: float | None, source: str | None) -> str:
    parts = [f"{len(records)} record(s) on {records[0].provenance.cpu}", *_flaws(cell, records[0], source)]
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
