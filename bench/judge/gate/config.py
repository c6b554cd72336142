"""What is gated, as data: `results/reference/gate.toml`, read and checked; anything doubtful in it is an error."""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.core.errors import BenchError, ConfigError
from bench.core.project import REFERENCE
from bench.plan.cells import PROTOCOLS, Cell, Selection, cells
from bench.plan.recipes import PROFILES, resolve
from bench.plan.registry import manifest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

GATE = REFERENCE / "gate.toml"
SCHEMA = 1
LEAST_REFERENCE = 8  # seeds: with fewer, t(k - 1) at Holm's levels hides any fault
LEAST_FRESH = 2  # seeds: one cannot agree with another
TRAIN = "{train}"  # in a metric's key: the recipe's training split


@dataclass(frozen=True)
class GatedMetric:
    """One number of a cell, with the difference that would matter and why that one."""

    key: str  # of the record's metrics; "last epoch/KEY" of its training trace
    margin: float
    reason: str


@dataclass(frozen=True)
class GatedCell:
    """One cell, its metrics, and how many fresh seeds it gets."""

    approach: str
    recipe: str
    protocol: str
    n_seeds: int
    metrics: tuple[GatedMetric, ...]

    @property
    def name(self) -> str:
        """Return the cell's name in files and reports."""
        return f"{self.approach}/{self.recipe}/{self.protocol}"

    @property
    def split(self) -> str:
        """Return the name of the training split."""
        return resolve(manifest(self.approach), self.recipe).split


@dataclass(frozen=True)
class Waiver:
    """Leave for a cell to be missing, or for some of its seeds to diverge, up to and including a day."""

    cell: str
    until: datetime.date
    reason: str
    diverged: tuple[int, ...] = ()  # seeds of the reference that did, as fresh ones then may; (): may be missing


@dataclass(frozen=True)
class Gate:
    """The whole file."""

    profile: str
    device: str
    precision: str
    alpha: float  # chance of any false alarm, at most
    reference_seeds: int  # fewest
    fresh_seeds: tuple[int, ...]
    limit_s: float  # seconds that a fresh run should take at most
    cells: tuple[GatedCell, ...]
    repeat_seed: int  # a seed of the reference
    repeated: tuple[str, ...]  # names of cells that are trained twice with it
    splits: Mapping[str, str]  # "SPLIT/SEED", or "SPLIT" where no seed matters: SHA-256
    waivers: tuple[Waiver, ...]

    @property
    def n_tests(self) -> int:
        """Return over how many p-values Holm's procedure runs: those of the metrics and of waived divergences."""
        return sum(len(cell.metrics) for cell in self.cells) + sum(bool(waiver.diverged) for waiver in self.waivers)

    def cell(self, name: str) -> GatedCell:
        """Return a gated cell by name."""
        return next(cell for cell in self.cells if cell.name == name)

    def seeds_of(self, cell: GatedCell) -> tuple[int, ...]:
        """Return the fresh seeds of a cell."""
        return self.fresh_seeds[: cell.n_seeds]

    def planned(self, cell: GatedCell, seeds: Sequence[int], apart: bool = False) -> list[Cell]:
        """Return the cell as today's code would run it, one a seed."""
        return cells(
            Selection(
                approaches=(cell.approach,),
                recipes=(cell.recipe,),
                protocols=(cell.protocol,),
                seeds=tuple(seeds),
                profile=self.profile,
                device=self.device,
                precision=self.precision,
                apart=apart,
            )
        )


