"""What the number of draws changes, from the raw draws that records keep of a few rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from bench.core.records import Record
from bench.data.manifest import OOD_NAMES
from bench.measure.metrics.arrays import FloatArray
from bench.measure.metrics.refusal import MEDIAN_RULE
from bench.show.figures.figure import FIELD, Absent, Figure
from bench.show.figures.layout import spread
from bench.show.figures.style import FAINT, SMALL, WIDTH, Axes, Drawing, canvas, look
from bench.show.material import Material

NAME, TITLE = "draws", "What more draws change on images that are no digits"
COUNTS = (1, 2, 3, 5, 10, 20, 30, 50, 100)
PANELS = {
    "entropy": "predictive entropy [nats]",
    "information": "mutual information [nats]",
    "refused": "refused by the median rule [fraction]",
}


def make(material: Material) -> Iterator[Figure | Absent]:
    """Give the figure, of the published recipes that draw."""
    found: dict[str, FloatArray] = {}
    records: list[Record] = []
    for approach in material.classifiers():
        record = material.scored(approach)
        scores = {} if record is None else material.scores(record)
        kept = [scores[f"{which}/draws"] for which in OOD_NAMES if f"{which}/draws" in scores]
        if record is not None and kept and len(kept[0]) > 1:
            found[approach] = np.concatenate(kept, axis=1).astype(np.float64)
            records.append(record)
    if not found:
        yield Absent(
            NAME, TITLE, FIELD, material.not_run("an approach that draws, with the raw draws of some rows (.npz)")
        )
        return
    first = next(iter(found.values()))
    caption = (
        f"Mean over {first.shape[1]} images (at most the first 24 of each out-of-distribution set). The records keep "
        f"{len(first)} draws of each image; for each number of draws, they are cut into blocks, and the blocks "
        "are averaged. Few draws miss the disagreement between networks; one draw has none. The median rule is "
        f"chopra2018's: it refuses an image if no class has a median probability above {MEDIAN_RULE.threshold}. "
        "Records keep no draws of other images, so that accuracy against draws cannot be shown. Published recipes. "
        f"{material.conditions(records)}"
    )
    yield Figure(
        NAME,
        TITLE,
        caption,
        FIELD,
        partial(_draw, {name: numbers(draws) for name, draws in found.items()}, material.approaches),
    )


def numbers(log_probs: FloatArray) -> dict[str, list[tuple[int, float]]]:
    """Return for each panel the number of draws and the mean over blocks and rows.

    Args:
        log_probs: [S, B, K], nats.
    """
    probs = np.exp(log_probs)
    each = _entropy(probs)  # [S, B]
    found: dict[str, list[tuple[int, float]]] = {panel: [] for panel in PANELS}
    for size in (count for count in COUNTS if count <= len(probs)):
        blocks = len(probs) // size
        cut = probs[: blocks * size].reshape(blocks, size, *probs.shape[1:])
        entropy = _entropy(cut.mean(axis=1))  # [blocks, B]
        expected = each[: blocks * size].reshape(blocks, size, -1).mean(axis=1)
        refused = (np.median(cut, axis=1) <= MEDIAN_RULE.threshold).all(axis=2)
        for panel, value in (("entropy", entropy), ("information", entropy - expected), ("refused", refused)):
            found[panel].append((size, float(value.mean())))
    return found


def _entropy(probs: FloatArray) -> FloatArray:
    return np.asarray(-(probs * np.log(np.maximum(probs, 1e-300))).sum(axis=-1))


def _draw(found: Mapping[str, Mapping[str, list[tuple[int, float]]]], names: tuple[str, ...]) -> Drawing:
    """Return the drawing: a panel for each number."""
    drawing = canvas(WIDTH, 3.0)
    panels = drawing.subplots(1, len(PANELS))
    for axes, (panel, label) in zip(panels, PANELS.items(), strict=True):
        for name, lines in found.items():
            mine = look(name, names)
            axes.plot(*zip(*lines[panel], strict=True), mine.marker, linestyle="-", color=mine.colour, markersize=3)
        axes.set_xscale("log")
        axes.set_xticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_title(label)
        axes.set_xlabel("draws")
    _labels(panels[-1], found, names)
    return drawing


def _labels(axes: Axes, found: Mapping[str, Mapping[str, list[tuple[int, float]]]], names: tuple[str, ...]) -> None:
    ends = {name: lines["refused"][-1] for name, lines in found.items()}
    axes.set_ylim(0, 1.02)
    for (name, (x, y)), place in zip(ends.items(), spread([y for _, y in ends.values()], 0.075), strict=True):
        axes.annotate(
            name,
            (x, y),
            (1.04, place / 1.02),
            textcoords="axes fraction",
            va="center",
            fontsize=SMALL,
            color=look(name, names).colour,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.5},
        )
