"""chopra2018's histograms: the log-probabilities that 100 networks give to each class of one image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from bench.core.records import Record
from bench.measure.metrics.arrays import FloatArray
from bench.measure.metrics.refusal import MEDIAN_RULE
from bench.show.figures.figure import Absent, Figure, Pixels, show_image
from bench.show.figures.style import INK, SMALL, WIDTH, Axes, Drawing, canvas
from bench.show.inputs import Inputs, images

DOCUMENT, APPROACH = "chopra2018", "pyro_random_module"
NAME = f"{DOCUMENT}-votes"
TITLE = "Log-probabilities of 100 networks for each class: accepted, undecided, noise and letter images"
COLUMNS = 2  # examples of each kind
KINDS = {"mnist": "", "noise_uniform": "white noise", "notmnist459": "letter", "letters": "letter"}
"""Data sets and what their images are. `letters` is shown only if `notmnist459`, the document's own set, is missing."""
BIN = 75.0  # nats
SHOWN = 0.98  # share of all log-probabilities that the axis spans
CHOSEN, OTHER = "#E69F00", "#8C8C8C"


class VotedImage(NamedTuple):
    """An image, and the log-probabilities that the networks give to its classes."""

    kind: str
    image: Pixels  # [28, 28]
    draws: FloatArray  # [S, K], nats
    label: int  # -1: none of the classes

    @property
    def chosen(self) -> list[int]:
        """Return the classes whose median probability is above the document's threshold."""
        medians = np.median(np.exp(self.draws), axis=0)
        return [int(k) for k in np.flatnonzero(medians > MEDIAN_RULE.threshold)]

    @property
    def verdict(self) -> str:
        """Return the title of the image: the answer by the document's rule, and whether it is right."""
        chosen = self.chosen
        if not chosen:
            return "undecided"
        answer = int(np.argmax(np.median(np.exp(self.draws), axis=0)))
        return f"answers {answer}" + ("" if self.label < 0 else ", right" if answer == self.label else ", wrong")


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give the figure."""
    record = inputs.scored(APPROACH)
    if record is None:
        yield Absent(NAME, TITLE, DOCUMENT, inputs.not_run(f"{APPROACH} published x common with raw draws"))
        return
    found = _examples(inputs, record)
    if isinstance(found, str):
        yield Absent(NAME, TITLE, DOCUMENT, found)
        return
    n_draws, n_rows = len(found[0].draws), inputs.scores(record)["mnist/draws"].shape[1]
    caption = (
        "For each image the networks' log-probabilities of the classes 0-9: bars to the right of each class are the "
        f"share of {n_draws} networks in bins of {BIN:g} nats, the lowest with all below; the dot is the median. "
        "Orange: classes that the document's rule answers (median probability above 0.2); without one it is undecided. "
        f"Accepted and undecided: the first images of each kind among the first {n_rows} test "
        "images, label in bold; noise and letters: the first two images of each set that the record keeps. The letters "
        "are those of not-MNIST, as in the document, or else of free fonts. One axis for all images. "
        f"{inputs.conditions([record])}"
    )
    yield Figure(NAME, TITLE, caption, DOCUMENT, partial(_draw, found))


def _examples(inputs: Inputs, record: Record) -> list[VotedImage] | str:
    """Return two examples of each kind, or why there are none."""
    scores, seed = inputs.scores(record), record.seed
    found: list[VotedImage] = []
    lacking: dict[str, str] = {}
    if "mnist/draws" not in scores:
        return "the record keeps no raw draws of digits"
    for name, kind in KINDS.items():
        if f"{name}/draws" not in scores or any(example.kind == kind for example in found):
            continue
        pixels = images("test10k" if name == "mnist" else name, seed)
        if isinstance(pixels, str):
            lacking[kind] = pixels
            continue
        draws, labels = scores[f"{name}/draws"].astype(np.float64), scores[f"{name}/label"]
        rows = range(min(draws.shape[1], len(pixels)))
        every = [VotedImage(kind, pixels[i], draws[:, i], int(labels[i])) for i in rows]
        if name == "mnist":
            found += [e._replace(kind="accepted") for e in every if e.chosen][:COLUMNS]
            found += [e._replace(kind="undecided") for e in every if not e.chosen][:COLUMNS]
        else:
            found += every[:COLUMNS]
    for kind, reason in lacking.items():
        if not any(example.kind == kind for example in found):
            return reason
    return found


def _draw(examples: Sequence[VotedImage]) -> Drawing:
    """Return the drawing: a row for each kind, the image left of its histograms."""
    kinds = list(dict.fromkeys(example.kind for example in examples))
    every = np.concatenate([example.draws.reshape(-1) for example in examples])
    lowest = max(-1e4, float(np.quantile(every, 1 - SHOWN)))
    edges = np.arange(BIN * np.floor(lowest / BIN), BIN / 2, BIN)
    edges = edges if len(edges) > 1 else np.array([-BIN, 0.0])
    drawing = canvas(WIDTH, 0.3 + 1.65 * len(kinds))
    axes = drawing.subplots(len(kinds), 2 * COLUMNS, width_ratios=(1, 3.2) * COLUMNS, squeeze=False)
    for row, kind in enumerate(kinds):
        mine = [example for example in examples if example.kind == kind]
        for column in range(COLUMNS):
            left, right = axes[row, 2 * column], axes[row, 2 * column + 1]
            if column < len(mine):
                _panel(left, right, mine[column], edges)
            else:
                left.set_axis_off()
                right.set_axis_off()
        axes[row, 1].set_ylabel("log-probability [nats]")
    for axis in axes[-1, 1::2]:
        axis.set_xlabel("class; bar length: share of networks")
    return drawing


def _panel(left: Axes, right: Axes, example: VotedImage, edges: FloatArray) -> None:
    show_image(left, example.image)
    left.set_title(example.kind)
    chosen = example.chosen
    for digit in range(example.draws.shape[1]):
        values = np.clip(example.draws[:, digit], edges[0], edges[-1])
        shares = np.histogram(values, edges)[0] / len(values)
        colour = CHOSEN if digit in chosen else OTHER
        right.stairs(digit + 0.92 * shares, edges, baseline=digit, orientation="horizontal", fill=True, color=colour)
        right.plot([digit, digit], edges[[0, -1]], color=INK, linewidth=0.3)
        median = float(np.median(values))
        right.plot(digit, median, "o", color=INK, markersize=2.2)
    right.set_xlim(-0.2, example.draws.shape[1])
    right.set_ylim(edges[0], 0.03 * -edges[0])
    right.set_xticks(range(example.draws.shape[1]))
    right.grid(visible=False, axis="x")
    for digit, text in enumerate(right.get_xticklabels()):
        text.set_fontweight("bold" if digit == example.label else "normal")
        text.set_fontsize(SMALL + 1 if digit == example.label else SMALL)
    right.set_title(example.verdict, color="#A66F00" if chosen else INK)
