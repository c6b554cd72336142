"""Reads and checks a gate's file, such as `results/reference/gate.toml`, and writes the first one of an approach."""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, structs

from bench.core.errors import BenchError, ConfigError
from bench.core.files import write_atomically
from bench.core.precision import check_device_name, check_precision
from bench.core.project import REFERENCE
from bench.core.toml import Text, TomlTable, check, read_toml
from bench.data.manifest import TASKS
from bench.plan.recipes import profile, resolve
from bench.plan.registry import manifest
from bench.plan.trained_runs import Selection, TrainedRun, trained_runs

GATE = REFERENCE / "gate.toml"
LEAST_REFERENCE = 8  # seeds; with fewer, t(k - 1) at Holm's levels is so wide that it hides any fault
LEAST_FRESH = 2  # seeds
MORE = 5  # fresh seeds, after a failure that is probably chance
GONE = {
    "reference_seeds": "its name is now baseline_seeds",
    "repeat": "the tests train seeds twice",
    "splits": "the tests compare splits with their hashes",
    "waiver": "leave a trained run that cannot run out of [[gated]]; seeds may diverge where seeds of the baseline did",
}
"""Keys of older files, and what to do instead."""
TRAIN = "{train}"  # stands for the recipe's training split in a metric's key

Seed = Annotated[int, Meta(ge=0, le=2**63 - 1 - MORE)]  # `run --seeds` takes up to 2^63 - 1


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

    def with_more(self) -> Gate:
        """Return the gate with `MORE` fresh seeds for every trained run, after those that it has."""
        rows = [structs.replace(row, seeds=None if row.seeds is None else row.seeds + MORE) for row in self.gated]
        start = max(self.fresh_seeds) + 1
        return structs.replace(self, fresh_seeds=(*self.fresh_seeds, *range(start, start + MORE)), gated=tuple(rows))

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
    """Read and check a gate file; raises ConfigError that names the file, each wrong place and what is allowed."""
    raw = read_toml(path, dict[str, object], "gate file", gone=GONE)
    where, messages = f"gate file {path}", []
    try:
        gate = check(raw, Gate, where)
    except ConfigError as error:  # the names in what can be read are checked all the same
        gate, messages = _readable(raw), [str(error)]
    if problems := _problems(gate):
        messages += problems if messages else [f"{where}: {problems[0]}", *problems[1:]]
    if messages:
        raise ConfigError("; also: ".join(messages))
    return gate


def _readable(raw: Mapping[str, object]) -> Gate:
    """Return the gate of a file with mistakes, without the values that have not their type."""
    usual = tomllib.loads(starter("uniform", "epoch1")) | {"fresh_seeds": list(range(100))}  # enough for every row
    rows, metrics = raw.get("gated"), {"metrics": usual["gated"][0]["metrics"]}
    tables = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    read = [_usable(row, GatedRow, metrics) for row in tables]
    named = [row for row in read if {"approach", "recipes", "protocol"} <= row.keys()]
    return msgspec.convert({**_usable(raw, Gate, usual), "gated": named or usual["gated"]}, Gate)


def _usable(raw: Mapping[str, object], kind: type[TomlTable], usual: Mapping[str, object]) -> dict[str, object]:
    """Return the values of a table that have their type, and the usual ones for all others."""
    found = dict(usual)
    for field in structs.fields(kind):
        with contextlib.suppress(msgspec.ValidationError, KeyError):
            msgspec.convert(raw[field.encode_name], field.type)
            found[field.encode_name] = raw[field.encode_name]
    return found


def _problems(gate: Gate) -> list[str]:
    """Return what is wrong with names, with what is named twice, and with seeds."""
    runs = gate.trained_runs
    found = [*_refusal(lambda: profile(gate.profile)), *_refusal(lambda: check_device_name(gate.device))]
    found += _refusal(lambda: check_precision(gate.precision, gate.device))
    sound = structs.replace(gate, profile="epoch1", device="cpu", precision="float32") if found else gate
    found += [*_twice("gated trained run", [one.name for one in runs]), *_twice("fresh seed", gate.fresh_seeds)]
    for one in runs:
        found += _twice(f"metric of {one.name}", [metric.key for metric in one.metrics])
        if one.n_seeds > len(gate.fresh_seeds):
            found.append(f"{one.name} asks for {one.n_seeds} seeds; give at most {len(gate.fresh_seeds)}")
        found += [f"{one.name}: {refused}" for refused in _refusal(partial(sound.planned, one, gate.fresh_seeds[:1]))]
    return found


def _refusal(act: Callable[[], object]) -> list[str]:
    """Return the message of the error that a function raises; nothing if it raises none."""
    try:
        act()
    except BenchError as error:
        return [str(error)]
    return []


def _twice(what: str, values: Sequence[object]) -> list[str]:
    again = dict.fromkeys(value for number, value in enumerate(values) if value in values[:number])
    return [f"{what} {value} appears twice; name each once" for value in again]


STARTER = """\
# What `python -m bench gate` compares, and when it fails: docs/gate.md.
# A metric fails when its mean over the fresh seeds leaves the interval that the baseline predicts, and moves by more
# than its margin. The margins are examples: put in the differences that would matter to you. `python -m bench list KEY`
# shows the metrics of a record; "last epoch/KEY" is a number of its training trace.

schema = 1
profile = {profile}
device = "cpu"
precision = "float32"
alpha = 0.05  # chance that unchanged code fails anywhere, at most
baseline_seeds = 8  # fewest
fresh_seeds = [1000, 1001, 1002]  # far from those of the baseline
limit_s = 3600  # a fresh run should take at most so many seconds

[[gated]]
approach = {approach}
recipes = {recipes}
protocol = "common"
metrics = [
{metrics}
]
"""
NLL, BIT = (0.02, "a fifth of the test loss of a plain network"), (0.069, "a tenth of a bit")


def write_starter(path: Path, approach: str, size: str) -> Gate:
    """Write a gate file for an approach and a profile and return it; raises BenchError, also if the file is there."""
    if os.path.lexists(path):
        raise ConfigError(f"{path} is there already; remove it, or give another name with --gate")
    text = starter(approach, size)
    gate = msgspec.convert(tomllib.loads(text), Gate)
    if problems := _problems(gate):
        raise ConfigError("; also: ".join(problems))
    write_atomically(path, text.encode())
    return gate


def starter(approach: str, size: str) -> str:
    """Return a gate file for an approach and a profile; raises BenchError for unknown names, or a broken approach."""
    entry, inside = manifest(approach), TASKS[profile(size).task].inside
    of_toy = {"toy/rmse": (0.3, "a tenth of the targets' largest size")}
    metrics = {f"{inside}/nll": NLL, "noise_gaussian/predictive_entropy": BIT} if entry.task == "mnist" else of_toy
    if "mean_network" in entry.capabilities and entry.task == "mnist":
        metrics[f"{inside}/mean_network/nll"] = NLL
    lines = [f'    {{ key = "{key}", margin = {margin}, reason = "{why}" }},' for key, (margin, why) in metrics.items()]
    words = {"profile": size, "approach": approach, "recipes": list(entry.recipes)}
    return STARTER.format(**{name: json.dumps(one) for name, one in words.items()}, metrics="\n".join(lines))
