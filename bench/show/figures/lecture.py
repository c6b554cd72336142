"""Two pictures for a lecture, not for the page: digits that a Bayesian network does not know, and votes of draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bench.core.errors import BenchError
from bench.core.records import Record
from bench.core.row_scores import LOG_OTHERS, Scores
from bench.measure.metrics.arrays import IntArray
from bench.show.figures.figure import LECTURE, Absent, Figure, show_image
from bench.show.figures.style import COLOURS, INK, Axes, Drawing, canvas
from bench.show.figures.sure import KINDS, pictures
from bench.show.inputs import Inputs

BAYESIAN, PLAIN = "linear_bbb", "mlp"  # both of feldman2018, who compares them
VOTERS = "pyro_random_module"  # chopra2018 shows how its draws vote
DIGITS, LETTERS, CLOTHES = KINDS[:3]
SHOWN, ACROSS = 12, 6  # digits
SURE = 0.99
SLIDE, TEXT = 10, 11  # width, inches, and points: letters for the last row of a hall
BLUE, FAINT = COLOURS[0], COLOURS[5]


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give both figures."""
    labels, votes = f"{DIGITS.dataset}/label", f"{DIGITS.dataset}/votes"
    wanted = {BAYESIAN: (labels, votes), PLAIN: (f"{DIGITS.dataset}/{LOG_OTHERS}",)}
    title = f"The {SHOWN} test digits of which Bayes by Backprop is least sure"
    said = (
        "Those with the highest entropy of the answer. Above: the label. Below: the two classes that most draws name, "
        "with their share, and in brackets the answer of the ordinary network. Blue: right."
    )
    yield _figure(inputs, "uncertain_digits", title, said, wanted, _uncertain)
    wanted = {VOTERS: (labels, *(f"{kind.dataset}/draws" for kind in (DIGITS, LETTERS, CLOTHES)))}
    title = "How the networks that are drawn from one posterior vote"
    said = (
        "How many draws name each class, dark if they are at least 99 % sure. The first test digit; of the "
        "first 24 the one with the least agreement; the first letter and the first two pieces of clothing."
    )
    yield _figure(inputs, "votes", title, said, wanted, _votes)


Draw = Callable[[str, Sequence[Scores]], Drawing]  # of the title, and the scores of each network


def _figure(
    inputs: Inputs, name: str, title: str, said: str, wanted: dict[str, tuple[str, ...]], draw: Draw
) -> Figure | Absent:
    """Return a figure of the first seeds of corrected networks that have the scores that are wanted."""
    found: list[tuple[Record, Scores]] = []
    for approach, keys in wanted.items():
        records = ((one, inputs.scores(one)) for one in inputs.finished(approach, "corrected"))
        found += [(one, scores) for one, scores in records if set(keys) <= scores.keys()][:1]
    if len(found) < len(wanted):
        what = f"{' and '.join(wanted)} corrected x common with the answer to each picture"
        return Absent(name, title, LECTURE, inputs.not_run(what))
    try:
        pictures(DIGITS), pictures(LETTERS), pictures(CLOTHES)
    except BenchError as error:
        return Absent(name, title, LECTURE, str(error))
    networks = ", ".join(f"{one.approach} {one.recipe}" for one, _ in found)
    caption = f"{title} ({networks}). {said} {inputs.conditions([one for one, _ in found])}"
    return Figure(name, title, caption, LECTURE, partial(draw, title, [scores for _, scores in found]))


def _titled(title: str, below: str, height: float) -> Drawing:
    drawing = canvas(SLIDE, height)
    drawing.suptitle(f"{title}\n", fontsize=TEXT + 4, weight="bold")
    drawing.set_layout_engine("constrained", h_pad=0.1, rect=(0, 0.03, 1, 0.97))  # room below the last line of text
    drawing.text(0.5, 1 - 0.47 / height, below, ha="center", va="top", fontsize=TEXT)
    return drawing


def _uncertain(title: str, networks: Sequence[Scores]) -> Drawing:
    bayesian, plain = networks
    images, labels = pictures(DIGITS), bayesian["mnist/label"]
    rows = np.argsort(-bayesian["mnist/predictive_entropy"], kind="stable")[:SHOWN]
    n_draws = int(bayesian["mnist/votes"][rows[0]].sum())
    below = f"Below: votes of its {n_draws} draws, and (in brackets) an ordinary network's probability. Blue: right"
    drawing = _titled(title, below, 5.9)
    panels = drawing.subplots(SHOWN // ACROSS, ACROSS).reshape(-1)
    for axes, row in zip(panels, rows, strict=False):
        show_image(axes, images[row] / np.float32(255))
        axes.set_title(f"{labels[row]}", loc="center", fontsize=TEXT + 2, color=BLUE, weight="bold")
        votes: IntArray = bayesian["mnist/votes"][row].astype(np.int64)
        says = [
            (digit, f"{digit}: {100 * votes[digit] / votes.sum():.0f} %")
            for digit in np.argsort(-votes, kind="stable")[:2]
        ]
        answer, others = plain["mnist/predicted"][row], np.exp(float(plain[f"mnist/{LOG_OTHERS}"][row]))
        says.append((answer, f"({answer}: {min(99.9, 100 * (1 - others)):.1f} %)"))  # no network is sure to the last
        for line, (digit, text) in enumerate(says):
            colour, weight = (BLUE, "bold") if digit == labels[row] else (INK, "normal")
            place = {"x": 0.5, "y": -0.03 - 0.17 * line, "transform": axes.transAxes}
            axes.text(s=text, ha="center", va="top", fontsize=TEXT, color=colour, weight=weight, **place)
    return drawing


def _votes(title: str, networks: Sequence[Scores]) -> Drawing:
    (scores,) = networks
    agree = _counts(scores["mnist/draws"], 0).max(axis=1)
    shown = [("A digit", DIGITS, 0), ("A digit", DIGITS, int(agree.argmin())), ("A letter", LETTERS, 0)]
    shown += [("Clothes", CLOTHES, row) for row in (0, 1)]
    n_draws = len(scores["mnist/draws"])
    drawing = _titled(title, f"Of {n_draws} networks, how many name each digit. Dark: at least 99 % sure", 4.8)
    panels = drawing.subplots(2, len(shown), sharey="row")
    for column, (name, kind, row) in enumerate(shown):
        show_image(panels[0, column], pictures(kind)[row] / np.float32(255))
        panels[0, column].set_title(name, loc="center", fontsize=TEXT + 1)
        _bars(panels[1, column], *(_counts(scores[f"{kind.dataset}/draws"], least)[row] for least in (0, SURE)))
    return drawing


def _bars(axes: Axes, every: IntArray, sure: IntArray) -> None:
    axes.bar(range(len(every)), every, color=FAINT)
    axes.bar(range(len(every)), sure, color=BLUE)
    axes.set_xticks(range(len(every)))
    axes.tick_params(labelsize=TEXT - 1)
    axes.grid(visible=False, axis="x")


def _counts(draws: NDArray[np.generic], least: float) -> IntArray:
    """Return how many draws [S, N, K] of log-probabilities give each class the largest, at least log(least)."""
    probs = np.exp(draws.astype(np.float64))
    named = np.arange(draws.shape[2]) == probs.argmax(2)[..., None]
    return np.asarray((named & (probs >= least)).sum(0))
