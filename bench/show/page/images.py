"""Figures as data inside the page, so that it needs no other file and the ids of two drawings cannot clash."""

from __future__ import annotations

import base64
import gc
import importlib
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

from bench.run.child import end_with
from bench.show.figures.figure import Figure
from bench.show.figures.style import Drawing, printed, style
from bench.show.page.links import anchor

LARGEST_SVG = 300_000  # bytes; a larger drawing is embedded as pixels
PIXELS_PER_INCH = 144
PLAIN = ' !"$()*+,-./:;<=>?@[]^_`{|}~'  # stand for themselves in an address between apostrophes; ' & # % do not
CSS_PIXELS_PER_INCH = 96


@dataclass(frozen=True)
class Image:
    """One drawn figure."""

    id: str
    title: str
    caption: str
    address: str  # data:...
    width: int  # CSS pixels
    height: int
    narrow: str = ""  # address of a drawing for a narrow page; '' if the wide one serves there too


class Drawings:
    """Processes that draw figures, on all cores that this process may use; equal records give equal bytes.

    Each process draws on one thread: a drawing multiplies matrices of 3 x 3, for which further threads of NumPy's
    linear algebra would only wait busily. Figures cannot be pickled. So the processes are forked: then they have the
    figures already.
    """

    def __init__(self, figures: Sequence[Figure]) -> None:
        """Start the processes."""
        importlib.import_module("matplotlib.backends.backend_svg")  # once, not in each process
        others = set(active_children())
        workers = max(1, min(len(figures), len(os.sched_getaffinity(0))))
        self._pool = ProcessPoolExecutor(workers, get_context("fork"), _take, (figures,))
        with threadpool_limits(1):
            self._drawn = self._pool.map(_embed, range(len(figures)))
        self._workers = set(active_children()) - others

    def images(self) -> list[Image]:
        """Wait until all figures are drawn, and return them; may be called once."""
        return list(self._drawn)

    def __enter__(self) -> Self:
        """Return this object. What is made until the exit is nearly all kept, so no garbage is looked for."""
        gc.disable()
        return self

    def __exit__(self, error: object, *_: object) -> None:
        """End the processes. After an error nobody needs their drawings: then end them at once."""
        gc.enable()
        if error is not None:
            for worker in self._workers:
                worker.terminate()
        self._pool.shutdown(cancel_futures=True)


_taken: list[Figure] = []
"""The figures that this process draws, if it is one of `Drawings`."""


def _take(figures: Sequence[Figure]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command gets the same signal, and ends these processes
    end_with(os.getppid())  # if the command is killed, it cannot end them
    gc.disable()  # takes a tenth of the time; the garbage of all drawings together is below 100 MB
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
    """Return a drawing as an address that HTML need not escape between apostrophes."""
    content = printed(drawing, "svg")
    if len(content) > LARGEST_SVG:
        pixels = printed(drawing, "png", dpi=PIXELS_PER_INCH)
        return Markup(f"data:image/png;base64,{base64.b64encode(pixels).decode()}")
    # A third smaller than base64. Coordinates have six decimals; one is enough: 0.1 of a point.
    text = re.sub(r"<!--.*?-->|(?<=<g) id=\"[^\"]+\"", "", content.decode())  # nothing refers to these ids
    text = re.sub(r' (?:d|x|y)="[^"]+"', lambda place: re.sub(r"(\.\d)\d+", r"\1", place[0]), text)
    return Markup(f"data:image/svg+xml,{quote(' '.join(text.split()), safe=PLAIN)}")
