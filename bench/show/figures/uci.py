"""Printed values of the UCI table beside ours, and the least squares that nobody prints beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bench.core.errors import DataMissing
from bench.show.figures.style import COLOURS, REPORTED, SMALL, WIDTH, Axes, Drawing, canvas
from bench.show.tables.uci import FLOOR
from bench.uci.data import sets
from bench.uci.published import Printed, printed, tables
from bench.uci.scores import Run
from bench.uci.verdicts import Runs, metric_of, over_splits

QUANTITIES = {"rmse": "RMSE", "ll": "log-likelihood [nats a row]"}
TITLE = "Printed (grey) and ours, 95 % interval of the mean over splits; dashed: linear regression"
Stored = Mapping[Run, Mapping[str, Runs]]


class Line(NamedTuple):
    """A method of ours on a set, and what is printed of it."""

    label: str
    mean: float  # over splits and training seeds
    half: float  # half-width of its interval over splits
    printed: tuple[float, ...]


def lines(found: Stored, name: str, metric: str) -> tuple[list[Line], float | None]:
    """Return the lines of a set for rmse or ll, and the number of the linear regression."""
    made, floor = [], None
    for run, measured in sorted(found.items()):
        if run.set != name:
            continue
        theirs = [one for one in printed() if (one.set, one.metric) == (name, metric) and _is_of(run, one)]
        keys = {metric_of(one, tables().columns[one.column]) for one in theirs} - {None}
        key = "rmse" if metric == "rmse" else "ll_gaussian" if keys == {"ll_gaussian"} else "ll_mixture"
        if not measured.get(key):
            continue
        mean, half = over_splits(name, measured[key])
        if run.method == FLOOR:
            floor = mean
        else:
            made.append(Line(f"{run.method}, {run.epochs}", mean, half, tuple({one.number for one in theirs})))
    return made, floor


def _is_of(run: Run, one: Printed) -> bool:
    column = tables().columns[one.column]
    return (column.method, column.epochs_of(one.set)) == (run.method, run.epochs)


def drawn(found: Stored) -> Drawing:
    """Return the figure, a row of two panels for each set that has runs; call it inside `style.style()`.

    Raises:
        DataMissing: there are no runs.
    """
    names = [name for name in sets() if any(run.set == name for run in found)]
    if not names:
        raise DataMissing("there are no whole runs to draw; python -m bench run --group uci makes them")
    rows = [[lines(found, name, metric) for metric in QUANTITIES] for name in names]
    heights = [0.5 + 0.16 * max(len(made) for made, _ in row) for row in rows]
    drawing = canvas(WIDTH, 0.5 + sum(heights))
    drawing.suptitle(TITLE, fontsize=9)
    panels = drawing.subplots(len(names), 2, squeeze=False, gridspec_kw={"height_ratios": heights})
    for place, (name, row) in enumerate(zip(names, rows, strict=True)):
        for axes, (made, floor) in zip(panels[place], row, strict=True):
            _panel(axes, made, floor)
        panels[place][0].set_title(name)
        panels[place][1].set_yticklabels([])
    for axes, label in zip(panels[-1], QUANTITIES.values(), strict=True):
        axes.set_xlabel(label)
    return drawing


def _panel(axes: Axes, made: list[Line], floor: float | None) -> None:
    for row, line in enumerate(made):
        axes.errorbar(line.mean, row, xerr=line.half, fmt="o", color=COLOURS[0], linewidth=1.0)
        axes.plot(line.printed, [row] * len(line.printed), "|", color=REPORTED, markersize=9, zorder=3)
    if floor is not None:
        axes.axvline(floor, color=COLOURS[1], linestyle="--", linewidth=0.9)
    axes.set_yticks(range(len(made)), [line.label for line in made])
    axes.tick_params(axis="y", labelsize=SMALL, length=0)
    axes.set_ylim(len(made) - 0.4, -0.6)
    axes.margins(x=0.08)
