"""Turn a selection of approaches, recipes, protocols and seeds into trained runs with keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bench.core.canonical import digest
from bench.core.errors import BenchError, BrokenApproach, ConfigError, check_known
from bench.core.precision import check_precision
from bench.core.reasons import Reason, message_reason
from bench.core.records import Naming, RecipeValue, Versions
from bench.data.manifest import TASKS, data_hashes
from bench.plan.freshness import versions_of
from bench.plan.manifests import DOCUMENTS, ApproachManifest
from bench.plan.recipes import Profile, Recipe, build, profile, resolve, values_of
from bench.plan.registry import manifest, of_group

PROTOCOLS = ("published", "common", "shift")
USUAL_PROTOCOLS = ("published", "common")  # if the user names no protocol
USUAL_TRAINED_RUNS = (("published", "published"), ("published", "common"), ("corrected", "common"))
"""Recipes and protocols that are selected if the user names no recipe."""


@dataclass(frozen=True)
class TrainedRun:
    """One approach x recipe x protocol with one seed. Each trained run gets one record."""

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
    values: Mapping[str, RecipeValue]  # all fields of the approach; of a broken one only those of the recipe
    corrections: tuple[str, ...]
    versions: Versions  # of recipe, protocol and metrics, for the record
    skip: Reason | None = None  # why it cannot be done here
    together: str = ""  # one key for all seeds that can be trained in one seed batch; "" if each trains alone

    @property
    def epochs(self) -> int:
        """Return the epochs of training; 0 if the approach is broken and the recipe does not set the epochs."""
        epochs = self.values.get("epochs", 0)
        assert isinstance(epochs, int), "a number of epochs is whole"
        return epochs

    def naming(self) -> Naming:
        """Return the fields that name the record. Its device is "cuda", without the number of the GPU."""
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
        """Return the trained run's name for people."""
        return self.naming().title


@dataclass(frozen=True)
class Selection:
    """What the user asked for."""

    approaches: tuple[str, ...] = ()  # empty: all of the group
    group: str = DOCUMENTS  # used if no approaches are named
    recipes: tuple[str, ...] = ()  # empty: those of USUAL_TRAINED_RUNS, and the variants marked in_all
    protocols: tuple[str, ...] = ()  # empty: USUAL_PROTOCOLS
    seeds: tuple[int, ...] = (0,)
    profile: str = "full"
    device: str = "cpu"
    precision: str = "float32"
    apart: bool = False  # fit every seed by itself


def trained_runs(selection: Selection) -> list[TrainedRun]:
    """Return the selected trained runs, those of one fit in a row; raises ConfigError for an unknown name."""
    budget = profile(selection.profile)
    check_known("protocol", PROTOCOLS, *selection.protocols)
    check_precision(selection.precision, selection.device)
    if any(seed < 0 for seed in selection.seeds):
        raise ConfigError(f"seed {min(selection.seeds)} is negative; give seeds from 0")
    names = selection.approaches or tuple(of_group(selection.group))
    chosen = [manifest(name) for name in dict.fromkeys(names)]
    found: list[TrainedRun] = []
    for entry in chosen:
        pairs = _pairs(entry, selection, budget.task)
        made = {name: _made(entry, resolve(entry, name), budget) for name, _ in pairs}
        found += [
            _trained_run(entry, made[recipe], protocol, seed, budget, selection)
            for seed in selection.seeds
            for recipe, protocol in pairs
        ]
    if not found:
        raise ConfigError("the selection holds no trained run; see `python -m bench list` for recipes and protocols")
    return found


