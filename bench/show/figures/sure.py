"""The first figure: of which share of digits, letters, clothes and noise is each network at least 99 % sure?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from bench.core.errors import BenchError
from bench.data.files import Bytes, find, read_idx
from bench.data.manifest import manifest
from bench.show.figures.figure import FIELD, Absent, Figure, Pixels, show_image
from bench.show.figures.style import COLOURS, FAINT, NARROW, READABLE, REPORTED, SOFT, WIDTH, Axes, Drawing, canvas
from bench.show.figures.svg import mark
from bench.show.inputs import Inputs
from bench.show.row_numbers import SURE_OF
from bench.show.tables.sure import CALIBRATED, PLAIN, Network, networks

NAME = "sure"
TITLE = "Bayesian networks are sure of fewer letters, clothes and noise, but also of fewer digits"
SIDE = 28  # pixels of a picture's side
BELOW = "Share of pictures of which a network is at least 99 % sure"
BAYESIAN = ""
WRITTEN = {PLAIN: "#A34700", BAYESIAN: COLOURS[0]}  # colours of numbers: 4.5 to 1 against white at least
LOOKS = {PLAIN: ("s", COLOURS[1]), CALIBRATED: ("D", REPORTED), BAYESIAN: ("o", COLOURS[0])}


class Kind(NamedTuple):
    """One kind of pictures."""

    dataset: str
    title: str
    wanted: str
    file: str  # of its pictures; '' for noise


KINDS = (
    Kind("mnist", "Digits", "should be sure", "t10k-images"),
    Kind("letters", "Letters (not D, I)", "should not be sure", "letters-images"),
    Kind("fashion_mnist", "Clothes", "should not be sure", "t10k-images"),
    Kind("noise_gaussian", "Noise", "should not be sure", ""),
)


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give the figure."""
    names = [f"{kind.dataset}/{SURE_OF}" for kind in KINDS]
    known = [one for one in networks(inputs) if one.approach in LOOKS or one.is_bayesian]
    found = [one for one in known if all(name in one.seeds for name in names)]
    if not any(one.approach == PLAIN for one in found) or len(found) < 2:
        yield Absent(NAME, TITLE, FIELD, inputs.not_run("mlp and another network, measured by protocol common"))
        return
    try:
        examples = [_example_of(kind) for kind in KINDS]
    except BenchError as error:
        yield Absent(NAME, TITLE, FIELD, str(error))
        return
    caption = (
        f"{BELOW}. {_in_words(found)} Letters: without D and I, which are read as 0 and 1. "
        f"{inputs.conditions(one.seeds[f'mnist/{SURE_OF}'] for one in found)}"
    )
    draw = partial(_draw, found, examples)
    yield Figure(NAME, TITLE, caption, FIELD, draw, narrow=partial(draw, layout=_NARROW))


def _example_of(kind: Kind) -> Pixels:
    """Return the first picture of a kind; of noise, one that is drawn alike."""
    if kind.file:
        return np.asarray(pictures(kind)[0] / 255, np.float32)
    return np.clip(np.random.default_rng(0).standard_normal((SIDE, SIDE), np.float32), 0, 1)


def pictures(kind: Kind) -> Bytes:
    """Return the test pictures of a kind that has a file, bytes [N, 28, 28]. Tensors would take a second to import."""
    known = manifest(kind.dataset)
    file = known.file(kind.file)
    return read_idx(find(known, file, None), file.shape, file.sha256, known.how)


def _in_words(found: Sequence[Network]) -> str:
    """Return the figure's numbers as text, for readers who do not see it."""
    parts = []
    for kind in KINDS:
        shares = {one.approach: _percent(one, kind) for one in found}
        others = sorted(share for name, share in shares.items() if name not in LOOKS)
        span = f", Bayesian networks {_span(others)}" if others else ""
        parts.append(f"{kind.title}: ordinary network {shares[PLAIN]:.0f} %{span}")
    return "; ".join(parts) + "."


def _span(ordered: Sequence[float]) -> str:
    """Return "8 to 21 %", or "8 %" if both are shown alike."""
    return " to ".join(dict.fromkeys((f"{ordered[0]:.0f}", f"{ordered[-1]:.0f}"))) + " %"


def _percent(one: Network, kind: Kind) -> float:
    mean = one.seeds[f"{kind.dataset}/{SURE_OF}"].mean
    assert mean is not None
    return 100 * mean


class _Layout(NamedTuple):
    """Places in inches, from the lower left corner; lines and sizes of text in points."""

    width: float
    height: float
    left: float  # where the axes begin
    heading: float  # height above the axes
    side: float  # of an example
    mark: float  # where marks stand in a row, from its upper edge, as a share
    breaks: tuple[str, str] = ("", "")  # words of title and subtitle before which a line begins
    title: float = 9.8
    columns: int = 3  # of the legend
    label: float = 5  # least place of a label, percent: left of it stands the example


_WIDE = _Layout(width=WIDTH, height=3.2, left=2.15, heading=0.8, side=0.44, mark=0.64)
_NARROW = _Layout(NARROW, 4.7, 0.25, 1.35, 0.3, 0.78, breaks=("clothes and", "of which"), title=9, columns=1, label=17)
BOTTOM, RIGHT = 0.32, 0.3  # inches


