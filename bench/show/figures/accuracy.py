"""Each reported accuracy beside three of ours: measured as published, by the common protocol, and corrected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from bench.judge.claims import Claim, print_interval
from bench.judge.samples import Samples
from bench.show.figures.figure import FIELD, Absent, Figure
from bench.show.figures.style import FAINT, INK, NARROW, REPORTED, WIDTH, Axes, Drawing, canvas, look
from bench.show.inputs import Inputs
from bench.show.tables.reported import headline
from bench.show.with_baseline import MINE

WIDTH_OF_EXACT = 0.05  # percent; a narrower bar could not be seen
NAME, TITLE = "accuracy", "Do the reported accuracies come out, and what do measuring alike and corrections change?"
TRAINED_RUNS = {
    "published x published": ("published", "published", "o"),
    "published x common": ("published", "common", "s"),
    "corrected x common": ("corrected", "common", "^"),
}


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give the figure."""
    lines: dict[str, dict[str, list[float]]] = {}  # percent, of each seed
    shown: list[Samples] = []
    found = {name: headline(inputs.claims, name, "accuracy", "mnist") for name in inputs.results.classifiers()}
    for approach, claim in found.items():
        if claim is None and not approach.startswith(MINE):
            continue
        places = {"common": "mnist/accuracy"} | ({"published": f"mnist/{claim.split}/accuracy"} if claim else {})
        for name, (recipe, protocol, _) in TRAINED_RUNS.items():
            if protocol not in places:
                continue
            sample = inputs.sample(approach, recipe, protocol, places[protocol])
            if sample.n:
                lines.setdefault(approach, {})[name] = [100 * value for value in sample.values]
                shown.append(sample)
    if not lines:
        yield Absent(NAME, TITLE, FIELD, inputs.not_run("an approach with a reported accuracy"))
        return
    bars = "; lines: range of the seeds" if len({seed for sample in shown for seed in sample.by_seed}) > 1 else ""
    caption = (
        "Grey: the reported accuracy; the bar spans the numbers that print alike (chopra2018 truncates). Circle: the "
        "published recipe, measured as the document did; square: the same fit on the official test set, mean "
        f"probability of 100 draws; triangle: the corrected recipe, measured like the square{bars}. 10,000 images "
        f"each. {inputs.conditions(shown)}"
    )
    known = {name: claim for name, claim in found.items() if name in lines and claim is not None}
    wide, narrow = (partial(_draw, lines, known, inputs.results.approaches, width) for width in (WIDTH, NARROW))
    yield Figure(NAME, TITLE, caption, FIELD, wide, narrow=narrow)


def _draw(
    lines: Mapping[str, Mapping[str, list[float]]], reported: Mapping[str, Claim], names: Sequence[str], width: float
) -> Drawing:
    """Return the drawing: a row for each approach."""
    is_narrow = width < WIDTH
    drawing = canvas(width, 0.9 + 0.48 * len(lines))
    axes = drawing.subplots()
    for row, (approach, values) in enumerate(lines.items()):
        _row(axes, row, values, reported.get(approach), look(approach, names).colour)
    for name, (_, _, marker) in TRAINED_RUNS.items():
        axes.plot([], [], marker, color=INK, label=name)
    axes.plot([], [], "|", color=REPORTED, markersize=9, markeredgewidth=2.5, label="reported")
    anchor, across = ((-0.55, 1), 2) if is_narrow else ((0, 1), 4)
    axes.legend(loc="lower left", bbox_to_anchor=anchor, ncols=across, borderaxespad=0.1)
    labels = [name.replace("_", "\n", 1) if is_narrow else name for name in lines]
    axes.set_yticks(range(len(lines)), labels)
    for text, approach in zip(axes.get_yticklabels(), lines, strict=True):
        text.set_color(look(approach, names).colour)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("accuracy [% of images]")
    return drawing


def _row(axes: Axes, row: int, values: Mapping[str, list[float]], claim: Claim | None, colour: str) -> None:
    if claim is not None:
        interval = print_interval(claim)
        low, high = 100 * interval.low, 100 * interval.high
        axes.barh(row, max(high - low, WIDTH_OF_EXACT), left=low, height=0.62, color=REPORTED, alpha=0.55, zorder=1)
    means = {name: sum(found) / len(found) for name, found in values.items()}
    axes.plot([min(means.values()), max(means.values())], [row, row], color=FAINT, linewidth=0.8, zorder=2)
    for (name, (_, _, marker)), offset in zip(TRAINED_RUNS.items(), (-0.17, 0.0, 0.17), strict=True):
        if name in values:
            axes.plot(means[name], row + offset, marker, color=colour, markersize=5, zorder=4)
            axes.hlines(row + offset, min(values[name]), max(values[name]), color=colour, linewidth=1.2, zorder=3)
