"""What the quality of a method costs; how right and how sure it is of digits that are turned or moved further."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean

from matplotlib.ticker import LogLocator

from bench.core.metric_table import SHARE_SURE, SURE
from bench.core.records import Record
from bench.measure.metrics.shifts import ROTATED, STEPS, TRANSLATED, step_key
from bench.show.figures.figure import FIELD, Figure, small_multiples, spread
from bench.show.figures.style import COLOURS, FAINT, INK, SMALL, WIDTH, Axes, Drawing, canvas
from bench.show.material import Material
from bench.show.tables.methods import PLAIN, RANKED, Row, half_width, rows

NAME, TITLE = "methods", "What the quality of a method costs"
LINE = 0.045  # height of a line of text, as a share of the range of the losses
SIMILAR = 2.6  # costs whose ratio is smaller stand so near that their names would overlap
AXES = {"answer": "an answer [passes of the plain network]", "training": "training [trainings of the plain network]"}
NINE = "by 180 degrees, a 6 looks like a 9"
KINDS = {
    ROTATED: ("shift", "Turned", f"turned to the left about its centre ({NINE})"),
    TRANSLATED: ("shift-moved", "Moved", "moved to the right, down, to the left or up"),
}
"""Name of the figure, and how its digits were changed, in a word and in words."""
ACROSS = {ROTATED: ("angle [degrees]", 45), TRANSLATED: ("distance [pixels]", 2)}  # the axis; between its labels
CURVES = {"accuracy": ("right", "-"), SHARE_SURE: (f"{100 * SURE:g} % sure", "--")}


def make(material: Material) -> Iterator[Figure]:
    """Give the figures of costs and of shifted digits for which methods have records; nothing without any."""
    methods = material.of_other_group("methods").results
    found = rows(material.results, methods)
    with_costs, shifted = [row for row in found if row.costs], [row for row in found if row.shifted]
    if methods.records and with_costs:
        yield _costs(material, with_costs)
    if shifted:
        yield from _shifts(material, shifted)


def _costs(material: Material, found: Sequence[Row]) -> Figure:
    counts = sorted({len(row.numbers[RANKED]) for row in found})
    caption = (
        "Negative log-likelihood on the test set, mean and 95 % interval of the mean; down and left is better. All on "
        "the network 784-400-400-10. Filled and joined: no other method is both cheaper and better by its mean, which "
        "neighbours may owe to chance (the places of table methods say so). Costs are multiplications, as in it. "
        f"Seeds: {' or '.join(map(str, counts))}. {material.conditions([r for row in found for r in row.records])}"
    )
    return Figure(NAME, TITLE, caption, FIELD, partial(_draw, found))


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the places of the points (cost, loss) that no other point beats in both, by cost.

    Of equal points, the first counts.
    """
    order = sorted(range(len(points)), key=lambda place: points[place])
    found: list[int] = []
    for place in order:
        if not found or points[place][1] < points[found[-1]][1]:
            found.append(place)
    return found


def label_heights(points: Sequence[tuple[float, float]]) -> list[float]:
    """Return where the names of the points (cost, loss) stand, so that those of similar cost do not overlap.

    The axis of losses is logarithmic: names are a line apart if their losses differ by a factor of (largest loss /
    smallest loss) to the power of `LINE`.
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
    """Return the drawing: a panel for each cost."""
    drawing = canvas(WIDTH, 3.8)
    for axes, (cost, label) in zip(drawing.subplots(1, 2, sharey=True), AXES.items(), strict=True):
        _panel(axes, found, cost)
        axes.set_xlabel(label)
    drawing.axes[0].set_ylabel("negative log-likelihood [nats a digit]")
    return drawing


def _panel(axes: Axes, found: Sequence[Row], cost: str) -> None:
    points = [(row.costs[cost], row.mean(RANKED)) for row in found]
    best = front(points)
    labels = label_heights(points)
    axes.plot(*zip(*(points[place] for place in best), strict=True), color=FAINT, linewidth=0.8, zorder=1)
    for place, (row, (x, y)) in enumerate(zip(found, points, strict=True)):
        colour = COLOURS[0] if place in best else INK
        fill = colour if place in best else "none"
        half = half_width(row.numbers[RANKED])
        axes.errorbar(x, y, yerr=half, fmt="o", color=colour, markerfacecolor=fill, linewidth=0.8, zorder=2)
        axes.annotate(row.name, (x, labels[place]), (4, 3), textcoords="offset points", fontsize=SMALL, color=colour)
    for axis, scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
        scale("log")
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
    axes.minorticks_off()


def _shifts(material: Material, found: Sequence[Row]) -> Iterator[Figure]:
    """Give a figure of turned and one of moved digits, from records by protocol shift."""
    plain = next((row for row in found if row.name.startswith(PLAIN)), None)
    counts = sorted({len(row.shifted) for row in found})
    for shift, (name, changed, how) in KINDS.items():
        caption = (
            f"Share of images that are answered rightly (solid), and of which the method is at least {100 * SURE:g} % "
            f"sure (dashed): every tenth test image, {how}; mean of the seeds. A method that knows its limits is "
            "never more often sure than right. Grey: the plain network, "
            f"{plain.name if plain else 'which has no such records'}. "
            f"Seeds: {' or '.join(map(str, counts))}. {material.conditions([r for row in found for r in row.shifted])}"
        )
        title = f"{changed} digits: how right is each method, and how sure?"
        yield Figure(name, title, caption, FIELD, partial(_draw_shift, shift, found, plain))


def curve(records: Sequence[Record], shift: str, name: str) -> list[float]:
    """Return the mean over records of a metric at every step of a shift; NaN where none has it."""
    found = [[record.metrics.get(step_key(shift, step, name)) for record in records] for step in STEPS[shift]]
    return [fmean([one for one in values if one is not None] or [math.nan]) for values in found]


def _draw_shift(shift: str, methods: Sequence[Row], plain: Row | None) -> Drawing:
    """Return the drawing: a panel for each method."""
    steps, (across, ticks) = STEPS[shift], ACROSS[shift]
    drawing, panels = small_multiples(len(methods), 1.5, across, "share of images")
    for axes, row in zip(panels, methods, strict=True):
        for colour, (name, (label, line)) in zip(COLOURS, CURVES.items(), strict=False):
            if plain is not None and plain is not row:
                axes.plot(steps, curve(plain.shifted, shift, name), color=FAINT, linestyle=line, linewidth=0.9)
            axes.plot(steps, curve(row.shifted, shift, name), color=colour, linestyle=line, label=label)
        axes.set_title(row.name)
        axes.set_ylim(0, 1.02)
        axes.set_xlim(0, steps[-1])
        axes.set_xticks(range(0, steps[-1] + 1, ticks))
    panels[0].legend(loc="upper right")
    return drawing
