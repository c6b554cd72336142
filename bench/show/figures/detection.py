"""Telling images that are no digits from digits: receiver operating characteristics and histograms of the entropy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from bench.core.records import Record
from bench.data.manifest import OOD_LABELS
from bench.measure.metrics.arrays import FloatArray
from bench.show.figures.figure import FIELD, Absent, Figure, small_multiples
from bench.show.figures.style import FAINT, SMALL, WIDTH, Axes, Drawing, canvas, look
from bench.show.inputs import Inputs

ROC, ROC_TITLE = "roc", "Finding images that are no digits by their predictive entropy"
ENTROPY, ENTROPY_TITLE = "entropy", "Predictive entropy on digits and on images that are no digits"
SCORE = "predictive_entropy"
BINS = 20
EDGES = np.linspace(0, math.log(10) * 1.0001, BINS + 1)
LOWEST_RATE = 1e-3

DetectionScores = Mapping[str, Mapping[str, FloatArray]]
"""Approach -> data set -> entropy of each image, nats."""


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give both figures, of the published recipes."""
    records: dict[str, Record] = {}
    for name in inputs.classifiers():
        record = inputs.scored(name)
        if record is not None and f"mnist/{SCORE}" in inputs.scores(record):
            records[name] = record
    if not records:
        reason = inputs.not_run("an approach measured by protocol common with per-row scores (.npz)")
        yield Absent(ROC, ROC_TITLE, FIELD, reason)
        yield Absent(ENTROPY, ENTROPY_TITLE, FIELD, reason)
        return
    scores = {
        name: {
            which: found[f"{which}/{SCORE}"].astype(np.float64)
            for which in ("mnist", *OOD_LABELS)
            if f"{which}/{SCORE}" in (found := inputs.scores(record))
        }
        for name, record in records.items()
    }
    sizes = {which: len(values) for found in scores.values() for which, values in found.items()}
    kept = " and ".join(sorted({str(found[f"mnist/{SCORE}"].dtype) for found in map(inputs.scores, records.values())}))
    counted = ", ".join(f"{OOD_LABELS[which]} {sizes[which]:,}" for which in OOD_LABELS if which in sizes)
    conditions = inputs.conditions(list(records.values()))
    caption = (
        f"Share of images that are no digits ({counted}) whose predictive entropy is at or above a threshold, against "
        f"the share of the {sizes['mnist']:,} test digits that is, on a logarithmic axis. Grey: chance. Numbers: area "
        f"under the curve on plain axes, as in the tables. Published recipes; entropies kept as {kept}. {conditions}"
    )
    yield Figure(ROC, ROC_TITLE, caption, FIELD, partial(_draw_roc, scores, records, inputs.results.approaches))
    caption = (
        f"Grey: the {sizes['mnist']:,} test digits; coloured: {counted}. Entropy of the mean probability over draws, "
        f"at most ln 10 = 2.30 nats; {BINS} bins, the axis of shares is logarithmic. Published recipes. {conditions}"
    )
    yield Figure(ENTROPY, ENTROPY_TITLE, caption, FIELD, partial(_draw_entropy, scores, inputs.results.approaches))


