"""Reads and checks `results/reference/gate.toml`, which says what is gated."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
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


class GatedRow(TomlTable, frozen=True):
    """Cells of one approach and protocol that are gated alike."""

    approach: Text
    recipes: Annotated[tuple[Text, ...], Meta(min_length=1)]
    protocol: Literal["published", "common"]
    metrics: Annotated[tuple[GatedMetric, ...], Meta(min_length=1)]
    seeds: Annotated[int, Meta(ge=LEAST_FRESH)] | None = None  # None: all fresh seeds


class Repeat(TomlTable, frozen=True):
    """What is trained twice."""

    seed: Seed  # of the reference
    cells: Annotated[tuple[Text, ...], Meta(min_length=1)]  # names


class Gate(TomlTable, frozen=True):
    """The whole file."""

    schema: Literal[1]
    profile: Text
    device: Text
    precision: Text
    alpha: Annotated[float, Meta(ge=1e-6, le=0.5)]  # chance of any false alarm, at most
    reference_seeds: Annotated[int, Meta(ge=LEAST_REFERENCE)]  # fewest
    fresh_seeds: Annotated[tuple[Seed, ...], Meta(min_length=LEAST_FRESH)]
    limit_s: Annotated[float, Meta(ge=1)]  # seconds that a fresh run should take at most
    gated: Annotated[tuple[GatedRow, ...], Meta(min_length=1)]
    repeat: Repeat
    splits: dict[str, Sha256]  # "SPLIT/SEED", or "SPLIT" where no seed matters
    waivers: tuple[Waiver, ...] = msgspec.field(name="waiver", default=())

    @property
    def cells(self) -> list[GatedCell]:
        """Return the gated cells, one for each recipe of a row."""
        every = len(self.fresh_seeds)
        return [
            GatedCell(row.approach, recipe, row.protocol, every if row.seeds is None else row.seeds, row.metrics)
            for row in self.gated
            for recipe in row.recipes
        ]

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


def load_gate(path: Path = GATE) -> Gate:
    """Read and check a gate file; raises ConfigError that names the file, the place and what is allowed."""
    gate = read_toml(path, Gate, "gate file")
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
    for name in (*gate.repeat.cells, *(waiver.cell for waiver in gate.waivers)):
        if name not in names:
            raise unknown_name("gated cell", name, names)
    for seed in (gate.repeat.seed, *(seed for waiver in gate.waivers for seed in waiver.diverged)):
        if seed in gate.fresh_seeds:
            raise ConfigError(f"seed {seed} is a fresh seed; give a seed of the reference")


def _check_once(what: str, values: Sequence[object]) -> None:
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ConfigError(f"{what} {value} appears twice; name each once")
