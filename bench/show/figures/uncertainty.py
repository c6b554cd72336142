"""How far probabilities can be trusted: reliability, and risk against coverage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from bench.core.records import Record
from bench.judge.samples import metrics_of
from bench.measure.metrics.arrays import FloatArray
from bench.show.figures.figure import FIELD, Absent, Figure, small_multiples, spread
from bench.show.figures.style import FAINT, SMALL, WIDTH, Axes, Drawing, Look, canvas, look
from bench.show.inputs import Inputs, RecordsByRecipe

RELIABILITY, RELIABILITY_TITLE = "reliability", "Reliability: how often is an answer of a given confidence right?"
RISK, RISK_TITLE = "risk-coverage", "Risk against coverage: the share of wrong answers when only the surest are given"
RECIPES = ("published", "corrected")
GLYPHS = {"published": "\N{BLACK CIRCLE}", "corrected": "\N{WHITE CIRCLE}"}  # filled and hollow marks
FEWEST = 20  # images of a bin; a bin with fewer is not drawn
LOWEST_RISK = 1e-4


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give both figures."""
    yield _reliability(inputs)
    yield _risk(inputs)


def _reliability(inputs: Inputs) -> Figure | Absent:
    trained_runs = inputs.with_array("reliability")
    if not trained_runs:
        reason = inputs.not_run("an approach measured by protocol common")
        return Absent(RELIABILITY, RELIABILITY_TITLE, FIELD, reason)
    records = [record for found in trained_runs.values() for record in found]
    images = max(sum(bins.count) for record in records if (bins := record.arrays.reliability))
    hollow = "; hollow: corrected" if any(recipe == "corrected" for _, recipe in trained_runs) else ""
    caption = (
        f"Test images ({images:,} a seed, seeds pooled) in 15 bins of equal width by the largest mean probability: "
        "mean confidence against the share that is right, with 95 % Wilson intervals. Filled: published recipe"
        f"{hollow}. Bins of fewer than {FEWEST} images are left out. Above the diagonal: too careful; below: "
        "too sure. Grey bars: share of the images in each bin, published. ECE: expected calibration error. "
        f"{inputs.conditions(records)}"
    )
    draw = partial(_draw_reliability, trained_runs, inputs.results.approaches)
    return Figure(RELIABILITY, RELIABILITY_TITLE, caption, FIELD, draw)


def _draw_reliability(trained_runs: RecordsByRecipe, names: Sequence[str]) -> Drawing:
    """Return the drawing: a panel for each approach."""
    approaches = list(dict.fromkeys(approach for approach, _ in trained_runs))
    across, up = "confidence: largest mean probability [fraction]", "accuracy [fraction of images]"
    drawing, panels = small_multiples(len(approaches), 2.2, across, up)
    panels[0].set_xlim(0, 1.03)
    panels[0].set_ylim(0, 1.03)
    for axes, approach in zip(panels, approaches, strict=True):
        axes.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8, zorder=1)
        lines = []
        for recipe in RECIPES:
            records = trained_runs.get((approach, recipe), ())
            if records:
                _reliability_points(axes, look(approach, names), recipe == "published", records)
                error = metrics_of(records, "mnist/ece").mean
                lines += [] if error is None else [f"{GLYPHS[recipe]} ECE {100 * error:.2f} %"]
        axes.text(0.92, 0.03, "\n".join(lines), transform=axes.transAxes, ha="right", va="bottom", fontsize=SMALL)
        axes.set_title(approach)
    return drawing


def _reliability_points(axes: Axes, mine: Look, published: bool, records: Sequence[Record]) -> None:
    confidence, accuracy, count, edges = _pooled(records)
    if published:
        axes.bar(edges[:-1], count / count.sum(), np.diff(edges), align="edge", color=FAINT, alpha=0.45, zorder=0)
    kept = count >= FEWEST
    x, y, (low, high) = confidence[kept], accuracy[kept], _wilson(accuracy[kept], count[kept])
    line, fill, above = ("-", "full", 3) if published else ("--", "none", 2)
    errors, colour = np.maximum(0, [y - low, high - y]), mine.colour
    axes.errorbar(
        x, y, errors, fmt=mine.marker, color=colour, ls=line, lw=1.0, elinewidth=0.7, fillstyle=fill, zorder=above
    )


