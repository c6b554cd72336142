"""Figures inside the page: as data, so that no other file is needed and the ids of two drawings cannot clash."""

from __future__ import annotations

import base64
import os
import re
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from urllib.parse import quote

from markupsafe import Markup
from threadpoolctl import threadpool_limits

from bench.show.figures.figure import Figure
from bench.show.figures.style import Drawing, printed, style
from bench.show.page.links import anchor

LARGEST_SVG = 300_000  # bytes; a larger drawing is embedded as pixels
PIXELS_PER_INCH = 144
PLAIN = ' !"$()*+,-./:;<=>?@[]^_`{|}~'  # in an address inside apostrophes; not ' & # %
CSS_PIXELS_PER_INCH = 96


@dataclass(frozen=True)
class Image:
    """One figure ready to be shown."""

    id: str
    title: str
    caption: str
    address: str  # data:...
    width: int  # CSS pixels
    height: int
    narrow: str = ""  # the same, drawn for a narrow page; '' where the wide drawing serves


def embed(figures: Sequence[Figure]) -> list[Image]:
    """Draw figures, on all cores that this process may use; equal records give equal bytes.

    Each process draws on one thread: those of NumPy's linear algebra wait busily for the matrices of 3 x 3 of which
    drawings are made. The processes are forked, so that they have the figures, which cannot be sent.
    """
    workers = min(len(figures), len(os.sched_getaffinity(0)))
    with threadpool_limits(1):
        if workers < 2:
            return [_embed(figure) for figure in figures]
        with ProcessPoolExecutor(workers, get_context("fork"), _take, (figures,)) as pool:
            return list(pool.map(_embed_number, range(len(figures))))


_taken: list[Figure] = []
"""In a process of `embed`: what is to be drawn."""


def _take(figures: Sequence[Figure]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who interrupts the command ends these processes through it
    _taken.extend(figures)


def _embed_number(place: int) -> Image:
    return _embed(_taken[place])


def _embed(figure: Figure) -> Image:
    with style():
        drawing = figure.draw()
        width, height = (round(side * CSS_PIXELS_PER_INCH) for side in drawing.get_size_inches())
        address = _address(drawing)
        narrow = Markup() if figure.narrow is None else _address(figure.narrow())
        narrow = narrow.replace(" ", "%20")  # a space would end an address of `srcset`
    return Image(anchor("figure", figure.name), figure.title, figure.caption, address, width, height, narrow)


def _address(drawing: Drawing) -> Markup:
    """Return a drawing as an address without any character that HTML would escape between apostrophes."""
    content = printed(drawing, "svg")
    if len(content) > LARGEST_SVG:
        pixels = printed(drawing, "png", dpi=PIXELS_PER_INCH)
        return Markup(f"data:image/png;base64,{base64.b64encode(pixels).decode()}")
    # A third smaller than base64. Places have six decimals, of which one is enough: 0.1 of a point.
    text = re.sub(r' (?:d|x|y)="[^"]+"', lambda place: re.sub(r"(\.\d)\d+", r"\1", place[0]), content.decode())
    return Markup(f"data:image/svg+xml,{quote(' '.join(text.split()), safe=PLAIN)}")
