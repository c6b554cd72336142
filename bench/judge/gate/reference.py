"""The reference: which cells are run with how many seeds, for verdicts, the gate and ladders to compare with.

It is made in stages. Every seed counts: a verdict stays open if a seed diverged. The gate counts diverged seeds, but
has no number of them to compare. So the cell gets a ninth seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from bench.judge.alternatives.named import alternatives
from bench.judge.comparison import ENOUGH
from bench.judge.ladder.selection import cells_of, chosen
from bench.plan.cells import Cell, Selection, cells
from bench.plan.costs import CostEstimate, seconds_of
from bench.plan.manifests import DOCUMENTS
from bench.plan.registry import of_group


@dataclass(frozen=True)
class Stage:
    """The cells of a part of the reference, their profile and their number of seeds."""

    profile: str
    seeds: int
    cells: Callable[[Selection], list[Cell]]
    title: str
    fewer: Mapping[str, int] = field(default_factory=dict)  # approach -> number of seeds, if it gets fewer


def _reports(selection: Selection) -> list[Cell]:
    """Return the cells of the published recipes, measured as the documents measure."""
    return cells(dataclasses.replace(selection, recipes=("published",), protocols=("published",)))


def _alternatives(selection: Selection) -> list[Cell]:
    """Return the cells of the recipes that a reported number could have come from instead, measured likewise."""
    recipes: dict[str, dict[str, None]] = {}  # by approach
    for entry in of_group(DOCUMENTS).values():
        for one in alternatives(entry) if entry.document else ():
            recipes.setdefault(one.approach, {})[one.recipe] = None
    found = []
    for name, names in recipes.items():
        of_one = dataclasses.replace(selection, approaches=(name,), recipes=tuple(names))
        found += cells(dataclasses.replace(of_one, protocols=("published",)))
    return found


STAGES: dict[str, Stage] = {
    "epoch1": Stage("epoch1", 8, cells, "one epoch of every cell, which the gate compares with"),
    "full": Stage("full", 5, cells, "the published budgets of every cell, which verdicts compare with"),
    "ladder": Stage("full", 3, lambda selection: cells_of(chosen(()), selection), "every rung of every ladder"),
    "reports": Stage(
        "full",
        20,
        _reports,
        "more seeds of the published recipes by the published protocols, for verdicts",
        fewer={"dropout_fcn": 10, "pyro_hidden_layer": 10},  # a seed of these trains for a quarter of an hour
    ),
    "alternatives": Stage(
        "full",
        ENOUGH,
        _alternatives,
        "the corrected recipes and the rungs by the published protocols, for verdicts against what",
    ),
}


def cells_of_stage(stage: Stage, selection: Selection) -> list[Cell]:
    """Return the cells of a stage; `selection` gives device, precision, and seeds if they are not the stage's."""
    if selection.seeds:
        return stage.cells(dataclasses.replace(selection, profile=stage.profile))
    found = stage.cells(dataclasses.replace(selection, profile=stage.profile, seeds=tuple(range(stage.seeds))))
    return [cell for cell in found if cell.seed < stage.fewer.get(cell.approach, stage.seeds)]


@dataclass(frozen=True)
class RecipeToDo:
    """The missing cells of one approach and recipe (all seeds and protocols), and how long they will take."""

    cells: tuple[Cell, ...]
    seconds: float | None  # None if unknown

    @property
    def title(self) -> str:
        """Return the approach and the recipe."""
        return f"{self.cells[0].approach} {self.cells[0].recipe}"


def in_cost_order(to_do: Iterable[Cell], costs: dict[str, CostEstimate]) -> list[RecipeToDo]:
    """Group cells by approach and recipe: cheapest group first, unknown cost last; `costs` are by key of a cell."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in to_do:
        groups.setdefault((cell.approach, cell.recipe), []).append(cell)
    recipes = [RecipeToDo(tuple(members), seconds_of(members, costs)) for members in groups.values()]
    return sorted(recipes, key=lambda recipe: (recipe.seconds is None, recipe.seconds or 0.0))
