"""alsibahi2019's pictures: 64 digits with their labels, and the first 64 on which 30 draws disagree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from bench.core.errors import BenchError
from bench.data.splits import load_split
from bench.measure.metrics.draws import VOTE_DRAWS
from bench.show.figures.figure import Absent, Figure, Pixels, mosaic
from bench.show.figures.style import INK, WIDTH, Axes, Drawing, canvas
from bench.show.inputs import Inputs

DOCUMENT = "alsibahi2019"
SHOWN, COLUMNS = 64, 8
APPROACHES = ("pyro_hidden_layer", "dropout_fcn")  # the document shows the first alone
MOST_LINES = 3  # classes below an image
TRUE = "#0072B2"  # of the label's class


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give the labelled digits, and the uncertain ones of each approach of the document."""
    title = "The first 64 training images with their labels"
    try:
        load_split("test10k", 0)
    except BenchError as error:
        yield Absent(f"{DOCUMENT}-digits", title, DOCUMENT, str(error))
        for approach in APPROACHES:
            yield Absent(f"{DOCUMENT}-uncertain-{approach}", _title(approach), DOCUMENT, str(error))
        return
    caption = (
        "The first 64 of the 50,000 images that the published recipe trains on, in its order, label on top. The "
        "document states no seed: these are ours of seed 0. From the data set alone."
    )
    yield Figure(f"{DOCUMENT}-digits", title, caption, DOCUMENT, _labelled)
    for approach in APPROACHES:
        yield _uncertain(inputs, approach)


def _title(approach: str) -> str:
    return f"Digits on which {VOTE_DRAWS} draws of {approach} disagree"


def _uncertain(inputs: Inputs, approach: str) -> Figure | Absent:
    name, records = f"{DOCUMENT}-uncertain-{approach}", inputs.finished(approach, "published", "published")
    kept = [(record, found) for record in records if (found := record.arrays.first_uncertain) and found.rows]
    if not kept:
        reason = inputs.not_run(f"{approach} published x published with uncertain images")
        return Absent(name, _title(approach), DOCUMENT, reason)
    record, found = kept[0]
    rate = record.metrics.get("mnist/heldout10k-of-train/disagreement_rate")
    share = "" if rate is None else f"; of all 10,000 it is {rate:.1%}"
    caption = (
        f"The first {len(found.rows)} of 10,000 held-out images whose {VOTE_DRAWS} draws do not all have their "
        f"largest probability in the same class ({found.scanned:,} images were looked at{share}). Below each image: "
        f"classes with their share of the draws, the label's class blue and bold; at most {MOST_LINES} classes. The "
        f"document shows such images of the Bayesian network and states no number. {inputs.conditions([record])}"
    )
    return Figure(name, _title(approach), caption, DOCUMENT, partial(_draw_uncertain, found.rows, found.votes))


def _labelled() -> Drawing:
    train = load_split("train50k", 0)
    paper, places = mosaic(train.x[:SHOWN].reshape(-1, 28, 28).numpy(), COLUMNS, (14, 8))
    drawing, axes = _paper(paper)
    for (x, y), label in zip(places, train.y[:SHOWN].tolist(), strict=True):
        axes.text(x, y - 29, str(label), ha="center", va="bottom", fontsize=8.5)
    axes.set_ylim(paper.shape[0] - 12, -13)  # labels stand above the images: move the space below the last row up
    return drawing


def _draw_uncertain(rows: Sequence[int], votes: Sequence[Sequence[int]]) -> Drawing:
    split = load_split("train60k", 0)
    images, labels = split.x[list(rows)].reshape(-1, 28, 28).numpy(), split.y[list(rows)].tolist()
    paper, places = mosaic(images, COLUMNS, (33, 14))
    drawing, axes = _paper(paper)
    for (x, y), mine, label in zip(places, votes, labels, strict=True):
        ranked = sorted((-count, digit) for digit, count in enumerate(mine) if count)
        for line, (count, digit) in enumerate(ranked[:MOST_LINES]):
            more = " ..." if line == MOST_LINES - 1 and len(ranked) > MOST_LINES else ""
            text = f"{digit}: {-count / sum(mine):.2f}{more}"
            colour, weight = (TRUE, "bold") if digit == label else (INK, "normal")
            place = (x, y + 2 + 9.5 * line)
            axes.text(*place, text, ha="center", va="top", fontsize=7, color=colour, fontweight=weight)
    return drawing


def _paper(paper: Pixels) -> tuple[Drawing, Axes]:
    height, width = paper.shape
    inches = WIDTH * 0.85
    drawing = canvas(inches, inches * height / width)
    axes = drawing.subplots()
    axes.imshow(paper, cmap="gray", vmin=0, vmax=1, interpolation="none")
    axes.set_axis_off()
    return drawing, axes
