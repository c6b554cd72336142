"""feldman2018's regression: the plain network and the posterior's mean with its band, at the points and far away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from bench.core.records import Record
from bench.data.splits import toy_split
from bench.show.figures.figure import Absent, Figure
from bench.show.figures.style import INK, REPORTED, WIDTH, Axes, Drawing, canvas, look
from bench.show.material import Material

DOCUMENT, NAME = "feldman2018", "feldman2018-toys"
TITLE = "Six points, a plain network and a Bayesian one, near the data and far from it"
PANELS = (
    ("toy_near", 2.0, 1.0),
    ("toy_near", 5.0, 3.0),
    ("toy_far", 100.0, 3.0),
)  # array, reach of x, room around the curves


def make(material: Material) -> Iterator[Figure | Absent]:
    """Give the figure."""
    plain, bayes = material.finished("toy_mlp"), material.finished("toy_bbb")
    absent = [name for name, found in (("toy_mlp", plain), ("toy_bbb", bayes)) if not found]
    if absent:
        yield Absent(NAME, TITLE, DOCUMENT, material.not_run(f"{' and '.join(absent)} published x common"))
        return
    others = "; thin: the other seeds" if max(len(plain), len(bayes)) > 1 else ""
    band = bayes[0].metrics
    widths = ", ".join(
        f"{band[key]:.2f} on -{reach}..{reach}"
        for key, reach in (("toy/band_width_near", 5), ("toy/band_width_far", 100))
        if band.get(key) is not None
    )
    caption = (
        "Black: the six points; grey dotted: the polynomial that they lie on. Band: 2.5 to 97.5 % of the networks "
        f"drawn (the function alone, without observation noise), mean width {widths} target units{others}. The "
        "document shows the plain network on -2..2 and -100..100 and the posterior on -5..5 and -100..100. "
        f"{material.conditions([*plain, *bayes])}"
    )
    yield Figure(NAME, TITLE, caption, DOCUMENT, partial(_draw, plain, bayes))


def _draw(plain: Sequence[Record], bayes: Sequence[Record]) -> Drawing:
    """Return the drawing: a panel for each reach of x."""
    drawing = canvas(WIDTH, 2.9)
    for number, (axes, panel) in enumerate(zip(drawing.subplots(1, len(PANELS)), PANELS, strict=True)):
        _panel(axes, *panel, plain, bayes)
        axes.set_xlabel("x [input units]")
        if number == 0:
            axes.set_ylabel("y [target units]")
    handles, labels = axes.get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=5)
    return drawing


def _panel(axes: Axes, name: str, reach: float, room: float, plain: Sequence[Record], bayes: Sequence[Record]) -> None:
    shown = []
    for records, approach, label, line in (
        (plain, "toy_mlp", "plain network", "--"),
        (bayes, "toy_bbb", "posterior mean", "-"),
    ):
        colour = look(approach).colour
        for number, record in reversed([*enumerate(records)]):
            curve = getattr(record.arrays, name)
            inside = np.abs(np.array(curve.x)) <= reach * 1.001
            x, mean = np.array(curve.x)[inside], np.array(curve.mean)[inside]
            first = number == 0
            width, alpha = (1.6, 1.0) if first else (0.6, 0.5)
            axes.plot(x, mean, line, color=colour, linewidth=width, alpha=alpha, label=label if first else None)
            shown.append(mean)
            if first and approach == "toy_bbb":
                low, high = np.array(curve.lower)[inside], np.array(curve.upper)[inside]
                axes.fill_between(x, low, high, color=colour, alpha=0.3, linewidth=0, label="95 % of the networks")
                shown += [low, high]
    points = toy_split()
    shown.append(points.y.numpy().reshape(-1))
    grid = np.linspace(-reach, reach, 201)
    axes.plot(grid, -(grid**4) + 3 * grid**2 + 1, ":", color=REPORTED, label="polynomial", zorder=1)
    axes.plot(points.x.reshape(-1), points.y.reshape(-1), "o", color=INK, markersize=4, label="six points", zorder=5)
    everything = np.concatenate(shown)
    axes.set_ylim(everything.min() - room, everything.max() + room)
    axes.set_xlim(-1.04 * reach, 1.04 * reach)
    axes.set_title(f"x from -{reach:g} to {reach:g}")
