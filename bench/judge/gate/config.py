"""Reads and checks `results/reference/gate.toml`, which says what the gate compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from bench.core.errors import BenchError, ConfigError
from bench.core.project import REFERENCE
from bench.core.toml import Text, TomlTable, read_toml
from bench.plan.cells import Cell, Selection, cells
from bench.plan.recipes import profile, resolve
from bench.plan.registry import manifest

GATE = REFERENCE / "gate.toml"
LEAST_REFERENCE = 8  # seeds; with fewer, t(k - 1) at Holm's levels is so wide that it hides any fault
LEAST_FRESH = 2  # seeds
GONE = {
    "repeat": "the tests train seeds twice",
    "splits": "the tests compare splits with their hashes",
    "waiver": "leave a cell that cannot run out of [[gated]]; seeds may diverge where seeds of the reference did",
}
"""Keys of older files, and what to do instead."""
TRAIN = "{train}"  # stands for the recipe's training split in a metric's key

Seed = Annotated[int, Meta(ge=0)]


class GatedMetric(TomlTable, frozen=True):
    """One number of a cell, with the difference that would matter and the reason for it."""

    key: Text  # of the record's metrics; "last epoch/KEY" of its training trace
    margin: Annotated[float, Meta(ge=0)]
    reason: Text


@dataclass(frozen=True)
class GatedCell:
    """One cell, its metrics, and its number of fresh seeds."""

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


class GatedRow(TomlTable, frozen=True):
    """Cells of one approach and protocol with the same metrics."""

    approach: Text
    recipes: Annotated[tuple[Text, ...], Meta(min_length=1)]
    protocol: Literal["published", "common"]
    metrics: Annotated[tuple[GatedMetric, ...], Meta(min_length=1)]
    seeds: Annotated[int, Meta(ge=LEAST_FRESH)] | None = None  # None: all fresh seeds


class Gate(TomlTable, frozen=True):
    """The whole file."""

    schema: Literal[1]
    profile: Text
    device: Text
    precision: Text
    alpha: Annotated[float, Meta(ge=1e-6, le=0.5)]  # greatest probability of any false alarm
    reference_seeds: Annotated[int, Meta(ge=LEAST_REFERENCE)]  # at least so many
    fresh_seeds: Annotated[tuple[Seed, ...], Meta(min_length=LEAST_FRESH)]
    limit_s: Annotated[float, Meta(ge=1)]  # a fresh run should take at most so many seconds
    gated: Annotated[tuple[GatedRow, ...], Meta(min_length=1)]

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

    def planned(self, cell: GatedCell, seeds: Sequence[int]) -> list[Cell]:
        """Return the cell for each seed, as today's code would run it."""
        return cells(
            Selection(
                approaches=(cell.approach,),
                recipes=(cell.recipe,),
                protocols=(cell.protocol,),
                seeds=tuple(seeds),
                profile=self.profile,
                device=self.device,
                precision=self.precision,
            )
        )


def load_gate(path: Path = GATE) -> Gate:
    """Read and check a gate file; raises ConfigError that names the file, the place and what is allowed."""
    gate = read_toml(path, Gate, "gate file", gone=GONE)
    try:
        _check(gate)
    except BenchError as error:
        raise ConfigError(f"gate file {path}: {error}") from error
    return gate


def _check(gate: Gate) -> None:
    """Raise ConfigError for unknown names, for names and seeds given twice, and for seeds that cannot be used."""
    profile(gate.profile)
    names = [cell.name for cell in gate.cells]
    _check_once("gated cell", names)
    _check_once("fresh seed", gate.fresh_seeds)
    for cell in gate.cells:
        _check_once(f"metric of {cell.name}", [metric.key for metric in cell.metrics])
        if cell.n_seeds > len(gate.fresh_seeds):
            raise ConfigError(f"{cell.name} asks for {cell.n_seeds} seeds; give at most {len(gate.fresh_seeds)}")
        gate.planned(cell, gate.seeds_of(cell))


def _check_once(what: str, values: Sequence[object]) -> None:
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ConfigError(f"{what} {value} appears twice; name each once")
