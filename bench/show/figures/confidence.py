"""Of which share of digits, letters, clothes and noise is each network at least 99 % sure?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from bench.core.metric_table import SURE
from bench.show.figures.figure import FIELD, Absent, Figure
from bench.show.figures.style import COLOURS, FAINT, INK, NARROW, REPORTED, WIDTH, Axes, Drawing, canvas
from bench.show.inputs import Inputs
from bench.show.tables.confidence import RECIPES, Confidence, RecipePlace, confidence

NAME, TITLE = "confidence", "At least 99 % sure: of what does each network say so?"
DIGITS = "digits"
MARKS = {
    DIGITS: ("digits", "o", REPORTED),
    "letters": ("letters", "s", COLOURS[1]),
    "fashion_mnist": ("clothes", "^", COLOURS[0]),
    "noise_gaussian": ("noise", "D", COLOURS[2]),
}


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give the figure."""
    found = {place: one for place, one in confidence(inputs).items() if place.approach in inputs.classifiers()}
    if not found:
        reason = inputs.not_run("an approach measured by protocol common with per-row scores (.npz)")
        yield Absent(NAME, TITLE, FIELD, reason)
        return
    records = [record for one in found.values() for record in one.records]
    caption = (
        f"Share of images whose largest mean probability is at least {SURE:g}. Grey circles: the test digits, where "
        "a network may be sure if its answer is right. Coloured: letters A to J, clothes and Gaussian noise, where "
        "it should never be sure. Large: the corrected recipe; small and pale: as published. "
        f"{inputs.conditions(records)}"
    )
    narrow = partial(_draw, found, NARROW)
    yield Figure(NAME, TITLE, caption, FIELD, partial(_draw, found, WIDTH), narrow=narrow)


def _draw(found: Mapping[RecipePlace, Confidence], width: float) -> Drawing:
    """Return the drawing: a row for each approach, a mark for each data set and recipe."""
    approaches = list(dict.fromkeys(place.approach for place in found))
    drawing = canvas(width, 0.9 + 0.5 * len(approaches))
    axes = drawing.subplots()
    for row, approach in enumerate(approaches):
        axes.axhline(row, color=FAINT, linewidth=0.6, zorder=0)
        for recipe in RECIPES:
            one = found.get(RecipePlace(approach, recipe))
            if one is not None:
                _row(axes, row, one, recipe)
    for label, marker, colour in MARKS.values():
        axes.plot([], [], marker, color=colour, markersize=6, label=label)
    is_narrow = width < WIDTH
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2 if is_narrow else len(MARKS), borderaxespad=0.1)
    axes.set_yticks(range(len(approaches)), [name.replace("_", "\n", 1) if is_narrow else name for name in approaches])
    axes.set_ylim(len(approaches) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(-3, 103)
    axes.set_xlabel("at least 99 % sure [% of images]", color=INK)
    return drawing


def _row(axes: Axes, row: int, one: Confidence, recipe: str) -> None:
    place, size, alpha = (row - 0.12, 7, 1) if recipe == "corrected" else (row + 0.22, 4, 0.5)
    for name, (_, marker, colour) in MARKS.items():
        sample = one.digits if name == DIGITS else one.no_digits[name]
        if sample.mean is not None:
            axes.plot(sample.mean, place, marker, color=colour, markersize=size, alpha=alpha)
