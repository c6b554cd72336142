"""What each mistake is worth: the change of the accuracy when it alone is corrected."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.judge.results import described
from bench.show.figures.changes import EXPLAINED, Change, draw_changes
from bench.show.figures.figure import FIELD, Absent, Figure
from bench.show.figures.style import NARROW, WIDTH, look
from bench.show.material import Material
from bench.show.tables.mistakes import mistakes

NAME, TITLE = "mistakes", "What is each mistake worth? Test accuracy when it alone is corrected"


def make(material: Material) -> Iterator[Figure | Absent]:
    """Give the figure."""
    changes = [
        Change(one.approach, one.rung.name, one.accuracy, look(one.approach, material.approaches).colour)
        for one in mistakes(material)
        if one.accuracy
    ]
    if not changes:
        yield Absent(NAME, TITLE, FIELD, "no change is measured; python -m bench ladder NAME --run does")
        return
    seeds = {seed for change in changes for seed in change.paired.seeds}
    conditions = described((material.profile, material.device, material.precision), seeds)
    caption = f"Corrected minus published, all other mistakes left. {EXPLAINED} Common protocol. {conditions}"
    wide, narrow = (partial(draw_changes, changes, width) for width in (WIDTH, NARROW))
    yield Figure(NAME, TITLE, caption, FIELD, wide, narrow=narrow)
