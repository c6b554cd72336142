"""feldman2018's figures: the regression on six points, and what two networks answer to images that are no digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from bench.core.records import Record
from bench.data.splits import toy_split
from bench.measure.metrics.arrays import FloatArray
from bench.show.figures.figure import Absent, Figure, Pixels, show_image
from bench.show.figures.style import INK, REPORTED, SMALL, WIDTH, Axes, Drawing, canvas, look
from bench.show.inputs import Inputs, images

DOCUMENT = "feldman2018"
TOYS, TOYS_TITLE = f"{DOCUMENT}-toys", "Six points, a plain network and a Bayesian one, near the data and far from it"
PANELS = (("toy_near", 2.0, 1.0), ("toy_near", 5.0, 3.0), ("toy_far", 100.0, 3.0))
"""Array, reach of x, room around the curves."""
ANSWERS = f"{DOCUMENT}-ood"
TITLE = "Predicted probabilities on images that are no digits: the plain network beside the Bayesian one"
PAIR = ("mlp", "linear_bbb")
SETS = (
    ("letters", "letter", 1),
    ("notmnist459", "letter", 1),
    ("fashion_mnist", "clothes", 2),
    ("noise_gaussian", "Gaussian noise", 2),
)
"""Data set, what it shows, and how many images of it."""


class DrawnImage(NamedTuple):
    """One image and the draws of both approaches."""

    title: str
    image: Pixels  # [28, 28]
    draws: tuple[FloatArray, ...]  # of each approach, probabilities [S, K]


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give both figures."""
    yield _toys(inputs)
    yield _answers(inputs)


def _toys(inputs: Inputs) -> Figure | Absent:
    plain, bayes = inputs.finished("toy_mlp"), inputs.finished("toy_bbb")
    absent = [name for name, found in (("toy_mlp", plain), ("toy_bbb", bayes)) if not found]
    if absent:
        return Absent(TOYS, TOYS_TITLE, DOCUMENT, inputs.not_run(f"{' and '.join(absent)} published x common"))
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
        f"{inputs.conditions([*plain, *bayes])}"
    )
    return Figure(TOYS, TOYS_TITLE, caption, DOCUMENT, partial(_draw_toys, plain, bayes))


def _draw_toys(plain: Sequence[Record], bayes: Sequence[Record]) -> Drawing:
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


def _answers(inputs: Inputs) -> Figure | Absent:
    records = [inputs.scored(name) for name in PAIR]
    absent = " and ".join(name for name, record in zip(PAIR, records, strict=True) if record is None)
    if absent:
        return Absent(ANSWERS, TITLE, DOCUMENT, inputs.not_run(f"{absent} published x common with raw draws"))
    kept = [record for record in records if record is not None]
    shared = {record.seed for record in kept}
    if len(shared) > 1:  # the noise of another seed is another image
        return Absent(ANSWERS, TITLE, DOCUMENT, f"the records of {' and '.join(PAIR)} have no seed in common; run both")
    found: list[DrawnImage] = []
    for name, title, count in SETS:
        scores = [inputs.scores(record) for record in kept]
        pixels = images(name, kept[0].seed)
        if isinstance(pixels, str) or any(f"{name}/draws" not in score for score in scores):
            continue
        for row in range(min(count, *(score[f"{name}/draws"].shape[1] for score in scores), len(pixels))):
            draws = tuple(np.exp(score[f"{name}/draws"][:, row].astype(np.float64)) for score in scores)
            found.append(DrawnImage(title, pixels[row], draws))
    if not found:
        return Absent(ANSWERS, TITLE, DOCUMENT, "the records keep no raw draws of images that are no digits")
    n_draws = [len(draws) for draws in found[0].draws]
    caption = (
        "The first images of each set that the records keep. Bars: mean probability of a class over draws "
        f"({', '.join(f'{name}: {n}' for name, n in zip(PAIR, n_draws, strict=True))}); lines: the middle 95 % of the "
        "draws; H: entropy of the mean, at most ln 10 = 2.30 nats. The document's seven hand-made images are lost. "
        f"Noise is drawn as the document draws it. {inputs.conditions(kept)}"
    )
    return Figure(ANSWERS, TITLE, caption, DOCUMENT, partial(_draw_answers, found))


def _draw_answers(answers: Sequence[DrawnImage]) -> Drawing:
    """Return the drawing: a column for each image, a row for each approach."""
    drawing = canvas(WIDTH, 4.0)
    axes = drawing.subplots(1 + len(PAIR), len(answers), squeeze=False, height_ratios=(1, *[1.25] * len(PAIR)))
    for column, answer in enumerate(answers):
        show_image(axes[0, column], answer.image)
        axes[0, column].set_title(answer.title, loc="center")
        for row, (name, draws) in enumerate(zip(PAIR, answer.draws, strict=True), start=1):
            _bars(axes[row, column], name, draws)
            axes[row, column].tick_params(labelleft=column == 0)
    for row, name in enumerate(PAIR, start=1):
        axes[row, 0].set_ylabel(f"{name}\nprobability")
    drawing.supxlabel("class", fontsize=8)
    return drawing


def _bars(axes: Axes, name: str, draws: FloatArray) -> None:
    mean = draws.mean(axis=0)
    classes = np.arange(len(mean))
    axes.bar(classes, mean, color=look(name).colour, width=0.8)
    if len(draws) > 1:
        low, high = np.quantile(draws, (0.025, 0.975), axis=0)
        axes.vlines(classes, low, high, color=INK, linewidth=0.7)
    entropy = float(-(mean * np.log(np.maximum(mean, 1e-300))).sum())
    axes.set_title(f"H = {entropy:.2f} nats", fontsize=SMALL, loc="right", pad=2)
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.5, 1])
    axes.set_xticks(classes)
    axes.tick_params(axis="x", labelsize=6.5, length=2)
    axes.grid(visible=False, axis="x")
