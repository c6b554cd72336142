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
from bench.plan.recipes import profile, resolve
from bench.plan.registry import manifest
from bench.plan.trained_runs import Selection, TrainedRun, trained_runs

GATE = REFERENCE / "gate.toml"
LEAST_REFERENCE = 8  # seeds; with fewer, t(k - 1) at Holm's levels is so wide that it hides any fault
LEAST_FRESH = 2  # seeds
GONE = {
    "reference_seeds": "its name is now baseline_seeds",
    "repeat": "the tests train seeds twice",
    "splits": "the tests compare splits with their hashes",
    "waiver": "leave a trained run that cannot run out of [[gated]]; seeds may diverge where seeds of the baseline did",
}
"""Keys of older files, and what to do instead."""
TRAIN = "{train}"  # stands for the recipe's training split in a metric's key

Seed = Annotated[int, Meta(ge=0)]


class GatedMetric(TomlTable, frozen=True):
    """One number of a trained run, with the difference that would matter and the reason for it."""

    key: Text  # of the record's metrics; "last epoch/KEY" of its training trace
    margin: Annotated[float, Meta(ge=0)]
    reason: Text


@dataclass(frozen=True)
class GatedTrainedRun:
    """One trained run, its metrics, and its number of fresh seeds."""

    approach: str
    recipe: str
    protocol: str
    n_seeds: int
    metrics: tuple[GatedMetric, ...]

    @property
    def name(self) -> str:
        """Return the trained run's name in files and reports."""
        return f"{self.approach}/{self.recipe}/{self.protocol}"

    @property
    def split(self) -> str:
        """Return the name of the training split."""
        return resolve(manifest(self.approach), self.recipe).split


class GatedRow(TomlTable, frozen=True):
    """Trained runs of one approach and protocol with the same metrics."""

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
    baseline_seeds: Annotated[int, Meta(ge=LEAST_REFERENCE)]  # at least so many
    fresh_seeds: Annotated[tuple[Seed, ...], Meta(min_length=LEAST_FRESH)]
    limit_s: Annotated[float, Meta(ge=1)]  # a fresh run should take at most so many seconds
    gated: Annotated[tuple[GatedRow, ...], Meta(min_length=1)]

    @property
    def trained_runs(self) -> list[GatedTrainedRun]:
        """Return the gated trained runs, one for each recipe of a row."""
        every = len(self.fresh_seeds)
        return [
            GatedTrainedRun(row.approach, recipe, row.protocol, every if row.seeds is None else row.seeds, row.metrics)
            for row in self.gated
            for recipe in row.recipes
        ]

    def trained_run(self, name: str) -> GatedTrainedRun:
        """Return a gated trained run by name."""
        return next(trained_run for trained_run in self.trained_runs if trained_run.name == name)

    def seeds_of(self, trained_run: GatedTrainedRun) -> tuple[int, ...]:
        """Return the fresh seeds of a trained run."""
        return self.fresh_seeds[: trained_run.n_seeds]

    def planned(self, trained_run: GatedTrainedRun, seeds: Sequence[int]) -> list[TrainedRun]:
        """Return the trained run for each seed, as today's code would run it."""
        return trained_runs(
            Selection(
                approaches=(trained_run.approach,),
                recipes=(trained_run.recipe,),
                protocols=(trained_run.protocol,),
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
    names = [trained_run.name for trained_run in gate.trained_runs]
    _check_once("gated trained run", names)
    _check_once("fresh seed", gate.fresh_seeds)
    for trained_run in gate.trained_runs:
        _check_once(f"metric of {trained_run.name}", [metric.key for metric in trained_run.metrics])
        if trained_run.n_seeds > len(gate.fresh_seeds):
            raise ConfigError(
                f"{trained_run.name} asks for {trained_run.n_seeds} seeds; give at most {len(gate.fresh_seeds)}"
            )
        gate.planned(trained_run, gate.seeds_of(trained_run))


def _check_once(what: str, values: Sequence[object]) -> None:
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ConfigError(f"{what} {value} appears twice; name each once")
