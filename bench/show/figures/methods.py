"""The loss of each method against its cost; how right and how sure it is on digits that are turned."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from matplotlib.ticker import LogLocator

from bench.core.metric_table import SHARE_SURE, SURE
from bench.measure.metrics.shifts import ROTATED, STEPS, step_key
from bench.show.figures.figure import FIELD, Figure, small_multiples, spread
from bench.show.figures.style import COLOURS, FAINT, INK, SMALL, WIDTH, Axes, Drawing, canvas
from bench.show.inputs import Inputs
from bench.show.tables.methods_rows import PLAIN, RANKED, Row, half_width, rows

NAME, TITLE = "methods", "What the quality of a method costs"
LINE = 0.04  # height of a line of text, as a share of the range of the losses
SIMILAR = 1.9  # points whose costs have a smaller ratio stand so near that their names would overlap
AXES = {"answer": "an answer [passes of the plain network]", "training": "training [trainings of the plain network]"}


def make(inputs: Inputs) -> Iterator[Figure]:
    """Give a figure of costs if methods have them, and one of turned digits if they were measured."""
    every = rows(inputs)
    found = [row for row in every if row.costs]
    if inputs.of("methods").results.records and found:
        yield _costs(inputs, found)
    shifted = [row for row in every if row.sample("shift", FIRST).n]
    if shifted:
        yield _shift(inputs, shifted)


def _costs(inputs: Inputs, found: Sequence[Row]) -> Figure:
    counts = sorted({row.numbers[RANKED].n for row in found})
    caption = (
        "Negative log-likelihood on the test set, mean and 95 % interval of the mean; down and left is better. All on "
        "the network 784-400-400-10. Filled and joined: no other method is both cheaper and better by its mean. "
        "Between neighbours this can be chance; column place of table methods says where. Costs are multiplications. "
        f"Seeds: {' or '.join(map(str, counts))}. {inputs.conditions(row.numbers[RANKED] for row in found)}"
    )
    return Figure(NAME, TITLE, caption, FIELD, partial(_draw, found))


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the Pareto front: the places of the points (cost, loss) that no other beats in both, sorted by cost.

    Of equal points, only the first is in it.
    """
    order = sorted(range(len(points)), key=lambda place: points[place])
    found: list[int] = []
    for place in order:
        if not found or points[place][1] < points[found[-1]][1]:
            found.append(place)
    return found


def label_heights(points: Sequence[tuple[float, float]]) -> list[float]:
    """Return the height, as a loss, of the name of each point (cost, loss): names of similar cost do not overlap.

    The axis of losses is logarithmic. The height of a line of text is a factor of (largest / smallest loss) ** `LINE`.
    """
    losses = [math.log(loss) for _, loss in points]
    gap = LINE * (max(losses) - min(losses))
    columns: list[list[int]] = []  # places of points whose names would cover each other
    for place in sorted(range(len(points)), key=lambda place: points[place][0]):
        if columns and points[place][0] < SIMILAR * points[columns[-1][-1]][0]:
            columns[-1].append(place)
        else:
            columns.append([place])
    heights = {
        place: math.exp(height)
        for column in columns
        for place, height in zip(column, spread([losses[place] for place in column], gap), strict=True)
    }
    return [heights[place] for place in range(len(points))]


def _draw(found: Sequence[Row]) -> Drawing:
    """Return the drawing: a panel for each cost, one above the other, because names at the right need room."""
    drawing = canvas(WIDTH, 7.0)
    for axes, (cost, label) in zip(drawing.subplots(2, 1), AXES.items(), strict=True):
        _panel(axes, found, cost)
        axes.set_xlabel(label)
        axes.set_ylabel("negative log-likelihood [nats a digit]")
    return drawing


def _panel(axes: Axes, found: Sequence[Row], cost: str) -> None:
    points = [(row.costs[cost], row.mean(RANKED)) for row in found]
    best = front(points)
    labels = label_heights(points)
    axes.plot(*zip(*(points[place] for place in best), strict=True), color=FAINT, linewidth=0.8, zorder=1)
    for place, (row, (x, y)) in enumerate(zip(found, points, strict=True)):
        colour = COLOURS[0] if place in best else INK
        fill = colour if place in best else "none"
        half = half_width(row.by_seed(RANKED))
        axes.errorbar(x, y, yerr=half, fmt="o", color=colour, markerfacecolor=fill, linewidth=0.8, zorder=2)
        name = axes.annotate(row.name, (x, labels[place]), (4, 3), textcoords="offset points", fontsize=SMALL)
        name.set(color=colour, annotation_clip=False)  # a name below the axis is drawn too
    for axis, scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
        scale("log")
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
    axes.minorticks_off()


SHIFT, SHIFT_TITLE = "shift", "Turned digits: how right is each method, and how sure?"
FIRST = step_key(ROTATED, STEPS[ROTATED][0], "accuracy")  # every record of protocol shift has it
CURVES = {"accuracy": ("right", "-"), SHARE_SURE: (f"{100 * SURE:g} % sure", "--")}


def _shift(inputs: Inputs, found: Sequence[Row]) -> Figure:
    plain = next((row for row in found if row.name.startswith(PLAIN)), None)
    measured = [row.sample("shift", FIRST) for row in found]
    counts = sorted({one.n for one in measured})
    caption = (
        f"Share of images that are answered rightly (solid), and of which the method is at least {100 * SURE:g} % "
        "sure (dashed): every tenth test image, turned to the left about its centre (by 180 degrees, a 6 looks like a "
        "9); mean of the seeds. A method that knows its limits is never more often sure than right. Grey: the plain "
        f"network, {plain.name if plain else 'which has no such records'}. "
        f"Seeds: {' or '.join(map(str, counts))}. {inputs.conditions(measured)}"
    )
    return Figure(SHIFT, SHIFT_TITLE, caption, FIELD, partial(_draw_shift, found, plain))


def curve(row: Row, name: str) -> list[float]:
    """Return the mean over seeds of a metric at every angle; NaN where none has it."""
    means = (row.sample("shift", step_key(ROTATED, step, name)).mean for step in STEPS[ROTATED])
    return [math.nan if mean is None else mean for mean in means]


def _draw_shift(methods: Sequence[Row], plain: Row | None) -> Drawing:
    """Return the drawing: a panel for each method."""
    steps = STEPS[ROTATED]
    drawing, panels = small_multiples(len(methods), 1.5, "angle [degrees]", "share of images")
    panels[0].set_ylim(0, 1.02)
    panels[0].set_xlim(0, steps[-1])
    panels[0].set_xticks(range(0, steps[-1] + 1, 45))
    for axes, row in zip(panels, methods, strict=True):
        for colour, (name, (label, line)) in zip(COLOURS, CURVES.items(), strict=False):
            if plain is not None and plain is not row:
                axes.plot(steps, curve(plain, name), color=FAINT, linestyle=line, linewidth=0.9)
            axes.plot(steps, curve(row, name), color=colour, linestyle=line, label=label)
        axes.set_title(row.name.replace("+", "\n+"))  # a long name takes two lines
    panels[0].legend(loc="upper right")
    return drawing
