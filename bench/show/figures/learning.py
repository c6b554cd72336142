"""Learning curves of the approaches after Blundell et al. 2015, with what the paper and its reproductions report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from bench.core.records import Record
from bench.judge.results import Results
from bench.judge.stats.papers import PAPER, PaperClaim, load_papers, paper_claims
from bench.measure.metrics.arrays import FloatArray
from bench.show.figures.figure import FIELD, Absent, Figure
from bench.show.figures.style import COLOURS, REPORTED, WIDTH, Drawing, canvas
from bench.show.inputs import Inputs

NAME, TITLE = f"{PAPER}-learning", "Test error after each epoch, and what the paper and its reproductions report"
KEY = "mnist/test10k/error"
LARGE = "+units-1200"
TRAINED_RUNS = {
    "SGD": ("blundell_sgd", "published"),
    "dropout": ("blundell_dropout", "published"),
    "Gaussian prior": ("blundell_bbb", "published+gaussian-prior"),
    "scale mixture": ("blundell_bbb", "published"),
    "scale mixture, 1200 units": ("blundell_bbb", f"published{LARGE}"),
}
HIGHEST = 3.5  # percent shown; the first epochs lie above


@dataclass(frozen=True)
class Learnt:
    """The test error of one method after each epoch."""

    method: str
    records: Sequence[Record]
    errors: FloatArray  # percent [seeds, epochs]
    reported: Sequence[PaperClaim]


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give the figure, if any of its methods has run: those with 400 units, and the scale mixture with 1200."""
    found = _found(inputs.paper)
    if not found:  # no `Absent`: these fits take hours, and no figure of a document needs them
        return
    seeds = ", ".join(f"{one.method} {len(one.errors)}" for one in found)
    conditions = inputs.conditions([record for one in found for record in one.records])
    caption = (
        "400 units, where no other number is named: share of the 10,000 test images that the network of the means gets "
        "wrong after each epoch, in percent; mean of the seeds, band: their range. On the right: the paper's value "
        "(o), from memory or from another text, and those of public reproductions (x). "
        f"Number of seeds: {seeds}. {conditions}"
    )
    yield Figure(NAME, TITLE, caption, FIELD, partial(_draw, found))


def _found(results: Results) -> list[Learnt]:
    claims = paper_claims(load_papers())
    made = []
    for method, trained_run in TRAINED_RUNS.items():
        records = [
            one for one in results.trained_run(*trained_run, "published") if one.outcome == "done" and one.epochs
        ]
        if records:
            made.append(Learnt(method, records, _errors(records), [one for one in claims if _is_of(trained_run, one)]))
    return made


def _is_of(trained_run: tuple[str, str], claim: PaperClaim) -> bool:
    """Return whether a reported number is the error of this method, prior and size, without pruning."""
    approach, recipe = trained_run
    units = "1200" if recipe.endswith(LARGE) else "400"
    priors = {"gaussian-prior" in one for one in (claim.recipe, recipe)}
    is_of_network = claim.paper.network.startswith(f"784-{units}-") and ".pruned" not in claim.paper.id
    return claim.approach == approach and len(priors) == 1 and is_of_network


def _errors(records: Sequence[Record]) -> FloatArray:
    rows = [[epoch.metrics.get(KEY) for epoch in record.epochs] for record in records]
    shortest = min(map(len, rows))
    return 100 * np.array([row[:shortest] for row in rows], dtype=np.float64)  # None becomes NaN


def _draw(found: Sequence[Learnt]) -> Drawing:
    drawing = canvas(WIDTH, 3.4)
    axes = drawing.subplots()
    last = max(one.errors.shape[1] for one in found)
    for colour, one in zip(COLOURS, found, strict=False):
        epochs = np.arange(1, one.errors.shape[1] + 1)
        axes.plot(epochs, one.errors.mean(axis=0), color=colour, label=one.method, linewidth=0.9)
        if len(one.errors) > 1:
            low, high = one.errors.min(axis=0), one.errors.max(axis=0)
            axes.fill_between(epochs, low, high, color=colour, alpha=0.2, linewidth=0)
        for claim in one.reported:
            marker = "o" if claim.source == PAPER else "x"
            axes.plot([last * 1.02], [100 * claim.paper.value], marker, color=colour, fillstyle="none", clip_on=False)
    axes.set_ylim(1, HIGHEST)
    axes.set_xlim(0, last)
    axes.legend(loc="upper right")
    axes.set_xlabel("epoch")
    axes.set_ylabel("test error [percent]")
    axes.annotate("reported", (1.0, 1.01), xycoords="axes fraction", ha="right", fontsize=7.5, color=REPORTED)
    return drawing
