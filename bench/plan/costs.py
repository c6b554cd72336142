"""Predict how long trained runs take, from records of the same approach, device and precision."""

from __future__ import annotations

import heapq
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from bench.core.environment import busy_cores
from bench.core.project import RESULTS
from bench.core.reasons import OTHER_LOAD
from bench.core.records import Record, StoredNumber
from bench.core.store import Store
from bench.core.text import counted
from bench.plan.freshness import is_stale
from bench.plan.recipes import is_profile, profile
from bench.plan.trained_runs import TrainedRun

# Bounds of the scaling factor for records made under other load, which slows the fit and the matrix products that are
# timed before it. Scaling by the rate of the products helps: the fits of 88 records made under load were 58 % too long
# before scaling and 14 % too short after it, against the same trained runs on a quiet machine (geometric means). But a
# burst of load can make the products, which take a tenth of a second, a hundred times as slow, while the fits took only
# 0.9 to 3.8 times as long as on the quiet machine. So the factor is bounded.
UNDER_LOAD = (1 / 3, 3.0)


@dataclass(frozen=True)
class CostEstimate:
    """Expected seconds of a trained run, and the records behind the estimate."""

    fit_s: float | None
    measure_s: float | None
    basis: str
    is_shipped: bool = False  # the user's records were not enough


@dataclass(frozen=True)
class Speed:
    """How fast this machine is now."""

    rate: float | None  # of matrix products; None if other load disturbs it
    busy_cores: float | None = None  # cores that other processes keep busy, if too few are left


def speed_here(device_name: str, threads: int | None = None) -> Speed:
    """Measure this machine's speed on a device. On a busy machine the rate is None, because the load may end soon."""
    import torch  # here: it takes seconds, and counting trained runs does not need it

    from bench.core.timing import matmul_rate

    device, threads = torch.device(device_name), threads or torch.get_num_threads()
    if device.type != "cpu":
        return Speed(matmul_rate(device, threads) if torch.cuda.is_available() else None)  # None: a cluster has the GPU
    busy = busy_cores(threads)
    return Speed(matmul_rate(device, threads) if busy is None else None, busy)


def estimates(chosen: Sequence[TrainedRun], records: Sequence[Record], speed: Speed) -> dict[str, CostEstimate]:
    """Return the costs of trained runs on a machine of this speed, by key.

    Seeds that can be trained together count as trained together if at least two of them are chosen.

    The estimates come from `records`. If these are not enough, the records that come with the suite are added.
    """
    approaches = {trained_run.approach for trained_run in chosen}
    committed = cache(lambda: Store(RESULTS).records_of(approaches)[0])  # read only if needed, and freed on return
    n_seeds = Counter(
        together for _, together in {(trained_run.fit_key, trained_run.together) for trained_run in chosen}
    )

    def expected(trained_run: TrainedRun) -> CostEstimate:
        in_batch = bool(trained_run.together) and n_seeds[trained_run.together] > 1
        own = estimate(trained_run, records, speed.rate, in_batch)
        if None not in (own.fit_s, own.measure_s):
            return own
        return replace(estimate(trained_run, [*records, *committed()], speed.rate, in_batch), is_shipped=True)

    return {trained_run.key: expected(trained_run) for trained_run in chosen}


def estimate(
    trained_run: TrainedRun, records: Sequence[Record], rate: float | None = None, in_batch: bool = False
) -> CostEstimate:
    """Predict a trained run's cost from the best records of its approach, device and precision, whatever their seeds.

    A record is better if it was made at today's versions; among equal ones, if its times count; then, if it has the
    same recipe. The estimate's `basis` says what the best records lack.

    Args:
        trained_run: the trained run.
        records: the known records.
        rate: this machine's rate of matrix products; the times of a record with a rate of its own are scaled by it.
        in_batch: whether the seed is trained together with others.
    """
    same = (trained_run.approach, trained_run.naming().device, trained_run.precision)
    alike = [
        record
        for record in records
        if record.outcome == "done"
        and (record.approach, record.device, record.precision) == same
        and is_profile(record.profile)
    ]
    training = _best(trained_run, _trained_alike(trained_run, alike, in_batch), in_batch)
    measuring = _best(trained_run, _measured_alike(trained_run, alike), in_batch)
    if not training:
        return CostEstimate(None, None, "no record of this approach, device and precision to learn from")
    per_epoch = _median(_scaled(record, record.timings.epoch_with_measuring_s, rate) for record in training)
    return CostEstimate(
        0.0 if trained_run.epochs == 0 else None if per_epoch is None else per_epoch * trained_run.epochs,
        _median(_scaled(record, record.timings.measure_s, rate) for record in measuring),
        _basis(trained_run, training, rate, in_batch),
    )