def _draw(found: Sequence[Network], pictures: Sequence[Pixels], layout: _Layout = _WIDE) -> Drawing:
    """Return the drawing: a row for each kind of picture, with an example and one mark for each network."""
    drawing = canvas(layout.width, layout.height)
    drawing.set_layout_engine("none")
    height = layout.height - layout.heading - BOTTOM
    box = (layout.left, BOTTOM, layout.width - layout.left - RIGHT, height)
    axes = drawing.add_axes(_shares(layout, *box))
    axes.set_xlim(-1, 101)
    axes.set_ylim(len(KINDS), 0)
    axes.set_xticks(range(0, 101, 25), [f"{tick} %" for tick in range(0, 101, 25)])
    axes.tick_params(labelsize=READABLE)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    for row, (kind, picture) in enumerate(zip(KINDS, pictures, strict=True)):
        axes.axhline(row + 1, color=FAINT, linewidth=1.6 if row == 0 else 0.6)
        _marks(axes, row + layout.mark, layout.label, found, kind)
        top = BOTTOM + height * (1 - row / len(KINDS))
        _example(drawing, layout, top - height / len(KINDS) / 2, top, picture, kind)
    _heading(drawing, layout, found)
    return drawing


def _shares(layout: _Layout, x: float, y: float, width: float, height: float) -> tuple[float, float, float, float]:
    """Return a box in inches as shares of the drawing."""
    return x / layout.width, y / layout.height, width / layout.width, height / layout.height


def _marks(axes: Axes, at: float, label: float, found: Sequence[Network], kind: Kind) -> None:
    """Draw one mark for each network, and write the numbers above them."""
    shares = {one.approach: _percent(one, kind) for one in found}
    for one in found:
        share = shares[one.approach]
        marker, colour = LOOKS.get(one.approach, LOOKS[BAYESIAN])
        size = 5 if one.approach == CALIBRATED else 7
        (drawn,) = axes.plot(share, at, marker, color=colour, markersize=size, alpha=0.8, zorder=3)
        drawn.set_gid(mark((one.approach, one.title), f"{kind.title}: {one.title} is 99 % sure of {share:.1f} %"))
    bayesian = sorted(share for name, share in shares.items() if name not in LOOKS)
    texts = [(shares[PLAIN], f"{shares[PLAIN]:.0f} %", WRITTEN[PLAIN])]
    if bayesian:
        low, high = bayesian[0], bayesian[-1]
        axes.plot([low, high], [at, at], color=LOOKS[BAYESIAN][1], linewidth=2, alpha=0.35, zorder=2)
        texts.append((max((low + high) / 2, label), _span(bayesian), WRITTEN[BAYESIAN]))
    for x, text, colour in texts:
        axes.text(x, at - 0.2, text, ha="center", va="bottom", color=colour, weight="bold", fontsize=READABLE)


def _example(drawing: Drawing, layout: _Layout, middle: float, top: float, picture: Pixels, kind: Kind) -> None:
    """Put an example and the kind's name left of its row, on a narrow page at the row's top."""
    is_wide = layout is _WIDE
    low = middle - layout.side / 2 if is_wide else top - layout.side - 0.06
    small = drawing.add_axes(_shares(layout, 0.05, low, layout.side, layout.side))
    show_image(small, picture)
    for edge in small.spines.values():
        edge.set(visible=True, color=FAINT)
    x, y = (0.05 + layout.side + 0.12) / layout.width, middle if is_wide else low + layout.side / 2
    title, wanted = (y + 0.04, y - 0.06) if is_wide else (y, y)
    drawing.text(
        x, title / layout.height, kind.title, weight="bold", fontsize=9.5, va="bottom" if is_wide else "center"
    )
    x = x if is_wide else 0.5
    drawing.text(
        x, wanted / layout.height, kind.wanted, color=SOFT, fontsize=READABLE, va="top" if is_wide else "center"
    )


def _heading(drawing: Drawing, layout: _Layout, found: Sequence[Network]) -> None:
    from matplotlib.lines import Line2D

    title, below = (
        text.replace(word, f"\n{word}") if word else text
        for text, word in zip((TITLE, BELOW), layout.breaks, strict=True)
    )
    lines = 2 if layout.breaks[0] else 1
    y = 1 - 0.05 / layout.height
    drawing.text(0.05 / layout.width, y, title, weight="bold", fontsize=layout.title, va="top")
    y -= (lines * layout.title * 1.3 / 72 + 0.03) / layout.height
    drawing.text(0.05 / layout.width, y, below, color=SOFT, fontsize=READABLE, va="top")
    y -= (lines * 9 * 1.3 / 72 + 0.03) / layout.height
    names = {
        PLAIN: "ordinary network",
        CALIBRATED: "calibrated network",
        BAYESIAN: f"{sum(one.approach not in LOOKS for one in found)} Bayesian networks",
    }
    shown = {one.approach if one.approach in LOOKS else BAYESIAN for one in found}
    marks = [
        Line2D([], [], marker=marker, linestyle="", color=colour, markersize=6, label=names[name])
        for name, (marker, colour) in LOOKS.items()
        if name in shown
    ]
    place = {"loc": "upper left", "bbox_to_anchor": (0, y), "borderaxespad": 0.0, "handletextpad": 0.1}
    drawing.legend(handles=marks, ncols=layout.columns, fontsize=READABLE, **place)
