"""What a figure is before it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.show.figures.style import Drawing

FIELD = "field"
"""The group of the figures that no document has but that the field expects."""


@dataclass(frozen=True)
class Figure:
    """A figure that the records can make; `draw` costs time, the rest does not. Call it inside `style.style()`."""

    name: str  # of its file, without ending
    title: str
    caption: str  # what is shown, of which records, with n; where reported numbers come from
    group: str  # the document whose figure it is, or "field" for those that the field expects
    draw: Callable[[], Drawing]
    narrow: Callable[[], Drawing] | None = None  # the same for a page as narrow as a telephone


@dataclass(frozen=True)
class Absent:
    """A figure that the records cannot make."""

    name: str
    title: str
    group: str
    reason: str  # a sentence: what is not there, and what would make it