def load_gate(path: Path = GATE) -> Gate:
    """Read and check a gate file; raises ConfigError that names the file, the place and what is allowed."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"gate file {path} cannot be read: {error}") from error
    try:
        return _gate(_Table(raw, f"gate file {path.name}"))
    except ConfigError:
        raise
    except BenchError as error:
        raise ConfigError(f"gate file {path.name}: {error}") from error


class _Table:
    """A TOML table whose values are taken one by one, each checked; what is left over is an error."""

    def __init__(self, raw: Any, where: str) -> None:
        self.where = where
        if not isinstance(raw, dict):
            raise ConfigError(f"{where}: {raw!r} is no table")
        self._raw = dict(raw)

    def take(self, key: str, kind: type | tuple[type, ...], allowed: str, default: Any = None) -> Any:
        """Return a value of the right type, or raise ConfigError."""
        value = self._raw.pop(key, default)
        good = isinstance(value, kind) and not (isinstance(value, bool))
        if not good or (isinstance(value, float) and not math.isfinite(value)):
            raise self.error(key, value, allowed)
        return value

    def text(self, key: str) -> str:
        """Return a text that says something."""
        value: str = self.take(key, str, "a text")
        if not value.strip():
            raise self.error(key, value, "a text")
        return value

    def number(self, key: str, low: float, high: float = math.inf) -> float:
        """Return a number within limits."""
        value = float(self.take(key, (int, float), f"a number from {low:g}"))
        if not low <= value <= high:
            raise self.error(key, value, f"a number from {low:g} to {high:g}")
        return value

    def whole(self, key: str, low: int, default: Any = None) -> int:
        """Return a whole number from `low`."""
        value: int = self.take(key, int, f"a whole number from {low}", default)
        if value < low:
            raise self.error(key, value, f"a whole number from {low}")
        return value

    def tables(self, key: str, default: Any = None) -> list[_Table]:
        """Return the tables of a list."""
        rows = self.take(key, list, "a list of tables", default)
        return [_Table(row, f"{self.where}, {key} {number}") for number, row in enumerate(rows, start=1)]

    def error(self, key: str, value: Any, allowed: str) -> ConfigError:
        """Make the error for a value."""
        return ConfigError(f"{self.where}, {key}: {'nothing' if value is None else repr(value)} given; give {allowed}")

    def end(self) -> None:
        """Raise ConfigError if anything is left that nobody asked for."""
        if self._raw:
            raise ConfigError(f"{self.where}: unknown key(s) {', '.join(sorted(self._raw))}")


def _gate(table: _Table) -> Gate:
    if table.take("schema", int, str(SCHEMA)) != SCHEMA:
        raise ConfigError(f"{table.where}, schema: this version reads {SCHEMA}")
    if (profile := table.text("profile")) not in PROFILES:
        raise table.error("profile", profile, f"one of {', '.join(PROFILES)}")
    seeds = table.take("fresh_seeds", list, "a list of seeds")
    if not all(isinstance(seed, int) and seed >= 0 for seed in seeds) or len({*seeds}) < max(LEAST_FRESH, len(seeds)):
        raise table.error("fresh_seeds", seeds, f"at least {LEAST_FRESH} different seeds from 0")
    gated = [cell for row in table.tables("gated") for cell in _cells(row, len(seeds))]
    names = [cell.name for cell in gated]
    if not gated or len({*names}) < len(names):
        raise table.error("gated", names, "at least one cell, each once")
    repeat = _Table(table.take("repeat", dict, "a table with seed and cells"), f"{table.where}, repeat")
    gate = Gate(
        profile=profile,
        device=table.text("device"),
        precision=table.text("precision"),
        alpha=table.number("alpha", 1e-6, 0.5),
        reference_seeds=table.whole("reference_seeds", LEAST_REFERENCE),
        fresh_seeds=tuple(seeds),
        limit_s=table.number("limit_s", 1),
        cells=tuple(gated),
        repeat_seed=repeat.whole("seed", 0),
        repeated=_known(repeat, "cells", names),
        splits=_hashes(table),
        waivers=tuple(_waiver(row, names, seeds) for row in table.tables("waiver", [])),
    )
    if gate.repeat_seed in gate.fresh_seeds:
        raise repeat.error("seed", gate.repeat_seed, "a seed of the reference, which no fresh seed is")
    repeat.end()
    table.end()
    for cell in gate.cells:
        gate.planned(cell, gate.seeds_of(cell))  # raises ConfigError on a recipe, device or precision that is unknown
    return gate


def _cells(row: _Table, most: int) -> list[GatedCell]:
    approach, protocol = row.text("approach"), row.text("protocol")
    manifest(approach)
    if protocol not in PROTOCOLS:
        raise row.error("protocol", protocol, " or ".join(PROTOCOLS))
    n_seeds = row.whole("seeds", LEAST_FRESH, most)
    if n_seeds > most:
        raise row.error("seeds", n_seeds, f"at most {most}, the number of fresh seeds")
    metrics = tuple(_metric(metric) for metric in row.tables("metrics"))
    if not metrics or len({metric.key for metric in metrics}) < len(metrics):
        raise row.error("metrics", [metric.key for metric in metrics], "at least one metric, each once")
    recipes = row.take("recipes", list, "a list of recipes")
    row.end()
    if not recipes:
        raise row.error("recipes", recipes, "at least one recipe")
    return [GatedCell(approach, str(recipe), protocol, n_seeds, metrics) for recipe in recipes]


def _metric(row: _Table) -> GatedMetric:
    metric = GatedMetric(row.text("key"), row.number("margin", 0), row.text("reason"))
    row.end()
    return metric


def _waiver(row: _Table, names: Sequence[str], fresh_seeds: Sequence[int]) -> Waiver:
    until = row.take("until", datetime.date, "a date such as 2030-01-31")
    diverged = row.take("diverged", list, "a list of seeds", [])
    waiver = Waiver(row.text("cell"), until, row.text("reason"), tuple(diverged))
    if not all(isinstance(seed, int) and seed >= 0 and seed not in fresh_seeds for seed in diverged):
        raise row.error("diverged", diverged, "seeds of the reference, which no fresh seed is")
    if isinstance(waiver.until, datetime.datetime):
        raise row.error("until", waiver.until, "a date without a time")
    if waiver.cell not in names:
        raise row.error("cell", waiver.cell, "the name of a gated cell")
    row.end()
    return waiver


def _known(table: _Table, key: str, names: Sequence[str]) -> tuple[str, ...]:
    found = table.take(key, list, "a list of gated cells")
    if not found or any(name not in names for name in found):
        raise table.error(key, found, "names of gated cells")
    return tuple(found)


def _hashes(table: _Table) -> dict[str, str]:
    found: dict[str, str] = table.take("splits", dict, "a table of SHA-256 by split")
    for name, value in found.items():
        if not isinstance(value, str) or len(value) != 64:
            raise table.error(f"splits, {name}", value, "a SHA-256 of 64 digits")
    return found