def _pairs(entry: ApproachManifest, selection: Selection, task: str) -> list[tuple[str, str]]:
    """Return the recipes and protocols of an approach that were selected."""
    for recipe in selection.recipes:
        resolve(entry, recipe)  # raises an error for an unknown name
    if selection.recipes:
        pairs = [(recipe, protocol) for recipe in dict.fromkeys(selection.recipes) for protocol in USUAL_PROTOCOLS]
    else:
        pairs = [(recipe, protocol) for recipe, protocol in USUAL_TRAINED_RUNS if recipe in entry.recipes]
        pairs += [(f"published+{name}", "common") for name, change in entry.changes.items() if change.in_all]
    wanted, found = selection.protocols or USUAL_PROTOCOLS, []
    for recipe, protocol in pairs:
        if protocol == "common" or entry.document:
            found.append((recipe, protocol))
        if protocol == "common" and entry.task == "mnist":  # a recipe with protocol common can have shift too
            found.append((recipe, "shift"))
    if task != "mnist":  # no document reports on another task, and a toy cannot learn it
        found = [pair for pair in found if pair[1] == "common" and entry.task == "mnist"]
    return [pair for pair in found if pair[1] in wanted]


def _trained_run(
    entry: ApproachManifest, made: _Made, protocol: str, seed: int, budget: Profile, selection: Selection
) -> TrainedRun:
    recipe, values, skip = made
    is_plain = selection.precision in ("float32", "float64") and selection.device == "cpu"
    if entry.cpu_float32_only and not is_plain:
        skip = Reason("cpu-float32-only", {"approach": entry.name, "why": entry.cpu_float32_only})
    versions = versions_of(entry, recipe, protocol)
    fitted = _fitted(entry, recipe, values, budget, selection)
    measured = {
        "recipe": recipe.name,
        "protocol": protocol,
        "rows": budget.rows if protocol == "published" else budget.common_rows,
        "draws": budget.draws,
        "data": {name: value for name, value in data_hashes(budget.task).items() if "/train-" not in name},
    }
    fit_key = digest({**fitted, "seed": seed})
    can_share = "fit_many" in entry.capabilities and not selection.apart and not skip
    return TrainedRun(
        approach=entry.name,
        recipe=recipe.name,
        protocol=protocol,
        profile=budget.name,
        seed=seed,
        device=selection.device,
        precision=selection.precision,
        split=recipe.split,
        fit_key=fit_key,
        key=digest({**measured, "fit": fit_key}),
        values=values,
        corrections=recipe.changes,
        versions=versions,
        skip=skip,
        together=digest(fitted) if can_share else "",
    )


def _fitted(
    entry: ApproachManifest, recipe: Recipe, values: Mapping[str, RecipeValue], budget: Profile, selection: Selection
) -> dict[str, object]:
    """Return what the fits of all seeds have in common: their keys are made from it.

    Neither versions nor how a fit is computed are in a key: a record, a posterior and a checkpoint name their versions,
    so that a stale one is made again in its place.
    """
    training = f"{TASKS[budget.task].training}/train-"
    learnt_from = {name: value for name, value in data_hashes(budget.task).items() if name.startswith(training)}
    found: dict[str, object] = {
        "approach": entry.name,
        "values": values,
        "split": recipe.split,
        "data": learnt_from if entry.task == "mnist" else {},
        "steps_per_epoch": budget.steps_per_epoch,
        "precision": selection.precision,
        "device": selection.device.split(":")[0],
    }
    if budget.task != "mnist":
        found["task"] = budget.task
    return found


class _Made(NamedTuple):
    """A recipe with the values of all fields of its approach, and why it cannot be trained here."""

    recipe: Recipe
    values: Mapping[str, RecipeValue]
    skip: Reason | None


def _made(entry: ApproachManifest, recipe: Recipe, budget: Profile) -> _Made:
    """Return the values of a recipe. An approach of this suite is read; one of a user is made, as it may be broken.

    A broken approach of a user must not stop the other approaches. It has the recipe's own values only.
    """
    absent = entry.missing_framework()
    skip = message_reason("no-framework", absent) if absent else None
    try:
        if entry.module and not absent:
            return _Made(recipe, dataclasses.asdict(build(entry, recipe, budget)), None)
        return _Made(recipe, values_of(entry, recipe, budget), skip)
    except BenchError as error:
        if not entry.module:
            raise
        kind = "broken-approach" if isinstance(error, BrokenApproach) else "unsupported"
        return _Made(recipe, recipe.values, skip or message_reason(kind, error))