def seconds_of(chosen: Iterable[TrainedRun], costs: Mapping[str, CostEstimate]) -> float | None:
    """Return the seconds that trained runs take one after the other, each fit once; None if one has no estimate.

    Args:
        chosen: the trained runs; those that cannot be done here take no time.
        costs: the costs of the trained runs that can be done here, by key.
    """
    total, fits = 0.0, set()
    for trained_run in chosen:
        if trained_run.skip:
            continue
        cost = costs[trained_run.key]
        if cost.fit_s is None or cost.measure_s is None:
            return None
        total += cost.measure_s + (0.0 if trained_run.fit_key in fits else cost.fit_s)
        fits.add(trained_run.fit_key)
    return total


def time_for(jobs: Sequence[float], at_once: int) -> float:
    """Return the seconds that jobs take if `at_once` of them run at a time and the next starts when one ends."""
    ends = [0.0] * max(1, min(at_once, len(jobs)))
    for seconds in jobs:
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)


def _trained_alike(trained_run: TrainedRun, records: Sequence[Record], in_batch: bool) -> list[Record]:
    """Return the records that predict the trained run's training time.

    For a seed fitted alone, times of seeds fitted together do not count. For a seed fitted with others, the time of a
    seed alone is an upper bound, and is used only if there is no time of seeds together.
    """
    steps = profile(trained_run.profile).steps_per_epoch
    alike = [record for record in records if profile(record.profile).steps_per_epoch == steps]
    alone = [record for record in alike if record.timings.batched is None]
    together = [record for record in alike if record.timings.batched is not None]
    return (together or alone) if in_batch else alone


def _measured_alike(trained_run: TrainedRun, records: Sequence[Record]) -> list[Record]:
    """Return the records with the trained run's protocol, number of rows and number of draws."""
    return [
        record
        for record in records
        if record.protocol == trained_run.protocol
        and _extent(record.profile, trained_run.protocol) == _extent(trained_run.profile, trained_run.protocol)
    ]


def _extent(name: str, protocol: str) -> tuple[int | None, ...]:
    found = profile(name)
    return (found.rows,) if protocol == "published" else (found.common_rows, found.draws)


def _flaws(trained_run: TrainedRun, record: Record, in_batch: bool) -> tuple[str, ...]:
    """Return three reasons why a record may predict a cost badly, the worst first; '' where one is not so."""
    are_both_together = in_batch and record.timings.batched is not None  # then the time does count
    return (
        "made at other versions" if is_stale(record) else "",
        "" if record.timings.valid or are_both_together else "whose times do not count",
        "" if record.recipe == trained_run.recipe else f"of recipe {record.recipe}",
    )


def _best(trained_run: TrainedRun, records: Sequence[Record], in_batch: bool) -> list[Record]:
    ranks = [tuple(map(bool, _flaws(trained_run, record, in_batch))) for record in records]
    return [record for record, rank in zip(records, ranks, strict=True) if rank == min(ranks)]


def _basis(trained_run: TrainedRun, records: Sequence[Record], rate: float | None, in_batch: bool) -> str:
    parts = [
        f"{counted(len(records), 'record')} on {records[0].provenance.cpu}",
        *_flaws(trained_run, records[0], in_batch),
    ]
    factors = [_factor(record, rate) for record in records]
    if any(factor != 1 for factor in factors):
        parts.append(f"times {statistics.median(factors):.2f} for this machine's speed")
    return ", ".join(filter(None, parts))


def _factor(record: Record, rate: float | None) -> float:
    """Return how many times slower this machine is than the record's; bounded if the record was made under load."""
    then = record.provenance.matmul_rate
    if not then or not rate:
        return 1.0
    had_other_load = any(reason.kind == OTHER_LOAD for reason in record.timings.reasons)
    lowest, highest = UNDER_LOAD if had_other_load else (0.0, math.inf)
    return float(min(max(then / rate, lowest), highest))


def _scaled(record: Record, seconds: StoredNumber, rate: float | None) -> float | None:
    return None if seconds is None else seconds * _factor(record, rate)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median_low(known) if known else None  # of two the shorter: the longer one may have had to wait
