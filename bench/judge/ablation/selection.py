"""Chooses ablations, and the trained runs to run for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from bench.core.errors import ConfigError
from bench.judge.ablation.definition import ablation
from bench.judge.ablation.single_changes import Ablation
from bench.judge.results import Results
from bench.judge.shorter import from_longer, longer_recipe
from bench.plan.manifests import DOCUMENTS
from bench.plan.registry import of_group
from bench.plan.trained_runs import Selection, TrainedRun, trained_runs


def chosen(approaches: Sequence[str]) -> list[Ablation]:
    """Return the ablations of these approaches, by default of all approaches of the documents; raises ConfigError."""
    if not approaches:
        found = [ablation(entry.name) for entry in of_group(DOCUMENTS).values() if entry.task == "mnist"]
        return [one for one in found if one.single_changes]
    found = [ablation(name) for name in dict.fromkeys(approaches)]
    for one in found:
        if not one.single_changes:
            raise ConfigError(
                f"{one.approach} has no ablation: it has no corrections, no variants and no entry in ablations.toml"
            )
    return found


def trained_runs_of(
    ablations: Iterable[Ablation], selection: Selection, results: Results | None = None
) -> list[TrainedRun]:
    """Return the trained runs that the ablations compare, each once.

    A shorter fit is left out if its numbers can be read from a longer fit (`bench.judge.shorter`): one of these trained
    runs, or one that has finished in `results`. `selection` gives seeds, profile, device and precision.
    """
    wanted = dict.fromkeys(
        (place.approach, place.recipe, "common" if place.source == "derived" else place.source)
        for one in ablations
        for place in one.places()
    )
    found = []
    for fit in wanted:
        approach, recipe, protocol = fit
        if (approach, longer_recipe(*fit)[0], protocol) in wanted:
            continue
        have = {record.seed for record in from_longer(results, *fit)} if results else set()
        made = trained_runs(
            dataclasses.replace(selection, approaches=(approach,), recipes=(recipe,), protocols=(protocol,))
        )
        found += [trained_run for trained_run in made if trained_run.seed not in have]
    return found
