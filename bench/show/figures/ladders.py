"""The ladder of each approach: what each change does to the accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.judge.ladder.effects import effects
from bench.judge.ladder.rungs import MNIST, Ladder
from bench.judge.ladder.selection import chosen
from bench.judge.results import described
from bench.show.figures.changes import EXPLAINED, Change, draw_changes
from bench.show.figures.figure import FIELD, Absent, Figure
from bench.show.figures.style import NARROW, WIDTH, look
from bench.show.material import Material

WHAT = (MNIST, "accuracy")


def make(material: Material) -> Iterator[Figure | Absent]:
    """Give one figure for each approach that has a ladder with accuracies."""
    for ladder in chosen(()):
        yield from _ladder(material, ladder)


def _ladder(material: Material, ladder: Ladder) -> Iterator[Figure | Absent]:
    name, title = f"ladder-{ladder.approach}", f"What each change does to the test accuracy of {ladder.approach}"
    found = [(rung, given[WHAT]) for rung, given in effects(ladder, material.numbers) if WHAT in given]
    colour = look(ladder.approach, material.approaches).colour
    changes = [Change(rung.name, rung.kind, effect.paired, colour) for rung, effect in found if effect.paired]
    if not found:
        return
    if not changes:
        reason = f"no change is measured; python -m bench ladder {ladder.approach} --run does"
        yield Absent(name, title, FIELD, reason)
        return
    absent = [f"{rung.name} ({rung.kind})" for rung, effect in found if effect.paired is None]
    without = f" Not measured: {', '.join(absent)}." if absent else ""
    seeds = {seed for change in changes for seed in change.paired.seeds}
    conditions = described((material.profile, material.device, material.precision), seeds)
    caption = (
        "Share of the test images classified right, mean probability of 100 draws, as in the table's column "
        f"accuracy, from the same seeds. {EXPLAINED}{without} {conditions}"
    )
    wide, narrow = (partial(draw_changes, changes, width) for width in (WIDTH, NARROW))
    yield Figure(name, title, caption, FIELD, wide, narrow=narrow)
