"""Reads and checks `results/reference/gate.toml`, which says what is gated."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from bench.core.errors import BenchError, ConfigError, unknown_name
from bench.core.project import REFERENCE
from bench.core.toml import Sha256, Text, TomlTable, read_toml
from bench.plan.cells import Cell, Selection, cells
from bench.plan.recipes import profile, resolve
from bench.plan.registry import manifest

GATE = REFERENCE / "gate.toml"
LEAST_REFERENCE = 8  # seeds: with fewer, t(k - 1) at Holm's levels hides any fault
LEAST_FRESH = 2  # seeds: the exact checks compare seeds with each other
TRAIN = "{train}"  # in a metric's key: the recipe's training split

Seed = Annotated[int, Meta(ge=0)]


class GatedMetric(TomlTable, frozen=True):
    """One number of a cell, with the difference that would matter and the reason for it."""

    key: Text  # of the record's metrics; "last epoch/KEY" of its training trace
    margin: Annotated[float, Meta(ge=0)]
    reason: Text


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


class Waiver(TomlTable, frozen=True):
    """Permission for a cell to be missing, or for some of its seeds to diverge, up to and including a day."""

    cell: Text
    until: datetime.date
    reason: Text
    diverged: tuple[Seed, ...] = ()  # reference seeds that diverged: fresh ones may too; (): may be missing


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
        """Return how many p-values Holm's procedure adjusts: one a metric, one a waiver for seeds that diverge."""
        return sum(len(cell.metrics) for cell in self.cells) + sum(bool(waiver.diverged) for waiver in self.waivers)

    def cell(self, name: str) -> GatedCell:
        """Return a gated cell by name."""
        return next(cell for cell in self.cells if cell.name == name)

    def seeds_of(self, cell: GatedCell) -> tuple[int, ...]:
        """Return the fresh seeds of a cell."""
        return self.fresh_seeds[: cell.n_seeds]

    def planned(self, cell: GatedCell, seeds: Sequence[int], apart: bool = False) -> list[Cell]:
        """Return a cell as today's code would run it, once for each seed."""
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


class _Row(TomlTable, frozen=True):
    """Cells of one approach and protocol that are gated alike."""

    approach: Text
    recipes: Annotated[tuple[Text, ...], Meta(min_length=1)]
    protocol: Literal["published", "common"]
    metrics: Annotated[tuple[GatedMetric, ...], Meta(min_length=1)]
    seeds: Annotated[int, Meta(ge=LEAST_FRESH)] | None = None  # None: all fresh seeds

    def cells(self, most: int) -> list[GatedCell]:
        """Return the cells, one for each recipe, with at most so many seeds."""
        seeds = most if self.seeds is None else self.seeds
        return [GatedCell(self.approach, name, self.protocol, seeds, self.metrics) for name in self.recipes]


class _Repeat(TomlTable, frozen=True):
    seed: Seed
    cells: Annotated[tuple[Text, ...], Meta(min_length=1)]


class _File(TomlTable, frozen=True):
    """The file as it is written; `Gate` says what each field is."""

    schema: Literal[1]
    profile: Text
    device: Text
    precision: Text
    alpha: Annotated[float, Meta(ge=1e-6, le=0.5)]
    reference_seeds: Annotated[int, Meta(ge=LEAST_REFERENCE)]
    fresh_seeds: Annotated[tuple[Seed, ...], Meta(min_length=LEAST_FRESH)]
    limit_s: Annotated[float, Meta(ge=1)]
    gated: Annotated[tuple[_Row, ...], Meta(min_length=1)]
    repeat: _Repeat
    splits: dict[str, Sha256]
    waiver: tuple[Waiver, ...] = ()


def load_gate(path: Path = GATE) -> Gate:
    """Read and check a gate file; raises ConfigError that names the file, the place and what is allowed."""
    file = read_toml(path, _File, "gate file")
    gate = Gate(
        profile=file.profile,
        device=file.device,
        precision=file.precision,
        alpha=file.alpha,
        reference_seeds=file.reference_seeds,
        fresh_seeds=file.fresh_seeds,
        limit_s=file.limit_s,
        cells=tuple(cell for row in file.gated for cell in row.cells(len(file.fresh_seeds))),
        repeat_seed=file.repeat.seed,
        repeated=file.repeat.cells,
        splits=file.splits,
        waivers=file.waiver,
    )
    try:
        _check(gate)
    except BenchError as error:
        raise ConfigError(f"gate file {path}: {error}") from error
    return gate


def _check(gate: Gate) -> None:
    """Raise ConfigError for names that are not known, and for seeds and cells that do not go together."""
    profile(gate.profile)
    names = [cell.name for cell in gate.cells]
    _check_once("gated cell", names)
    _check_once("fresh seed", gate.fresh_seeds)
    for cell in gate.cells:
        _check_once(f"metric of {cell.name}", [metric.key for metric in cell.metrics])
        if cell.n_seeds > len(gate.fresh_seeds):
            raise ConfigError(f"{cell.name} asks for {cell.n_seeds} seeds; give at most {len(gate.fresh_seeds)}")
        gate.planned(cell, gate.seeds_of(cell))
    for name in (*gate.repeated, *(waiver.cell for waiver in gate.waivers)):
        if name not in names:
            raise unknown_name("gated cell", name, names)
    for seed in (gate.repeat_seed, *(seed for waiver in gate.waivers for seed in waiver.diverged)):
        if seed in gate.fresh_seeds:
            raise ConfigError(f"seed {seed} is a fresh seed; give a seed of the reference")


def _check_once(what: str, values: Sequence[object]) -> None:
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ConfigError(f"{what} {value} is there twice; name each once")
