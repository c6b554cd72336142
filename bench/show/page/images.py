"""Figures inside the page: as data, so that no other file is needed and the ids of two drawings cannot clash."""

from __future__ import annotations

import base64
import os
import re
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from typing import Self
from urllib.parse import quote

from markupsafe import Markup
from threadpoolctl import threadpool_limits

from bench.run.orphans import end_with
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


class Drawings:
    """Figures that are being drawn, on all cores that this process may use; equal records give equal bytes.

    Each process draws on one thread: those of NumPy's linear algebra wait busily for the matrices of 3 x 3 of which
    drawings are made. The processes are forked, so that they have the figures, which cannot be sent.
    """

    def __init__(self, figures: Sequence[Figure]) -> None:
        """Begin to draw in other processes."""
        others = set(active_children())
        workers = max(1, min(len(figures), len(os.sched_getaffinity(0))))
        self._pool = ProcessPoolExecutor(workers, get_context("fork"), _take, (figures,))
        with threadpool_limits(1):
            self._drawn = self._pool.map(_embed, range(len(figures)))
        self._workers = set(active_children()) - others

    def images(self) -> list[Image]:
        """Return the figures as images, as soon as all are drawn; ask once."""
        return list(self._drawn)

    def __enter__(self) -> Self:
        """Return the drawings."""
        return self

    def __exit__(self, error: object, *_: object) -> None:
        """End what nobody waits for: after an error, also what is being drawn."""
        if error is not None:
            for worker in self._workers:
                worker.terminate()
        self._pool.shutdown(cancel_futures=True)


_taken: list[Figure] = []
"""In a process of `Drawings`: what is to be drawn."""


def _take(figures: Sequence[Figure]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who interrupts the command ends these processes through it
    end_with(os.getppid())  # also if it is killed
    _taken.extend(figures)


def _embed(place: int) -> Image:
    figure = _taken[place]
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
    text = re.sub(r"<!--.*?-->|(?<=<g) id=\"[^\"]+\"", "", content.decode())  # names that nothing refers to
    text = re.sub(r' (?:d|x|y)="[^"]+"', lambda place: re.sub(r"(\.\d)\d+", r"\1", place[0]), text)
    return Markup(f"data:image/svg+xml,{quote(' '.join(text.split()), safe=PLAIN)}")
