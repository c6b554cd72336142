"""Chooses ladders, and the cells to run for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from bench.core.errors import ConfigError
from bench.judge.ladder.definition import ladder
from bench.judge.ladder.rungs import Ladder
from bench.judge.results import Results
from bench.judge.shorter import from_longer, longer_recipe
from bench.plan.cells import Cell, Selection, cells
from bench.plan.manifests import DOCUMENTS
from bench.plan.registry import of_group


def chosen(approaches: Sequence[str]) -> list[Ladder]:
    """Return the ladders of these approaches, by default of all approaches of the documents; raises ConfigError."""
    if not approaches:
        found = [ladder(entry.name) for entry in of_group(DOCUMENTS).values() if entry.task == "mnist"]
        return [one for one in found if one.rungs]
    found = [ladder(name) for name in dict.fromkeys(approaches)]
    for one in found:
        if not one.rungs:
            raise ConfigError(
                f"{one.approach} has no ladder: it has no corrections, no variants and no entry in ladders.toml"
            )
    return found


def cells_of(ladders: Iterable[Ladder], selection: Selection, results: Results | None = None) -> list[Cell]:
    """Return the cells that the ladders compare, each once.

    A shorter fit is left out if its numbers can be read from a longer fit (`bench.judge.shorter`): one of these cells,
    or one that has finished in `results`. `selection` gives seeds, profile, device and precision.
    """
    wanted = dict.fromkeys(
        (place.approach, place.recipe, "common" if place.source == "reading" else place.source)
        for one in ladders
        for place in one.places()
    )
    found = []
    for fit in wanted:
        approach, recipe, protocol = fit
        if (approach, longer_recipe(*fit)[0], protocol) in wanted:
            continue
        have = {record.seed for record in from_longer(results, *fit)} if results else set()
        made = cells(dataclasses.replace(selection, approaches=(approach,), recipes=(recipe,), protocols=(protocol,)))
        found += [cell for cell in made if cell.seed not in have]
    return found
