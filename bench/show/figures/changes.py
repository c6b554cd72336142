"""How the accuracy changes when each mistake is corrected, with intervals over paired seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from bench.core.text import counted
from bench.judge.comparison import ALPHA, ENOUGH, Estimate
from bench.judge.results import described
from bench.show.figures.figure import FIELD, Absent, Figure
from bench.show.figures.style import COLOURS, FAINT, NARROW, READABLE, REPORTED, WIDTH, Drawing, canvas
from bench.show.figures.svg import mark
from bench.show.inputs import Inputs
from bench.show.tables.ablation import mistakes

MISTAKES, TITLE = "mistakes", "How much does each mistake change? Test accuracy when it alone is corrected"
LINEAR = 1.0  # points to either side of zero that are drawn to scale; beyond, the axis is logarithmic
TICKS, NARROW_TICKS = (-10, -3, -1, 0, 1, 3, 10), (-10, -1, 0, 1, 10)
CLEAR = COLOURS[0]  # of a change that chance hardly explains
REACH = 12.0  # points; the axis begins here, below zero
EXPLAINED = (
    "Mean difference of the same n seeds with its 95 % t interval, percentage points. Blue: "
    f"p < {ALPHA:g}, adjusted for the number of mistakes (Holm). Grey: chance may explain it, or fewer than {ENOUGH} "
    f"pairs. The axis is linear within {LINEAR:g} point and logarithmic beyond."
)


@dataclass(frozen=True)
class Change:
    """One row of a figure: a change of the recipe, and the accuracy before and after it."""

    subject: str  # what is changed
    name: str  # of the change
    estimate: Estimate
    is_clear: bool


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give the figure."""
    made = mistakes(inputs)
    changes = [Change(one.approach, one.single_change.name, one.accuracy, one.is_clear) for one in made if one.accuracy]
    if not changes:
        yield Absent(MISTAKES, TITLE, FIELD, "no change is measured; python -m bench ablation NAME --run does")
        return
    caption = f"Corrected minus published, all other mistakes left. {EXPLAINED} Common protocol."
    seeds = {seed for change in changes for seed in change.estimate.first.by_seed}
    conditions = described((inputs.profile, inputs.device, inputs.precision), seeds)
    wide, narrow = (partial(draw_changes, changes, width) for width in (WIDTH, NARROW))
    yield Figure(MISTAKES, TITLE, f"{caption} {conditions}", FIELD, wide, narrow=narrow)


def draw_changes(changes: Sequence[Change], width: float = WIDTH) -> Drawing:
    """Return the drawing: a row for each change."""
    is_narrow = width < WIDTH
    drawing = canvas(width, 0.7 + (0.4 if is_narrow else 0.28) * len(changes))
    axes = drawing.subplots()
    axes.axvline(0, color=FAINT, linewidth=1)
    for row, change in enumerate(changes):
        points, interval = 100 * change.estimate.difference, change.estimate.interval()
        colour = CLEAR if change.is_clear else REPORTED
        text = f"{points:+.2f}" if is_narrow else f"{points:+.2f}, n = {change.estimate.n}"
        known = mark((change.subject,), f"{change.subject}, {change.name}: {_said(change.estimate)}")
        if interval is not None:
            axes.plot([100 * end for end in interval], [row, row], color=colour, linewidth=1.6, gid=known)
        axes.plot(points, row, "o" if change.is_clear else "|", color=colour, markersize=6, gid=known)
        axes.annotate(text, (1, row), xycoords=("axes fraction", "data"), va="center", ha="right", fontsize=READABLE)
    between = "\n" if is_narrow else ": "
    axes.set_yticks(range(len(changes)), [f"{one.subject}{between}{one.name}" for one in changes])
    axes.set_ylim(len(changes) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xscale("symlog", linthresh=LINEAR, linscale=1.0)
    axes.set_xlim(-REACH, 1500 if is_narrow else 60)  # room for the numbers
    ticks = NARROW_TICKS if is_narrow else TICKS
    axes.set_xticks(ticks, [f"{tick:+g}" if tick else "0" for tick in ticks])
    axes.minorticks_off()
    axes.tick_params(labelsize=READABLE)
    what = "change" if is_narrow else "change of the accuracy"
    axes.set_xlabel(f"{what} [percentage points]", fontsize=READABLE)
    return drawing


def _said(estimate: Estimate) -> str:
    """Return a change with its interval in words."""
    interval = estimate.interval()
    within = "" if interval is None else f", 95 % interval {100 * interval[0]:+.2f} to {100 * interval[1]:+.2f}"
    return f"{100 * estimate.difference:+.2f} percentage points{within}, {counted(estimate.n, 'seed')}"
