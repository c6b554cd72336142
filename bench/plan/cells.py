"""What would run: a selection of approaches, recipes, protocols and seeds as cells with keys, and how long it takes."""

from __future__ import annotations

import dataclasses
import heapq
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.core.canonical import digest
from bench.core.errors import BenchError, BrokenApproach, ConfigError, MissingFramework, unknown_name
from bench.core.precision import check_precision
from bench.core.reasons import OTHER_LOAD, Reason, told
from bench.core.records import Naming, Number, Record
from bench.data.manifest import data_hashes
from bench.plan.recipes import Profile, build, profile, resolve
from bench.plan.registry import Manifest, manifest, manifests
from bench.plan.versions import METRICS_VERSION, PROTOCOL_VERSION

PROTOCOLS = ("published", "common")
CELLS = (("published", "published"), ("published", "common"), ("corrected", "common"))
TRAINING_FILES = "mnist/train-"
# Other load slows a fit and the products before it alike, so that scaling by their rate still brings the fit's time
# nearer to that of a quiet machine: 88 records beside quiet ones of their cells were 58 % too long and then 14 % too
# short (geometric means). But the products take a tenth of a second, which a burst can stretch a hundredfold, and a fit
# takes minutes: those fits took 0.9 to 3.8 times their time.
UNDER_LOAD = (1 / 3, 3.0)
_KINDS: dict[type[BenchError], str] = {MissingFramework: "no-framework", BrokenApproach: "broken-approach"}


@dataclass(frozen=True)
class Cell:
    """One approach x recipe x protocol with one seed: what a record is about."""

    approach: str
    recipe: str
    protocol: str
    profile: str
    seed: int
    device: str
    precision: str
    split: str
    fit_key: str
    key: str
    values: Mapping[str, Any]  # every field of the approach, or only the recipe's where its framework is missing
    corrections: tuple[str, ...]
    skip: Reason | None = None  # why it cannot run here
    batched: bool = False  # fitted in one computation with other seeds
    family: str = ""  # what its other seeds share with it, where they can be fitted together
    twin_keys: tuple[str, str] | None = None  # fit_key and key of the same cell fitted the other way

    def twin(self) -> Cell:
        """Return the same cell fitted the other way: together with other seeds, or by itself."""
        assert self.twin_keys is not None, "a cell of a family has a twin"
        fit_key, key = self.twin_keys
        keys = (self.fit_key, self.key)
        return dataclasses.replace(self, fit_key=fit_key, key=key, twin_keys=keys, batched=not self.batched)

    @property
    def identity(self) -> str:
        """Return one key for the cell and its twin."""
        return self.key if self.twin_keys is None else min(self.key, self.twin_keys[1])

    @property
    def lock_key(self) -> str:
        """Return one key for the fit and its twin: at most one process works on either."""
        return self.fit_key if self.twin_keys is None else min(self.fit_key, self.twin_keys[0])

    def naming(self) -> Naming:
        """Return the fields that name the record; which one of several GPUs it was is no part of the name."""
        return Naming(
            approach=self.approach,
            recipe=self.recipe,
            protocol=self.protocol,
            profile=self.profile,
            seed=self.seed,
            device=self.device.split(":")[0],
            precision=self.precision,
            fit_key=self.fit_key,
            key=self.key,
        )

    def title(self) -> str:
        """Return the cell's name for people."""
        return f"{self.approach} {self.recipe} x {self.protocol}, seed {self.seed}"


@dataclass(frozen=True)
class Selection:
    """What the user asked for."""

    approaches: tuple[str, ...] = ()  # empty: all
    recipes: tuple[str, ...] = ()  # empty: those of the three cells and the variants marked in_all
    protocols: tuple[str, ...] = ()  # empty: those of the three cells
    seeds: tuple[int, ...] = (0,)
    profile: str = "full"
    device: str = "cpu"
    precision: str = "float32"
    apart: bool = False  # fit every seed by itself


