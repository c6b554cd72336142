"""What a figure is before it is drawn, and what several share: panels in rows, labels apart, an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from bench.show.figures.style import WIDTH, Axes, Drawing, canvas

FIELD = "field"
"""The group of figures that no document has, but that papers on uncertainty usually have."""
LECTURE = "lecture"
"""The group of figures that are not on the page."""


@dataclass(frozen=True)
class Figure:
    """A figure that the records can make. Only `draw` and `narrow` take time; call them inside `style.style()`."""

    name: str  # of its file, without ending
    title: str
    caption: str  # what is shown, of which records, with n; where reported numbers come from
    group: str  # the document whose figure it is, `FIELD` or `LECTURE`
    draw: Callable[[], Drawing]
    narrow: Callable[[], Drawing] | None = None  # draws it for a page as narrow as a telephone


@dataclass(frozen=True)
class Absent:
    """A figure that the records cannot make."""

    name: str
    title: str
    group: str
    reason: str  # a sentence: what is not there, and what would make it


Pixels = NDArray[np.float32]


def small_multiples(count: int, height: float, across: str, up: str, columns: int = 3) -> tuple[Drawing, list[Axes]]:
    """Return a drawing and `count` panels with common, named axes in rows of `columns`, each `height` inches.

    What is set for the axes of one panel holds for all; to set it for each takes long.
    """
    rows = -(-count // columns)
    drawing = canvas(WIDTH, 0.4 + height * rows)
    panels = drawing.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).reshape(-1)
    for axes in panels[count:]:
        axes.set_axis_off()
    for axes in panels[max(0, count - columns) : count]:  # the lowest of each column names its axis
        axes.tick_params(labelbottom=True)
    drawing.supxlabel(across, fontsize=8)
    drawing.supylabel(up, fontsize=8)
    return drawing, list(panels[:count])


def spread(values: Sequence[float], gap: float) -> list[float]:
    """Return a place for the label of each value. Labels are at least `gap` apart, in the order of the values.

    The sum of the squared distances from the values is the least possible: labels that would stand too near become one
    block around their mean.
    """
    order = np.argsort(values, kind="stable")
    blocks: list[list[float]] = []  # the wanted places of a block's labels, less what the labels before them take
    for number, place in enumerate(order):
        block = [values[place] - gap * number]
        while blocks and fmean(blocks[-1]) >= fmean(block):  # de Leeuw and others 2009, J. Stat. Softw. 32(5)
            block = blocks.pop() + block
        blocks.append(block)
    middles = [fmean(block) for block in blocks for _ in block]
    placed = dict(zip(order.tolist(), (middle + gap * number for number, middle in enumerate(middles)), strict=True))
    return [placed[number] for number in range(len(values))]


def show_image(axes: Axes, image: Pixels) -> None:
    """Draw one image [28, 28] as ink on paper, without ticks; pixels outside [0, 1] are cut."""
    axes.imshow(1 - np.clip(image, 0, 1), cmap="gray", vmin=0, vmax=1, interpolation="none")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    for edge in ("top", "right", "bottom", "left"):
        axes.spines[edge].set_visible(False)
