"""Changes of the accuracy: a row for each, its mean over the same seeds and its interval, in percentage points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.judge.stats.paired import Paired
from bench.show.figures.style import FAINT, REPORTED, SMALL, WIDTH, canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

LINEAR = 1.0  # points to either side of zero that are drawn to scale; beyond, the axis is logarithmic
TICKS = (-10, -3, -1, 0, 1, 3, 10)
REACH = 12.0  # points, of the axis
EXPLAINED = (
    "Mean difference of the same n seeds with its 95 % t interval, percentage points. Grey: the interval includes "
    f"zero, so that no effect is shown. The axis is linear within {LINEAR:g} point and logarithmic beyond."
)


@dataclass(frozen=True)
class Change:
    """What one change does."""

    subject: str  # what is changed
    name: str  # of the change
    paired: Paired
    colour: str  # where the effect is clear


def draw_changes(changes: Sequence[Change], width: float = WIDTH) -> Drawing:
    """Return the drawing: a row for each change."""
    is_narrow = width < WIDTH
    drawing = canvas(width, 0.7 + (0.4 if is_narrow else 0.28) * len(changes))
    axes = drawing.subplots()
    axes.axvline(0, color=FAINT, linewidth=1)
    for row, change in enumerate(changes):
        is_clear = change.paired.excludes_zero
        colour = change.colour if is_clear else REPORTED
        if change.paired.interval is not None:
            axes.plot([100 * end for end in change.paired.interval], [row, row], color=colour, linewidth=1.6)
        axes.plot(100 * change.paired.mean, row, "o" if is_clear else "|", color=colour, markersize=6)
        text = f"{100 * change.paired.mean:+.2f}, n = {change.paired.n}"
        axes.annotate(text, (1, row), xycoords=("axes fraction", "data"), va="center", ha="right", fontsize=SMALL)
    between = "\n" if is_narrow else ": "
    axes.set_yticks(range(len(changes)), [f"{one.subject}{between}{one.name}" for one in changes])
    axes.set_ylim(len(changes) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xscale("symlog", linthresh=LINEAR, linscale=1.0)
    axes.set_xlim(-REACH, 1500 if is_narrow else 60)  # room for the numbers
    axes.set_xticks(TICKS, [f"{tick:+g}" if tick else "0" for tick in TICKS])
    axes.minorticks_off()
    axes.set_xlabel("change of the accuracy [percentage points]")
    return drawing
