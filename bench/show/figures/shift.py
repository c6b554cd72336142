"""How right and how sure each method is of digits that are turned further and further."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean

from bench.core.metric_table import SHARE_SURE, SURE
from bench.core.records import Record
from bench.measure.metrics.shifts import ROTATED, STEPS, step_key
from bench.show.figures.figure import FIELD, Absent, Figure
from bench.show.figures.layout import small_multiples
from bench.show.figures.style import COLOURS, FAINT, Drawing
from bench.show.material import Material
from bench.show.tables.methods import PLAIN, Row, rows

NAME, TITLE = "shift", "Turned digits: how right is each method, and how sure?"
CURVES = {"accuracy": ("right", "-"), SHARE_SURE: (f"{100 * SURE:g} % sure", "--")}


def make(material: Material) -> Iterator[Figure | Absent]:
    """Give the figure; nothing without records of methods by protocol shift."""
    found = [row for row in rows(material.results, material.of_other_group("methods").results) if row.shifted]
    if not found:
        return
    plain = next((row for row in found if row.name.startswith(PLAIN)), None)
    counts = sorted({len(row.shifted) for row in found})
    caption = (
        f"Share of images that are answered rightly (solid), and of which the method is at least {100 * SURE:g} % sure "
        "(dashed): every tenth test image, turned to the left about its centre; mean of the seeds. A method that knows "
        "its limits is never more often sure than right. Grey: the plain network, "
        f"{plain.name if plain else 'which has no such records'}. Turned by 180 degrees, a 6 looks like a 9. "
        f"Seeds: {' or '.join(map(str, counts))}. {material.conditions([r for row in found for r in row.shifted])}"
    )
    yield Figure(NAME, TITLE, caption, FIELD, partial(_draw, found, plain))


def curve(records: Sequence[Record], name: str) -> list[float]:
    """Return the mean over records of a metric at every angle; NaN where none has it."""
    found = [[record.metrics.get(step_key(ROTATED, step, name)) for record in records] for step in STEPS[ROTATED]]
    return [fmean([one for one in values if one is not None] or [math.nan]) for values in found]


def _draw(methods: Sequence[Row], plain: Row | None) -> Drawing:
    """Return the drawing: a panel for each method."""
    drawing, panels = small_multiples(len(methods), 1.5, "angle [degrees]", "share of images")
    for axes, row in zip(panels, methods, strict=True):
        for colour, (name, (label, line)) in zip(COLOURS, CURVES.items(), strict=False):
            if plain is not None and plain is not row:
                axes.plot(STEPS[ROTATED], curve(plain.shifted, name), color=FAINT, linestyle=line, linewidth=0.9)
            axes.plot(STEPS[ROTATED], curve(row.shifted, name), color=colour, linestyle=line, label=label)
        axes.set_title(row.name)
        axes.set_ylim(0, 1.02)
        axes.set_xlim(0, STEPS[ROTATED][-1])
        axes.set_xticks(range(0, 181, 45))
    panels[0].legend(loc="upper right")
    return drawing
