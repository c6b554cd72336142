"""The ladder from one number to another: what each bar adds, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from bench.show.figures.style import FAINT, INK, REPORTED, SMALL, WIDTH, canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

UP, DOWN = "#0072B2", "#D55E00"


class WaterfallBar(NamedTuple):
    """What one change adds to the number."""

    name: str
    effect: float  # mean over seeds
    low: float | None  # interval of the effect, None for one seed
    high: float | None
    n: int  # seeds
    base: float | None = None  # the number before the change; None: where the rung before ended


def waterfall(
    bars: Sequence[WaterfallBar], start: float = 0.0, unit: str = "", first: str = "start", last: str = ""
) -> Drawing:
    """Return the drawing: a bar for each bar from the number before it, its interval at its end.

    Args:
        bars: those that follow one another, in the order in which the changes are made, then those with a base of
            their own.
        start: the number before the first of them.
        unit: of the number, for the axis.
        first: name of the start.
        last: name of the end of those that follow one another; '' draws no line for it.
    """
    chain = [bar for bar in bars if bar.base is None]
    drawing = canvas(WIDTH, 0.8 + 0.3 * (len(bars) + 1 + bool(last)))
    axes = drawing.subplots()
    names = [first]
    _level(axes, 0, start)
    level = start
    for bar in chain:
        axes.plot([level, level], [len(names) - 1, len(names) + 0.3], color=FAINT, linewidth=0.7, zorder=0)
        _bar(axes, len(names), bar, level)
        level += bar.effect
        names.append(bar.name)
    if last:
        axes.plot([level, level], [len(names) - 1, len(names)], color=FAINT, linewidth=0.7, zorder=0)
        _level(axes, len(names), level)
        names.append(last)
    for bar in bars:
        if bar.base is not None:
            _bar(axes, len(names), bar, bar.base)
            names.append(bar.name)
    axes.axvline(start, color=REPORTED, linewidth=0.8, linestyle=":", zorder=0)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.use_sticky_edges = False
    axes.margins(x=0.05)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high + 0.55 * (high - low))  # room for the numbers beside the bars
    axes.set_xlabel(unit)
    return drawing


def _level(axes: Axes, place: int, value: float) -> None:
    axes.plot([value], [place], "o", color=INK)
    axes.annotate(f"{value:.4g}", (value, place), (6, 0), textcoords="offset points", va="center", fontsize=SMALL)


def _bar(axes: Axes, place: int, bar: WaterfallBar, base: float) -> None:
    colour = UP if bar.effect >= 0 else DOWN
    axes.barh(place, bar.effect, left=base, height=0.6, color=colour, alpha=0.75)
    axes.plot([base + bar.effect], [place], ">" if bar.effect >= 0 else "<", color=colour, markersize=6)
    right = max(base, base + bar.effect)
    text = f"{bar.effect:+.3g}"
    if bar.low is not None and bar.high is not None:
        axes.plot([base + bar.low, base + bar.high], [place, place], color=INK, linewidth=1.2)
        right = max(right, base + bar.high)
        text += f" [{bar.low:+.2g}, {bar.high:+.2g}]"
    text += f", n = {bar.n}"
    axes.annotate(text, (right, place), (6, 0), textcoords="offset points", va="center", fontsize=SMALL)