def cells(selection: Selection) -> list[Cell]:
    """Return the selected cells, those of one fit together; raises ConfigError for anything unknown."""
    budget = profile(selection.profile)
    for protocol in selection.protocols:
        if protocol not in PROTOCOLS:
            raise unknown_name("protocol", protocol, PROTOCOLS)
    check_precision(selection.precision, selection.device)
    if any(seed < 0 for seed in selection.seeds):
        raise ConfigError(f"seed {min(selection.seeds)} is negative; give seeds from 0")
    names = selection.approaches or tuple(manifests())
    chosen = [manifest(name) for name in dict.fromkeys(names)]
    found = [
        _cell(entry, recipe, protocol, seed, budget, selection)
        for entry in chosen
        for seed in selection.seeds
        for recipe, protocol in _pairs(entry, selection)
    ]
    if not found:
        raise ConfigError("the selection holds no cell; see `python -m bench list` for recipes and protocols")
    return found


def _pairs(entry: Manifest, selection: Selection) -> list[tuple[str, str]]:
    pairs = [(recipe, protocol) for recipe, protocol in CELLS if recipe in entry.recipes]
    pairs += [(f"published+{name}", "common") for name, change in entry.changes.items() if change.in_all]
    if not entry.document:
        pairs = [(recipe, protocol) for recipe, protocol in pairs if protocol == "common"]
    if selection.recipes:
        for recipe in selection.recipes:
            resolve(entry, recipe)
        protocols = selection.protocols or PROTOCOLS
        return [
            (recipe, protocol)
            for recipe in dict.fromkeys(selection.recipes)
            for protocol in protocols
            if entry.document or protocol == "common"
        ]
    return [pair for pair in pairs if not selection.protocols or pair[1] in selection.protocols]


def _cell(entry: Manifest, recipe_name: str, protocol: str, seed: int, budget: Profile, selection: Selection) -> Cell:
    recipe = resolve(entry, recipe_name)
    skip = None
    try:
        values = dataclasses.asdict(build(entry, recipe, budget))
    except BenchError as error:
        if not (isinstance(error, MissingFramework) or entry.module):
            raise
        # An approach from outside that is broken must not stop the others.
        values, skip = dict(recipe.values), told(_KINDS.get(type(error), "unsupported"), error)
    if entry.cpu_float32_only and (selection.precision != "float32" or selection.device != "cpu"):
        skip = Reason("cpu-float32-only", {"approach": entry.name, "why": entry.cpu_float32_only})
    hashes = data_hashes()
    shared = {
        "approach": entry.name,
        "values": values,
        "split": recipe.split,
        "data": _matching(hashes, TRAINING_FILES) if entry.task == "mnist" else {},
        "steps_per_epoch": budget.steps_per_epoch,
        "precision": selection.precision,
        "device": selection.device.split(":")[0],
    }

    def keys(batched: bool) -> tuple[str, str]:
        fit_key = digest({**shared, "seed": seed, "batched": batched})
        measured = {
            "fit": fit_key,
            "recipe": recipe_name,
            "protocol": protocol,
            "rows": budget.common_rows if protocol == "common" else budget.rows,
            "draws": budget.draws,
            "data": {name: hashes[name] for name in hashes if not name.startswith(TRAINING_FILES)},
            "version": [PROTOCOL_VERSION, METRICS_VERSION],
        }
        return fit_key, digest(measured)

    fit_key, key = keys(batched=False)
    together = "fit_many" in entry.capabilities and not selection.apart and not skip
    return Cell(
        approach=entry.name,
        recipe=recipe_name,
        protocol=protocol,
        profile=budget.name,
        seed=seed,
        device=selection.device,
        precision=selection.precision,
        split=recipe.split,
        fit_key=fit_key,
        key=key,
        values=values,
        corrections=recipe.changes,
        skip=skip,
        family=digest(shared) if together else "",
        twin_keys=keys(batched=True) if together else None,
    )


def _matching(hashes: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name: value for name, value in hashes.items() if name.startswith(prefix)}


@dataclass(frozen=True)
class Estimate:
    """Expected seconds of a cell, and what the estimate is based on."""

    fit_s: float | None
    measure_s: float | None
    basis: str


def estimate(cell: Cell, records: Sequence[Record], rate: float | None = None, source: str | None = None) -> Estimate:
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
        return Estimate(None, None, "no record of this approach, device and precision to learn from")
    epochs = cell.values.get("epochs", 0)
    per_epoch = _median(_scaled(record, record.timings.epoch_with_measuring_s, rate) for record in training)
    return Estimate(
        0.0 if epochs == 0 else None if per_epoch is None else per_epoch * epochs,
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
