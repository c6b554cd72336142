"""What a figure is before it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.show.figures.style import Drawing

FIELD = "field"
"""The group of figures that no document has, but that papers on uncertainty usually have."""


@dataclass(frozen=True)
class Figure:
    """A figure that the records can make. Only `draw` and `narrow` take time; call them inside `style.style()`."""

    name: str  # of its file, without ending
    title: str
    caption: str  # what is shown, of which records, with n; where reported numbers come from
    group: str  # the document whose figure it is, or `FIELD`
    draw: Callable[[], Drawing]
    narrow: Callable[[], Drawing] | None = None  # draws it for a page as narrow as a telephone


@dataclass(frozen=True)
class Absent:
    """A figure that the records cannot make."""

    name: str
    title: str
    group: str
    reason: str  # a sentence: what is not there, and what would make it