def _pooled(records: Sequence[Record]) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return mean confidence, accuracy and count of each bin, pooled over seeds, and the edges of the bins.

    Seeds whose bins differ from those of the first are left out: records of another author may have other bins.
    """
    found = [bins for record in records if (bins := record.arrays.reliability)]
    tables = [bins for bins in found if bins.upper == found[0].upper]
    counts = np.array([table.count for table in tables], dtype=float)
    total = np.maximum(1, counts.sum(axis=0))

    def mean(columns: Sequence[Sequence[float | None]]) -> FloatArray:
        values = np.nan_to_num(np.array(columns, dtype=float))  # None, of an empty bin, becomes 0 with weight 0
        return np.asarray((values * counts).sum(axis=0) / total)

    edges = np.array([*tables[0].lower, tables[0].upper[-1]])
    confidence, accuracy = mean([table.confidence for table in tables]), mean([table.accuracy for table in tables])
    return confidence, accuracy, counts.sum(axis=0), edges


def _wilson(share: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the 95 % interval of a share of `count` (Wilson 1927, JASA 22)."""
    z = 1.959964
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2)) / (1 + z**2 / count)
    return middle - half, middle + half


def _risk(inputs: Inputs) -> Figure | Absent:
    trained_runs = inputs.with_array("risk_coverage")
    if not trained_runs:
        return Absent(RISK, RISK_TITLE, FIELD, inputs.not_run("an approach measured by protocol common"))
    records = [record for found in trained_runs.values() for record in found]
    band = ", mean over seeds" if max(map(len, trained_runs.values())) > 1 else ""
    caption = (
        "Test images are answered in the order of falling confidence (largest mean probability); at a coverage of 90 % "
        f"the least sure tenth is refused{band}. A line begins where the first mistake is made; the axis of risk is "
        f"logarithmic. Right: each approach's risk when it answers all. {inputs.conditions(records)}"
    )
    return Figure(RISK, RISK_TITLE, caption, FIELD, partial(_draw_risk, trained_runs, inputs.results.approaches))


def _draw_risk(trained_runs: RecordsByRecipe, names: Sequence[str]) -> Drawing:
    """Return the drawing: published recipes above, corrected below."""
    recipes = [recipe for recipe in RECIPES if any(key[1] == recipe for key in trained_runs)]
    drawing = canvas(WIDTH, 0.5 + 2.5 * len(recipes))
    panels = drawing.subplots(len(recipes), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    panels[0].set_yscale("log")
    panels[0].yaxis.set_major_formatter("{x:g}")
    panels[0].minorticks_off()
    panels[0].set_ylim(LOWEST_RISK, 0.3)
    panels[0].set_xlim(0, 100)
    for axes, recipe in zip(panels, recipes, strict=True):
        _risk_panel(axes, recipe, trained_runs, names)
    panels[-1].set_xlabel("coverage [% of test images answered]")
    drawing.supylabel("risk [fraction of answered images that are wrong]", fontsize=8)
    return drawing


def _risk_panel(axes: Axes, recipe: str, trained_runs: RecordsByRecipe, names: Sequence[str]) -> None:
    ends: list[tuple[str, float]] = []
    for (approach, own), records in trained_runs.items():
        if own != recipe:
            continue
        mine = look(approach, names)
        curves = [curve for record in records if (curve := record.arrays.risk_coverage)]
        shortest = min(len(curve.coverage) for curve in curves)
        coverage = np.mean([curve.coverage[-shortest:] for curve in curves], axis=0)
        risk = np.mean([curve.risk[-shortest:] for curve in curves], axis=0)
        shown = np.where(risk > 0, risk, np.nan)
        axes.plot(100 * coverage, shown, mine.marker, linestyle="-", color=mine.colour, markevery=0.08, markersize=3)
        ends.append((approach, float(risk[-1])))
    axes.set_title(f"{recipe} recipe")
    places = spread([float(np.log10(max(risk, LOWEST_RISK))) for _, risk in ends], 0.22)
    for (approach, risk), place in zip(ends, places, strict=True):
        colour, end = look(approach, names).colour, 10**place
        axes.plot([100, 102.5], [max(risk, LOWEST_RISK), end], color=colour, linewidth=0.6, clip_on=False)
        axes.text(103, end, f"{approach} {100 * risk:.1f} %", fontsize=SMALL, va="center")
