"""feldman2018's comparison: the probabilities that a plain and a Bayesian network give to images that are no digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from bench.measure.metrics.arrays import FloatArray
from bench.show.figures.figure import Absent, Figure, Pixels, show_image
from bench.show.figures.style import INK, SMALL, WIDTH, Axes, Drawing, canvas, look
from bench.show.material import Material, images

DOCUMENT, NAME = "feldman2018", "feldman2018-ood"
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


def make(material: Material) -> Iterator[Figure | Absent]:
    """Give the figure."""
    records = [material.scored(name) for name in PAIR]
    absent = " and ".join(name for name, record in zip(PAIR, records, strict=True) if record is None)
    if absent:
        yield Absent(NAME, TITLE, DOCUMENT, material.not_run(f"{absent} published x common with raw draws"))
        return
    kept = [record for record in records if record is not None]
    shared = {int(record.seed) for record in kept}
    if len(shared) > 1:  # the noise of another seed is another image
        yield Absent(NAME, TITLE, DOCUMENT, f"the records of {' and '.join(PAIR)} have no seed in common; run both")
        return
    found: list[DrawnImage] = []
    for name, title, count in SETS:
        scores = [material.scores(record) for record in kept]
        pixels = images(name, int(kept[0].seed))
        if isinstance(pixels, str) or any(f"{name}/draws" not in score for score in scores):
            continue
        for row in range(min(count, *(score[f"{name}/draws"].shape[1] for score in scores), len(pixels))):
            draws = tuple(np.exp(score[f"{name}/draws"][:, row].astype(np.float64)) for score in scores)
            found.append(DrawnImage(title, pixels[row], draws))
    if not found:
        yield Absent(NAME, TITLE, DOCUMENT, "the records keep no raw draws of images that are no digits")
        return
    n_draws = [len(draws) for draws in found[0].draws]
    caption = (
        "The first images of each set that the records keep. Bars: mean probability of a class over draws "
        f"({', '.join(f'{name}: {n}' for name, n in zip(PAIR, n_draws, strict=True))}); lines: the middle 95 % of the "
        "draws; H: entropy of the mean, at most ln 10 = 2.30 nats. The document's seven hand-made images are lost. "
        f"Noise is drawn as the document draws it. {material.conditions(kept)}"
    )
    yield Figure(NAME, TITLE, caption, DOCUMENT, partial(_draw, found))


def _draw(answers: Sequence[DrawnImage]) -> Drawing:
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
