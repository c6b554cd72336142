"""Accuracy against the share of weights that are removed, ours and the published numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from bench.core.records import Record
from bench.judge.claims import Claim, measured_key
from bench.measure.metrics.arrays import FloatArray
from bench.show.figures.figure import FIELD, Absent, Figure
from bench.show.figures.layout import small_multiples
from bench.show.figures.style import FAINT, REPORTED, Axes, Drawing, look
from bench.show.inputs import Inputs, RecordsByRecipe

NAME, TITLE = "pruning", "Accuracy against the share of weights that are kept"
CHANCE = 0.098  # a network of zeros answers class 0, which 980 of the 10,000 test images are
KEPT = (100, 50, 25, 10, 5, 2, 1)  # percentages on the axis


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give the figure of all approaches."""
    lines = inputs.with_array("pruning")
    if not lines:
        reason = inputs.not_run("an approach that can be pruned, measured by protocol common")
        yield Absent(NAME, TITLE, FIELD, reason)
        return
    claims = [claim for claim in inputs.claims if claim.metric == "pruned_accuracy"]
    records = [record for found in lines.values() for record in found]
    test = [record.timings.predict_images or 0 for record in records]
    seeds = " mean of the seeds, band: their range;" if max(map(len, lines.values())) > 1 else ""
    runs = ", ".join(dict.fromkeys(claim.source for claim in claims))
    caption = (
        "Networks of posterior means after the weights with the lowest score are set to zero (|mu|/sigma where there "
        f"is a sigma, else |mu|), on {max(test, default=0):,} test images;{seeds} diamonds: published recipe, mean "
        f"probability of 30 draws. Grey circles and crosses: reported ({runs}). Faint: the other approaches. Dotted: "
        f".098, the accuracy without any weight: the share of zeros among the images. {inputs.conditions(records)}"
    )
    yield Figure(NAME, TITLE, caption, FIELD, partial(_draw, lines, claims, inputs.results.approaches))


def _draw(lines: RecordsByRecipe, claims: Sequence[Claim], names: Sequence[str]) -> Drawing:
    """Return the drawing: a panel for each approach, the others faint behind it."""
    approaches = list(dict.fromkeys(approach for approach, _ in lines))
    across, up = "weights kept [%, logarithmic]", "test accuracy [fraction of images]"
    drawing, panels = small_multiples(len(approaches), 2.1, across, up)
    for axes, approach in zip(panels, approaches, strict=True):
        _panel(axes, approach, lines, claims, names)
    return drawing


def _panel(axes: Axes, approach: str, lines: RecordsByRecipe, claims: Sequence[Claim], names: Sequence[str]) -> None:
    for (other, recipe), records in lines.items():
        if other != approach and recipe == "published":
            axes.plot(*_curve(records, "mean")[:2], color=FAINT, linewidth=0.7, zorder=1)
    mine = look(approach, names)
    for recipe in ("published", "corrected"):
        records = lines.get((approach, recipe), ())
        if not records:
            continue
        x, y, low, high = _curve(records, "mean")
        fill, line = ("full", "-") if recipe == "published" else ("none", "--")
        axes.plot(x, y, "o", linestyle=line, color=mine.colour, fillstyle=fill, markersize=2.5, label=recipe, zorder=3)
        axes.fill_between(x, low, high, color=mine.colour, alpha=0.2, linewidth=0)
        if recipe == "published":
            axes.plot(*_curve(records, "30 draws")[:2], "D", color=mine.colour, markersize=3, zorder=4)
    for number, run in enumerate(dict.fromkeys(c.source for c in claims if c.approach == approach)):
        found = sorted((_kept(c), c.value) for c in claims if c.source == run and _kept(c) > 0)
        marker, label = ("o", "reported") if number == 0 else ("x", "reported, other run")
        axes.plot(*zip(*found, strict=True), marker, color=REPORTED, fillstyle="none", label=label, zorder=5)
    axes.axhline(CHANCE, color=FAINT, linewidth=0.6, linestyle=":")
    axes.set_title(approach, color=mine.colour)
    axes.set_ylim(0, 1.02)
    axes.set_xscale("log")
    axes.set_xlim(110, 0.9)
    axes.set_xticks(KEPT, [f"{share:g}" for share in KEPT])
    axes.minorticks_off()
    axes.legend(loc="lower left")


def _curve(records: Sequence[Record], network: str) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return percentages kept, above 0, and mean, smallest and largest accuracy over seeds."""
    by_share: dict[float, list[float]] = {}
    for record in records:
        for row in record.arrays.pruning.rows if record.arrays.pruning else []:
            if row.network == network and row.accuracy is not None and row.fraction < 1:
                by_share.setdefault(100 * (1 - row.fraction), []).append(row.accuracy)
    shares = sorted(by_share)
    found = [np.array(by_share[share]) for share in shares]
    means, lows, highs = (np.array([of(values) for values in found]) for of in (np.mean, np.min, np.max))
    return np.array(shares), means, lows, highs


def _kept(claim: Claim) -> float:
    """Return the percentage of weights that the network of a claim keeps."""
    return 100 * (1 - float(measured_key(claim)[1].partition("@")[2]))
