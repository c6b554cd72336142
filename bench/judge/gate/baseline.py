"""The baseline: which trained runs are run with how many seeds, for verdicts, the gate and ablations to compare with.

It is made in stages. Every seed counts: a verdict stays open if a seed diverged. The gate counts diverged seeds, but
has no number of them to compare. So the trained run gets a ninth seed.

The fresh run: every gated trained run with its fresh seeds; and whether a seed of the baseline repeats.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.core.canonical import digest
from bench.core.environment import versions
from bench.core.errors import ConfigError
from bench.core.files import write_atomically
from bench.core.records import Record
from bench.core.store import Store
from bench.judge.ablation.definition import chosen, trained_runs_of
from bench.judge.alternatives.named import alternatives
from bench.judge.comparison import ENOUGH
from bench.judge.gate.config import Gate
from bench.judge.gate.judge import Folder
from bench.plan.costs import CostEstimate, seconds_of
from bench.plan.manifests import DOCUMENTS
from bench.plan.registry import of_group
from bench.plan.trained_runs import Selection, TrainedRun, trained_runs
from bench.run.alike import code_and_data
from bench.run.events import Options
from bench.run.executors import open_executor, threads_of_a_fit
from bench.run.runner import Watcher, run


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


def run_fresh(
    gate: Gate,
    root: Path,
    threads: int | None,
    watcher: Watcher,
    executor: str = "process",
    workers: int | None = None,
    planned: Sequence[TrainedRun] | None = None,
    adds: bool = False,
) -> None:
    """Run all that the gate compares, or what is `planned`, into a folder without records.

    If it `adds`, the folder may have those of a first run of the same code, data and packages, which are kept.

    Raises:
        ConfigError: the folder has other records already, which could not be told from fresh ones.
    """
    mark = root / f"made-by-{_made_by(gate)}"
    if Store(root).has_records():
        if not adds:
            raise ConfigError(f"{root} has records already; give an empty folder, or judge these with --fresh {root}")
        if not mark.exists():
            raise ConfigError(f"{root} has records that other code, data or packages made; give an empty folder")
    write_atomically(mark, b"")
    share = threads_of_a_fit(executor, threads, workers)
    # No posterior is kept: a gate measures once, and a full disk would look like a fault of the code.
    options = Options(root=str(root.resolve()), threads=share, retain=False)
    chosen = fresh_trained_runs(gate) if planned is None else planned
    run(chosen, Store(root), options, watcher, open_executor(executor, workers=workers))


def _made_by(gate: Gate) -> str:
    """Return a hash of what affects the numbers of a gate: code, data and packages."""
    approaches = sorted({one.approach for one in gate.trained_runs})
    return digest([versions(), *(code_and_data(name, None) for name in approaches)])


Train = Callable[[Sequence[TrainedRun]], None]  # makes records


def repeats(gate: Gate, names: Iterable[str], baseline: Path, root: Path, train: Train) -> bool:
    """Return whether the baseline's first seed of some trained runs gives all its numbers again, to the last bit.

    `train` makes the new records in `root`. If all repeat, neither the code nor the machine moved a number, and another
    mean of other seeds is probably chance.
    """
    known, chosen = Folder.read(baseline, gate), [gate.trained_run(name) for name in names]
    done = [(one, [old for old in known.trained_run(one) if old.outcome == "done"][:1]) for one in chosen]
    first = [(one, record) for one, records in done for record in records]
    train([planned for one, record in first for planned in gate.planned(one, [record.seed])])
    found = Folder.read(root, gate)
    pairs = [(_numbers(old), _numbers(new)) for one, old in first for new in found.trained_run(one)]
    return len(pairs) == len(chosen) and all(old.items() <= new.items() for old, new in pairs)


def _numbers(record: Record) -> dict[tuple[int, str], float | None]:
    """Return the numbers of a record and of its epochs, by number of the epoch (0: of the record) and key."""
    of_epochs = {(epoch.epoch, key): value for epoch in record.epochs for key, value in epoch.metrics.items()}
    return {**{(0, key): value for key, value in record.metrics.items()}, **of_epochs}


def fresh_trained_runs(gate: Gate) -> list[TrainedRun]:
    """Return the gated trained runs with their fresh seeds."""
    return [
        planned
        for trained_run in gate.trained_runs
        for planned in gate.planned(trained_run, gate.seeds_of(trained_run))
    ]
