"""Make the approach for the name of a recipe: published, corrected, or published+NAME+... with named changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.core.errors import BrokenApproach, ConfigError, check_known, unknown_name
from bench.core.records import RecipeValue
from bench.data.manifest import TASKS
from bench.plan.manifests import ApproachManifest, ManifestValue
from bench.plan.registry import load_class
from bench.plan.source_code import published_values

if TYPE_CHECKING:
    from bench.interface import Approach


@dataclass(frozen=True)
class Profile:
    """The size of a run (epochs, rows and draws), and the task that it learns."""

    name: str
    epochs: int | None  # most epochs; None: as many as the recipe says
    steps_per_epoch: int | None  # every epoch ends after this number of steps; None: whole epochs
    rows: int | None  # first rows of each data set that the published protocol measures; None: all
    draws: int  # draws of the common protocol
    common_rows: int | None  # first rows of each data set that the common protocol measures; None: all
    task: str = "mnist"  # of `bench.data.manifest.TASKS`


PROFILES = {
    "smoke": Profile("smoke", epochs=1, steps_per_epoch=2, rows=128, draws=4, common_rows=128),
    # The gate compares fits of one epoch. 2,000 rows are enough for this, because both fits are measured on the same
    # rows. The published protocol measures all rows, because the documents do.
    "epoch1": Profile("epoch1", epochs=1, steps_per_epoch=None, rows=None, draws=30, common_rows=2_000),
    # Several short epochs, so that a kill can interrupt training (`python -m tests.stress kills`).
    "faults": Profile("faults", epochs=6, steps_per_epoch=10, rows=128, draws=4, common_rows=128),
    "full": Profile("full", epochs=None, steps_per_epoch=None, rows=None, draws=100, common_rows=None),
}


def profile(name: str) -> Profile:
    """Return a profile by name, such as full, or full_fashion for the same size of another task."""
    if not is_profile(name):
        raise unknown_name("profile", name, PROFILES)
    size, _, task = name.partition("_")
    return dataclasses.replace(PROFILES[size], name=name, task=task) if task else PROFILES[size]


def is_profile(name: str) -> bool:
    """Return whether a profile has this name."""
    size, _, task = name.partition("_")
    return size in PROFILES and (name == size or task in {*TASKS} - {"mnist"})


def profile_of_task(size: str, task: str) -> str:
    """Return the name of the profile of a size and a task; for task mnist, it is the size alone."""
    check_known("task", TASKS, task)
    return size if task == "mnist" else f"{size}_{task}"


@dataclass(frozen=True)
class Recipe:
    """A recipe of an approach with the changes that its name asks for."""

    name: str
    split: str  # of the training rows
    changes: tuple[str, ...]
    values: dict[str, ManifestValue]  # fields of the approach that differ from the published ones
    versions: dict[str, int]  # of the base recipe and of each change, by name


def resolve(manifest: ApproachManifest, name: str) -> Recipe:
    """Resolve a recipe name for an approach; raises ConfigError."""
    base, *extra = name.split("+")
    if base not in manifest.recipes:
        raise unknown_name(f"recipe of {manifest.name}", base, recipe_names(manifest))
    spec = manifest.recipes[base]
    check_known(f"correction or variant of {manifest.name}", manifest.changes, *extra)
    if len(set(extra)) != len(extra):
        raise ConfigError(f"recipe '{name}' names a change twice; name each once")
    changes = (*spec.corrections, *(change for change in extra if change not in spec.corrections))
    values: dict[str, ManifestValue] = {}
    for change in changes:
        values.update(manifest.changes[change].values)
    versions = {base: spec.version, **{change: manifest.changes[change].version for change in changes}}
    return Recipe(name, spec.split, changes, values, versions)


def recipe_names(manifest: ApproachManifest) -> list[str]:
    """Return the names of an approach's recipes, and of published with each single change."""
    return [*manifest.recipes, *(f"published+{change}" for change in manifest.changes)]


def values_of(manifest: ApproachManifest, recipe: Recipe, budget: Profile) -> dict[str, RecipeValue]:
    """Return the values of all fields of the approach that `build` makes, without importing it; raises ConfigError."""
    published = published_values(manifest.name)
    _check_fields(manifest, recipe, published)
    values = {**published, **recipe.values}
    if budget.epochs is not None:
        epochs = values["epochs"]
        assert isinstance(epochs, int), "a number of epochs is whole"
        values["epochs"] = min(epochs, budget.epochs)
    return values


def build(manifest: ApproachManifest, recipe: Recipe, budget: Profile) -> Approach:
    """Make the approach with a recipe's values and a profile's budget of epochs."""
    cls = load_class(manifest.name)
    _check_fields(manifest, recipe, {field.name for field in dataclasses.fields(cls)})
    try:
        approach: Approach = type.__call__(cls, **recipe.values)  # a subclass has more fields than mypy knows
    except (TypeError, ValueError) as error:
        raise BrokenApproach(f"{manifest.name} cannot be made with recipe '{recipe.name}': {error}") from error
    if budget.epochs is not None and approach.epochs > budget.epochs:
        approach = dataclasses.replace(approach, epochs=budget.epochs)
    return approach


def _check_fields(manifest: ApproachManifest, recipe: Recipe, fields: Collection[str]) -> None:
    check_known(f"field that recipe '{recipe.name}' of {manifest.name} sets", fields, *recipe.values)
