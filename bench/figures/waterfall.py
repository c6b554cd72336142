"""The ladder from one number to another: what each rung adds, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bench.figures.style import FAINT, INK, REPORTED, SMALL, WIDTH, canvas, style

UP, DOWN = "#0072B2", "#D55E00"


class Rung(NamedTuple):
    """What one change adds to the number."""

    name: str
    effect: float  # mean over seeds
    low: float  # interval of the effect
    high: float
    n: int  # seeds


def waterfall(rungs: Sequence[Rung], start: float = 0.0, unit: str = "", first: str = "start", last: str = "") -> Any:
    """Return the drawing: a bar for each rung from where the one before ended, its interval at its end.

    Args:
        rungs: in the order in which the changes are made.
        start: the number before the first of them.
        unit: of the number, for the axis.
        first: name of the start.
        last: name of the end; '' draws no line for it.
    """
    with style():
        n_lines = len(rungs) + 1 + bool(last)
        drawing = canvas(WIDTH, 0.8 + 0.3 * n_lines)
        axes = drawing.subplots()
        names, level = [first], start
        axes.plot([start], [0], "o", color=INK)
        axes.annotate(f"{start:.4g}", (start, 0), (6, 0), textcoords="offset points", va="center", fontsize=SMALL)
        for place, rung in enumerate(rungs, start=1):
            colour = UP if rung.effect >= 0 else DOWN
            axes.barh(place, rung.effect, left=level, height=0.6, color=colour, alpha=0.75)
            axes.plot([level, level], [place - 1.0, place + 0.3], color=FAINT, linewidth=0.7, zorder=0)
            axes.plot([level + rung.low, level + rung.high], [place, place], color=INK, linewidth=1.2)
            right = max(level, level + rung.effect, level + rung.high)
            text = f"{rung.effect:+.3g} ({rung.low:+.2g} to {rung.high:+.2g}, n = {rung.n})"
            axes.annotate(text, (right, place), (6, 0), textcoords="offset points", va="center", fontsize=SMALL)
            level += rung.effect
            names.append(rung.name)
        if last:
            axes.plot([level, level], [len(rungs), len(rungs) + 1], color=FAINT, linewidth=0.7, zorder=0)
            axes.plot([level], [len(rungs) + 1], "o", color=INK)
            axes.annotate(f"{level:.4g}", (level, len(rungs) + 1), (6, 0), textcoords="offset points", va="center")
            names.append(last)
        axes.axvline(start, color=REPORTED, linewidth=0.8, linestyle=":", zorder=0)
        axes.set_yticks(range(n_lines), names)
        axes.set_ylim(n_lines - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.margins(x=0.25)
        axes.set_xlabel(unit)
        return drawing
