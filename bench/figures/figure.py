"""What a figure is before it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True)
class Figure:
    """A figure that the records can make; `draw` costs time, the rest does not."""

    name: str  # of its file, without ending
    title: str
    caption: str  # what is shown, of which records, with n; where reported numbers come from
    group: str  # the document whose figure it is, or "field" for those that the field expects
    draw: Callable[[], Drawing]
