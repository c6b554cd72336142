"""Figures as elements of the page, so that it needs no other file and its marks can say their numbers."""

from __future__ import annotations

import gc
import importlib
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from typing import Self

from markupsafe import Markup, escape
from threadpoolctl import threadpool_limits

from bench.core.environment import usable_threads
from bench.run.child import end_with
from bench.show.figures.figure import Figure
from bench.show.figures.style import Drawing, as_svg, style
from bench.show.page.links import anchor

MARK = '<g class="mark"'
NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'  # HTML knows it


@dataclass(frozen=True)
class Image:
    """One drawn figure."""

    id: str
    title: str
    caption: str
    wide: Markup  # the drawing
    narrow: Markup | None = None  # a drawing for a narrow page; None if the wide one serves there too


class Drawings:
    """Processes that draw figures, on all cores that this process may use; equal records give equal bytes.

    Each process draws on one thread: a drawing multiplies matrices of 3 x 3, for which further threads of NumPy's
    linear algebra would only wait busily. Figures cannot be pickled. So the processes are forked: then they have the
    figures already.
    """

    def __init__(self, figures: Sequence[Figure]) -> None:
        """Start the processes."""
        for name in ("matplotlib.backends.backend_svg", "matplotlib.figure"):  # once, not in each process
            importlib.import_module(name)
        others = set(active_children())
        workers = max(1, min(len(figures), usable_threads()))
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
    name = anchor("figure", figure.name)
    with style():
        wide = _inline(figure.draw(), f"w{place}-", figure.title)
        narrow = None if figure.narrow is None else _inline(figure.narrow(), f"n{place}-", figure.title)
    return Image(name, figure.title, figure.caption, wide, narrow)


def _inline(drawing: Drawing, prefix: str, title: str) -> Markup:
    """Return a drawing as an element of the page. The keyboard reaches its first mark, and from it the others."""
    svg = as_svg(drawing, prefix)
    has_marks = MARK in svg
    hint = "; arrow keys go from mark to mark" if has_marks else "; described below"
    role = f'role="{"group" if has_marks else "img"}" aria-label="{escape(title + hint)}" '
    svg = svg.replace(MARK, f'{MARK} tabindex="-1" role="img"').replace('tabindex="-1"', 'tabindex="0"', 1)
    return Markup(svg.replace("<svg ", f"<svg {role}", 1).replace(NAMESPACE, "", 1))
