"""Figures of the reference posteriors: a reference's diagnostics, and what closeness to the posterior is worth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from statistics import fmean
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import LogLocator

from bench.posterior.columns import AUROC, NLL, quality_of_hmc, stored_columns
from bench.posterior.reference import (
    ACCEPTED,
    ALL,
    LEAST_ESS,
    LEVELS,
    MOST_RHAT,
    N_CHAINS,
    TOTAL_VARIATION,
    Reference,
)
from bench.posterior.tasks import DIGITS
from bench.show.figures.figure import LECTURE, Figure, spread
from bench.show.figures.style import COLOURS, INK, LINES, MARKERS, REPORTED, SMALL, WIDTH, Axes, Drawing, canvas
from bench.show.inputs import Inputs
from bench.show.tables.columns import COLD, cold_rows, means

QUALITIES = {f"{DIGITS}/{NLL}": "NLL of digits [nats]", f"clothes/{AUROC}": "AUROC: clothes or digits?"}
LINE = 0.036  # height of a name, as a share of the axis


class Point(NamedTuple):
    """A method in a panel."""

    name: str
    distance: float
    quality: float


def make(inputs: Inputs) -> Iterator[Figure]:
    """Give a figure for each task that has trained methods, and one of cold posteriors."""
    for column in stored_columns(inputs.store.root):
        # A regression has no rows but the test rows.
        if not column.reference.sets or not (found := means(column)):
            continue
        panels = {
            label: [
                Point(name, one[f"{key.split('/')[0]}/{TOTAL_VARIATION}"], one[key])
                for name, one in found.items()
                if key in one
            ]
            for key, label in QUALITIES.items()
        }
        caption = (
            "Total variation to the reference posterior (HMC) against what a user wants: above of digits, below of "
            "clothes. Means over training seeds; grey: twice the floor, within which "
            "nothing is ranked; dashed: the posterior itself."
        )
        title = f"Nearer to the posterior, better? {column.task.title}"
        own = quality_of_hmc(column)
        floors = [2 * column.reference.floor[name][TOTAL_VARIATION] for name in (DIGITS, "clothes")]
        yield Figure(
            f"posterior-{column.name}",
            title,
            caption,
            LECTURE,
            partial(_draw_worth, panels, floors, [own.get(key) for key in QUALITIES]),
        )
    if COLD.is_relative_to(inputs.store.root.resolve()) and COLD.is_file():
        caption = (
            "scikit-learn's digits, 1,000 rows, 64-50-10, prior sd 1: HMC on the posterior to the power 1/T; a point "
            "is a chain of 1,000 draws."
        )
        yield Figure("posterior-cold", "Does a colder posterior predict better?", caption, LECTURE, _draw_cold)


def _draw_worth(panels: dict[str, list[Point]], floors: list[float], own: list[float | None]) -> Drawing:
    drawing = canvas(WIDTH, 8.0)
    every = zip(drawing.subplots(len(panels), 1), panels.items(), floors, own, strict=True)
    for axes, (label, points), floor, hmc in every:
        _names(axes, points)
        if hmc is not None:
            axes.axhline(hmc, color=REPORTED, linestyle="--", linewidth=0.9)
        axes.axvspan(0.001, floor, color=REPORTED, alpha=0.2, linewidth=0)
        axes.set(xlabel="total variation to the posterior", ylabel=label)
    return drawing


def _names(axes: Axes, points: list[Point]) -> None:
    """Draw points with their names, which do not overlap; distances and losses spread over decades."""
    is_loss = max(point.quality for point in points) > 1
    heights = [math.log(point.quality) if is_loss else point.quality for point in points]
    places = spread(heights, LINE * (max(heights) - min(heights) or 1.0))
    left, right = (pick(point.distance for point in points) for pick in (min, max))
    for point, height in zip(points, places, strict=True):
        y = math.exp(height) if is_loss else height
        axes.plot(point.distance, point.quality, "o", color=COLOURS[0], markersize=4)
        axes.annotate(
            point.name,
            (point.distance, point.quality),
            (right * 1.3, y),
            arrowprops={"arrowstyle": "-", "color": REPORTED, "linewidth": 0.4},
            fontsize=SMALL,
            color=INK,
            va="center",
            annotation_clip=False,
        )
    if is_loss:
        axes.set_yscale("log")
    axes.set(xscale="log", xlim=(left / 5, right * 1.2))
    for axis in (axes.xaxis, axes.yaxis) if is_loss else (axes.xaxis,):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
    axes.minorticks_off()


COLD_PANELS = {"nll": "NLL of digits [nats]", "auroc_clothes": "AUROC: clothes or digits?"}


def _draw_cold() -> Drawing:
    rows = cold_rows()
    drawing = canvas(WIDTH, 2.4)
    for axes, (key, label) in zip(drawing.subplots(1, len(COLD_PANELS)), COLD_PANELS.items(), strict=True):
        temperatures = sorted({row["temperature"] for row in rows})
        at = [fmean(row[key] for row in rows if row["temperature"] == one) for one in temperatures]
        axes.plot(temperatures, at, color=COLOURS[0])
        axes.plot([row["temperature"] for row in rows], [row[key] for row in rows], "o", color=COLOURS[0], markersize=3)
        axes.set(xscale="log", xlabel="temperature T", ylabel=label)
        axes.set_xticks(temperatures, [f"{one:g}" for one in temperatures])
        axes.minorticks_off()
    return drawing


def drawn(name: str, reference: Reference) -> Drawing:
    """Return the figure; call it inside `style.style()`. Grey lines and bands are what acceptance asks for."""
    drawing = canvas(WIDTH, 4.6)
    drawing.suptitle(f"Reference posterior of task {name}", fontsize=9)
    (energies, rhat), (acceptance, ess) = drawing.subplots(2, 2)
    _energies(energies, reference)
    _acceptance(acceptance, reference)
    percent, across = np.array(LEVELS) * 100, "% of the predicted numbers at most so large"
    for number, one in enumerate(reference.about.chain_sets):
        for axes, found in ((rhat, one.rhat), (ess, one.ess)):
            axes.plot(percent, found[ALL], MARKERS[number], color=COLOURS[number], linestyle=LINES[number])
    rhat.axhline(MOST_RHAT, color=REPORTED)
    rhat.set(title="Split R-hat of what is predicted", xlabel=across)
    ess.axhline(LEAST_ESS, color=REPORTED)
    ess.set(title="Effective sample size of a chain set", xlabel=across, ylim=(0, None))
    return drawing


def _energies(axes: Axes, reference: Reference) -> None:
    """Draw each chain's energy by draw; chains of the second set are dashed."""
    for chain, energies in enumerate(reference.energies):
        number = chain // N_CHAINS
        axes.plot(energies, color=COLOURS[number], linestyle=LINES[number], linewidth=0.5, alpha=0.7)
    axes.set(title="Energy of the eight chains", xlabel="draw", ylabel="nats")


def _acceptance(axes: Axes, reference: Reference) -> None:
    axes.axhspan(*ACCEPTED, color=REPORTED, alpha=0.2, linewidth=0)
    for number, one in enumerate(reference.about.chain_sets):
        chains = np.arange(len(one.acceptance)) + 1 + N_CHAINS * number
        label = f"set {number + 1}: step {one.step:.3g}, {one.divergences} divergences"
        axes.plot(chains, one.acceptance, MARKERS[number], color=COLOURS[number], label=label)
    axes.set(title="Mean acceptance", xlabel="chain", ylim=(0, 1))
    axes.legend(loc="lower left")
