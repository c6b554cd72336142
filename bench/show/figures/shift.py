"""How often methods are right and how often sure, on digits that are turned or moved further and further."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from bench.core.metric_table import SHARE_SURE, SURE
from bench.measure.metrics.shifts import ROTATED, STEPS, TRANSLATED, step_key
from bench.show.figures.figure import FIELD, Figure
from bench.show.figures.layout import small_multiples
from bench.show.figures.style import COLOURS, FAINT, Drawing
from bench.show.inputs import Inputs
from bench.show.tables.methods_rows import PLAIN, Row, rows

NINE = "by 180 degrees, a 6 looks like a 9"
KINDS = {
    ROTATED: ("shift", "Turned", f"turned to the left about its centre ({NINE})"),
    TRANSLATED: ("shift-moved", "Moved", "moved to the right, down, to the left or up"),
}
"""By shift: name of the figure, a word for its title, and for its caption how the digits were changed."""
ACROSS = {ROTATED: ("angle [degrees]", 45), TRANSLATED: ("distance [pixels]", 2)}  # the axis; between its labels
FIRST = step_key(ROTATED, STEPS[ROTATED][0], "accuracy")  # every record of protocol shift has it
CURVES = {"accuracy": ("right", "-"), SHARE_SURE: (f"{100 * SURE:g} % sure", "--")}


def make(inputs: Inputs) -> Iterator[Figure]:
    """Give a figure of turned and one of moved digits, if records of protocol shift are there."""
    found = [row for row in rows(inputs) if row.sample("shift", FIRST).n]
    if not found:
        return
    plain = next((row for row in found if row.name.startswith(PLAIN)), None)
    measured = [row.sample("shift", FIRST) for row in found]
    counts = sorted({one.n for one in measured})
    for shift, (name, changed, how) in KINDS.items():
        caption = (
            f"Share of images that are answered rightly (solid), and of which the method is at least {100 * SURE:g} % "
            f"sure (dashed): every tenth test image, {how}; mean of the seeds. A method that knows its limits is "
            "never more often sure than right. Grey: the plain network, "
            f"{plain.name if plain else 'which has no such records'}. "
            f"Seeds: {' or '.join(map(str, counts))}. {inputs.conditions(measured)}"
        )
        title = f"{changed} digits: how right is each method, and how sure?"
        yield Figure(name, title, caption, FIELD, partial(_draw_shift, shift, found, plain))


def curve(row: Row, shift: str, name: str) -> list[float]:
    """Return the mean over seeds of a metric at every step of a shift; NaN where none has it."""
    means = (row.sample("shift", step_key(shift, step, name)).mean for step in STEPS[shift])
    return [math.nan if mean is None else mean for mean in means]


def _draw_shift(shift: str, methods: Sequence[Row], plain: Row | None) -> Drawing:
    """Return the drawing: a panel for each method."""
    steps, (across, ticks) = STEPS[shift], ACROSS[shift]
    drawing, panels = small_multiples(len(methods), 1.5, across, "share of images")
    for axes, row in zip(panels, methods, strict=True):
        for colour, (name, (label, line)) in zip(COLOURS, CURVES.items(), strict=False):
            if plain is not None and plain is not row:
                axes.plot(steps, curve(plain, shift, name), color=FAINT, linestyle=line, linewidth=0.9)
            axes.plot(steps, curve(row, shift, name), color=colour, linestyle=line, label=label)
        axes.set_title(row.name.replace("+", "\n+"))  # a long name takes two lines
        axes.set_ylim(0, 1.02)
        axes.set_xlim(0, steps[-1])
        axes.set_xticks(range(0, steps[-1] + 1, ticks))
    panels[0].legend(loc="upper right")
    return drawing
