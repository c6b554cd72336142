"""The test error against the cost: seconds of training, and milliseconds of answering."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from matplotlib.ticker import LogLocator

from bench.show.figures.figure import FIELD, Absent, Figure
from bench.show.figures.style import FAINT, NARROW, WIDTH, Axes, Drawing, canvas, look
from bench.show.inputs import Inputs
from bench.show.tables.further import counted_times

NAME, TITLE = "cost", "Accuracy against the cost of training and of answering"


class Point(NamedTuple):
    """The error and the times of one approach with one recipe."""

    approach: str
    recipe: str
    error: float  # percent
    training: float | None  # seconds
    answering: float | None  # milliseconds an image
    counts: bool  # the times count: no other work on the machine, no seeds trained together


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give the figure."""
    points, shown, draws = [], [], 0.0
    for recipe in ("published", "corrected"):
        for approach in inputs.classifiers(recipe):
            accuracy = inputs.sample(approach, recipe, "common", "mnist/accuracy")
            if accuracy.mean is not None:
                points.append(_point(inputs, approach, recipe, 100 * (1 - accuracy.mean)))
                shown.append(accuracy)
                of_record = inputs.sample(approach, recipe, "common", "timings/predict_draws")
                draws = max((draws, *of_record.values))
    if not points:
        yield Absent(NAME, TITLE, FIELD, inputs.not_run("an approach measured by protocol common"))
        return
    caption = (
        "Error of the mean probability on the test set; down and left is better. Training: the whole fit. Answering: "
        f"an image with all draws ({draws:g}; a deterministic network has one), of the whole test set at once. Filled: "
        "published recipe; hollow: corrected, joined to it. A cross on a mark: the times show the order of magnitude "
        "alone, because the machine had other work or several seeds trained together. "
        f"{inputs.conditions(shown)}"
    )
    wide, narrow = (partial(_draw, points, inputs.results.approaches, width) for width in (WIDTH, NARROW))
    yield Figure(NAME, TITLE, caption, FIELD, wide, narrow=narrow)


def _point(inputs: Inputs, approach: str, recipe: str, error: float) -> Point:
    (training, counts), (spent, _), (images, _) = (
        counted_times(inputs, approach, recipe, "common", f"timings/{name}")
        for name in ("fit_s", "predict_s", "predict_images")
    )
    answering = [1000 * one / images.by_seed[seed] for seed, one in spent.by_seed.items() if images.by_seed.get(seed)]
    seconds, milliseconds = (statistics.median(found) if found else None for found in (training.values, answering))
    return Point(approach, recipe, error, seconds, milliseconds, counts)


def _draw(points: Sequence[Point], names: Sequence[str], width: float) -> Drawing:
    """Return the drawing: the panels beside each other, or on a narrow page one above the other."""
    is_narrow = width < WIDTH
    drawing = canvas(width, 6.2 if is_narrow else 3.4)
    left, right = drawing.subplots(*((2, 1) if is_narrow else (1, 2)), sharey=True)
    _panel(left, "training", "training [s]", points, names)
    _panel(right, "answering", "answering, all draws [ms an image]", points, names)
    for axes in (left, right) if is_narrow else (left,):
        axes.set_ylabel("test error [% of images]")
    handles, names = right.get_legend_handles_labels()
    across = 2 if is_narrow else 6
    drawing.legend(handles, names, loc="outside lower center", ncols=across, handletextpad=0.2, columnspacing=1.2)
    return drawing


def _panel(axes: Axes, field: str, axis: str, points: Sequence[Point], names: Sequence[str]) -> None:
    for approach in dict.fromkeys(point.approach for point in points):
        mine = look(approach, names)
        found = [point for point in points if point.approach == approach and getattr(point, field) is not None]
        axes.plot([getattr(p, field) for p in found], [p.error for p in found], color=mine.colour, linewidth=0.7)
        for point in found:
            x, y, colour = getattr(point, field), point.error, mine.colour
            fill, label, cross = ("full", approach, FAINT) if point.recipe == "published" else ("none", None, colour)
            axes.plot(x, y, mine.marker, color=colour, fillstyle=fill, markersize=5.5, label=label, zorder=3)
            if not point.counts:
                axes.plot(x, y, "x", color=cross, markersize=3, zorder=4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.xaxis.set_major_formatter("{x:g}")
    ticks = (1, 2, 3, 5, 10, 20, 50, 90)
    axes.set_yticks(ticks, map(str, ticks))
    axes.minorticks_off()
    errors = [point.error for point in points]
    axes.set_ylim(max(0.3, 0.85 * min(errors)), 1.2 * max(errors))
    axes.set_xlabel(axis)
