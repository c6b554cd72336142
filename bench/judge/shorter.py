"""Reads the numbers of shorter fits of Blundell et al. 2015 from the records of longer fits.

The number of epochs ends the loop of these fits and changes nothing else (`implementations/_seeds.py`). So a fit of 150
epochs equals the first 150 epochs of a fit of 600 with the same seed, whose record has the errors after each epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from bench.core.records import Record, Timings
from bench.judge.results import Results
from bench.measure.metrics.epochs import last_epoch
from bench.plan.recipes import profile
from bench.plan.registry import manifests


def records_of(results: Results, approach: str, recipe: str, protocol: str) -> list[Record]:
    """Return the records of a trained run. For seeds without a record, finished longer fits give one."""
    found = results.trained_run(approach, recipe, protocol)
    seeds = {record.seed for record in found}
    return [*found, *(one for one in from_longer(results, approach, recipe, protocol) if one.seed not in seeds)]


def siblings(results: Results, approach: str, recipe: str, protocol: str) -> list[str]:
    """Return the other recipes of an approach that a protocol measured; of those with the same fits, only one."""

    def fits(name: str) -> str:
        return longer_recipe(approach, name, protocol)[0] or name

    names = {fits(name): name for name in results.measured_recipes(approach, protocol)}
    return [name for base, name in names.items() if base != fits(recipe)]


def from_longer(results: Results, approach: str, recipe: str, protocol: str) -> Iterator[Record]:
    """Yield for each finished longer fit the record that a fit of this recipe would have, without draws and times."""
    longer, epochs = longer_recipe(approach, recipe, protocol)
    for record in results.trained_run(approach, longer, protocol) if longer else ():
        length = min(epochs, profile(record.profile).epochs or epochs)
        first = record.epochs[:length]
        if record.outcome == "done" and len(first) == length:
            errors = last_epoch([epoch.metrics for epoch in first])
            yield structs.replace(record, recipe=recipe, epochs=first, metrics=errors, missing={}, timings=Timings())


def longer_recipe(approach: str, recipe: str, protocol: str) -> tuple[str, int]:
    """Return the recipe without its changes of the number of epochs, and that number; ("", 0) without such a change."""
    entry = manifests().get(approach)
    if entry is None or entry.group != "paper" or protocol != "published":
        return "", 0
    epochs = {name: one.values["epochs"] for name, one in entry.variants.items() if [*one.values] == ["epochs"]}
    parts = recipe.split("+")
    asked = [epochs[part] for part in parts if part in epochs]
    return ("+".join(part for part in parts if part not in epochs), int(asked[-1])) if asked else ("", 0)