def roc(inside: FloatArray, outside: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return false and true positive rates at every threshold, from none flagged to all; outside is positive."""
    thresholds = np.unique(np.concatenate([inside, outside]))[::-1]

    def rate(values: FloatArray) -> FloatArray:
        flagged = len(values) - np.searchsorted(np.sort(values), thresholds, side="left")
        return np.concatenate([[0.0], flagged / len(values)])

    return rate(inside), rate(outside)


def thinned(false: FloatArray, true: FloatArray, cells: int = 100) -> tuple[FloatArray, FloatArray]:
    """Return only the first and the last point of a curve in each cell of a grid, so that the file is small.

    The grid has `cells` cells a side: from `LOWEST_RATE` to 1 on a logarithmic axis, and from 0 to 1 on a
    linear one.
    """
    shown = false >= LOWEST_RATE
    false, true = false[shown], true[shown]
    across = np.floor(np.log(false / LOWEST_RATE) / -math.log(LOWEST_RATE) * cells)
    cell = across * (cells + 1) + np.floor(true * cells)
    new = np.diff(cell, prepend=-1.0) != 0
    kept = new | np.append(new[1:], True)
    return false[kept], true[kept]


def _draw_roc(scores: DetectionScores, records: Mapping[str, Record], names: Sequence[str]) -> Drawing:
    """Return the drawing: a panel for each data set."""
    sets, across = _sets(scores), "digits flagged [fraction, logarithmic]"
    drawing, panels = small_multiples(len(sets), 2.0, across, "images that are no digits flagged [fraction]", columns=2)
    panels[0].set_xscale("log", subs=[])
    panels[0].set_xlim(LOWEST_RATE, 1)
    panels[0].set_ylim(0, 1.01)
    for axes, which in zip(panels, sets, strict=True):
        areas = {name: records[name].metrics.get(f"{which}/auroc_{SCORE}") for name in scores if which in scores[name]}
        _roc_panel(axes, which, scores, areas, names)
    return drawing


def _sets(scores: DetectionScores) -> list[str]:
    return [which for which in OOD_LABELS if any(which in found for found in scores.values())]


def _roc_panel(
    axes: Axes, which: str, scores: DetectionScores, areas: Mapping[str, float | None], names: Sequence[str]
) -> None:
    chance = np.geomspace(LOWEST_RATE, 1, 50)
    axes.plot(chance, chance, color=FAINT, linewidth=0.8)
    for name in areas:
        mine = look(name, names)
        false, true = thinned(*roc(scores[name]["mnist"], scores[name][which]))
        axes.plot(false, true, color=mine.colour, linestyle=mine.line, linewidth=1.3)
    ranked = sorted(areas, key=lambda name: -(areas[name] or 0.0))
    for place, name in enumerate(ranked):
        mine, area, y = look(name, names), areas[name], 0.94 - 0.11 * place
        text = f"{name} {'-' if area is None else format(area, '.3f').lstrip('0')}"
        colour, inside = mine.colour, axes.transAxes
        axes.plot((1.03, 1.12), (y, y), color=colour, linestyle=mine.line, transform=inside, clip_on=False)
        axes.text(1.15, y, text, va="center", fontsize=SMALL, color=colour, transform=inside)
    axes.set_title(OOD_LABELS[which])


def _draw_entropy(scores: DetectionScores, names: Sequence[str]) -> Drawing:
    """Return the drawing: a row for each approach, a column for each data set."""
    sets = _sets(scores)
    drawing = canvas(WIDTH, 0.7 + 0.95 * len(scores))
    axes = drawing.subplots(len(scores), len(sets), sharex=True, sharey=True, squeeze=False)
    _share_scales(axes[0, 0])
    for row, (name, found) in enumerate(scores.items()):
        colour = look(name, names).colour
        for panel, which in zip(axes[row], sets, strict=True):
            panel.stairs(_shares(found["mnist"]), EDGES, fill=True, color=FAINT, baseline=1e-5)
            if which in found:
                panel.stairs(_shares(found[which]), EDGES, color=colour, linewidth=1.3, baseline=1e-5)
        axes[row, 0].set_ylabel(name.replace("_", "_\n", 1), color=colour, fontsize=SMALL)
    for column, which in enumerate(sets):
        axes[0, column].set_title(OOD_LABELS[which], loc="center")
    drawing.supxlabel("predictive entropy [nats]", fontsize=8)
    drawing.supylabel("share of images in a bin [fraction, logarithmic]", fontsize=8)
    return drawing


def _share_scales(axes: Axes) -> None:
    """Set the scales of one panel; the other panels share them."""
    axes.set_yscale("log")
    axes.set_ylim(1e-4, 1)
    axes.set_yticks([1e-4, 1e-2, 1])
    axes.minorticks_off()
    axes.set_xlim(0, EDGES[-1])


def _shares(values: FloatArray) -> FloatArray:
    """Return the share of values in each bin; an empty bin gets a share below the axis, which is logarithmic."""
    counts = np.histogram(np.clip(values, EDGES[0], EDGES[-1]), EDGES)[0] / len(values)
    return np.maximum(counts, 1e-5)
