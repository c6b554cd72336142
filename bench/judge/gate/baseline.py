"""The baseline: which trained runs are run with how many seeds, for verdicts, the gate and ablations to compare with.

It is made in stages. Every seed counts: a verdict stays open if a seed diverged. The gate counts diverged seeds, but
has no number of them to compare. So the trained run gets a ninth seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from bench.judge.ablation.definition import chosen, trained_runs_of
from bench.judge.alternatives.named import alternatives
from bench.judge.comparison import ENOUGH
from bench.plan.costs import CostEstimate, seconds_of
from bench.plan.manifests import DOCUMENTS
from bench.plan.registry import of_group
from bench.plan.trained_runs import Selection, TrainedRun, trained_runs


@dataclass(frozen=True)
class Stage:
    """The trained runs of a part of the baseline, their profile and their number of seeds."""

    profile: str
    seeds: int
    trained_runs: Callable[[Selection], list[TrainedRun]]
    title: str
    fewer: Mapping[str, int] = field(default_factory=dict)  # approach -> number of seeds, if it gets fewer


def _reports(selection: Selection) -> list[TrainedRun]:
    """Return the trained runs of the published recipes, measured as the documents measure."""
    return trained_runs(dataclasses.replace(selection, recipes=("published",), protocols=("published",)))


def _alternatives(selection: Selection) -> list[TrainedRun]:
    """Return the trained runs of the recipes that a reported number could have come from instead, measured likewise."""
    recipes: dict[str, dict[str, None]] = {}  # by approach
    for entry in of_group(DOCUMENTS).values():
        for one in alternatives(entry) if entry.document else ():
            recipes.setdefault(one.approach, {})[one.recipe] = None
    found = []
    for name, names in recipes.items():
        of_one = dataclasses.replace(selection, approaches=(name,), recipes=tuple(names))
        found += trained_runs(dataclasses.replace(of_one, protocols=("published",)))
    return found


STAGES: dict[str, Stage] = {
    "epoch1": Stage("epoch1", 8, trained_runs, "one epoch of every trained run, which the gate compares with"),
    "full": Stage("full", 5, trained_runs, "the published budgets of every trained run, which verdicts compare with"),
    "ablation": Stage(
        "full", 3, lambda selection: trained_runs_of(chosen(()), selection), "every single change of every ablation"
    ),
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
        "the corrected recipes and the single changes by the published protocols, for verdicts against what",
    ),
}


def trained_runs_of_stage(stage: Stage, selection: Selection) -> list[TrainedRun]:
    """Return the runs of a stage; `selection` gives device, precision, and seeds if they are not the stage's."""
    if selection.seeds:
        return stage.trained_runs(dataclasses.replace(selection, profile=stage.profile))
    found = stage.trained_runs(dataclasses.replace(selection, profile=stage.profile, seeds=tuple(range(stage.seeds))))
    return [
        trained_run for trained_run in found if trained_run.seed < stage.fewer.get(trained_run.approach, stage.seeds)
    ]


@dataclass(frozen=True)
class RecipeToDo:
    """The missing trained runs of one approach and recipe (all seeds and protocols), and how long they will take."""

    trained_runs: tuple[TrainedRun, ...]
    seconds: float | None  # None if unknown

    @property
    def title(self) -> str:
        """Return the approach and the recipe."""
        return f"{self.trained_runs[0].approach} {self.trained_runs[0].recipe}"


def in_cost_order(to_do: Iterable[TrainedRun], costs: dict[str, CostEstimate]) -> list[RecipeToDo]:
    """Group runs by approach and recipe: cheapest group first, unknown cost last; `costs` are by key of a run."""
    groups: dict[tuple[str, str], list[TrainedRun]] = {}
    for trained_run in to_do:
        groups.setdefault((trained_run.approach, trained_run.recipe), []).append(trained_run)
    recipes = [RecipeToDo(tuple(members), seconds_of(members, costs)) for members in groups.values()]
    return sorted(recipes, key=lambda recipe: (recipe.seconds is None, recipe.seconds or 0.0))
