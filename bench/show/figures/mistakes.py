"""What each mistake is worth: the change of the accuracy when it alone is corrected, with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.judge.results import described
from bench.judge.stats.paired import Paired
from bench.show.figures.figure import FIELD, Absent, Figure
from bench.show.figures.style import FAINT, NARROW, REPORTED, SMALL, WIDTH, canvas, look
from bench.show.material import Material
from bench.show.tables.mistakes import is_clear, mistakes

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

NAME, TITLE = "mistakes", "What is each mistake worth? Test accuracy when it alone is corrected"
LINEAR = 1.0  # points to either side of zero that are drawn to scale; beyond, the axis is logarithmic
TICKS = (-10, -3, -1, 0, 1, 3, 10)


def make(material: Material) -> Iterator[Figure | Absent]:
    """Give the figure."""
    lines = [_Line(one.approach, one.rung.name, one.accuracy) for one in mistakes(material) if one.accuracy]
    if not lines:
        yield Absent(NAME, TITLE, FIELD, "no change is measured; python -m bench ladder NAME --run does")
        return
    seeds = {seed for line in lines for seed in line.change.seeds}
    caption = (
        "Corrected minus published, all other mistakes left: mean difference of the same n seeds and its 95 % t "
        "interval, percentage points. Grey where the interval reaches zero, so that no effect is shown. The axis is "
        f"linear within {LINEAR:g} point and logarithmic beyond. Common protocol. "
        f"{described((material.profile, material.device, material.precision), seeds)}"
    )
    looks = material.approaches
    yield Figure(NAME, TITLE, caption, FIELD, _Draw(lines, looks, WIDTH), narrow=_Draw(lines, looks, NARROW))


@dataclass(frozen=True)
class _Line:
    approach: str
    mistake: str
    change: Paired


@dataclass(frozen=True)
class _Draw:
    lines: Sequence[_Line]
    names: tuple[str, ...]
    width: float

    def __call__(self) -> Drawing:
        """Return the drawing: a row for each mistake."""
        is_narrow = self.width < WIDTH
        drawing = canvas(self.width, 0.7 + (0.4 if is_narrow else 0.3) * len(self.lines))
        axes = drawing.subplots()
        axes.axvline(0, color=FAINT, linewidth=1)
        for row, line in enumerate(self.lines):
            clear = is_clear(line.change)
            colour = look(line.approach, self.names).colour if clear else REPORTED
            if line.change.interval is not None:
                axes.plot([100 * end for end in line.change.interval], [row, row], color=colour, linewidth=1.6)
            axes.plot(100 * line.change.mean, row, "o" if clear else "|", color=colour, markersize=6)
            text = f"{100 * line.change.mean:+.2f}, n = {line.change.n}"
            axes.annotate(text, (1, row), xycoords=("axes fraction", "data"), va="center", ha="right", fontsize=SMALL)
        between = "\n" if is_narrow else ": "
        axes.set_yticks(range(len(self.lines)), [f"{line.approach}{between}{line.mistake}" for line in self.lines])
        axes.set_ylim(len(self.lines) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.set_xscale("symlog", linthresh=LINEAR, linscale=1.0)
        axes.set_xlim(-12, 1500 if is_narrow else 60)  # room for the numbers
        axes.set_xticks(TICKS, [f"{tick:+g}" if tick else "0" for tick in TICKS])
        axes.minorticks_off()
        axes.set_xlabel("change of the accuracy [percentage points]")
        return drawing
