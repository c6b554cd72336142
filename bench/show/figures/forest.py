"""Reported end results against our interval for one more run, each in units of its margin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from bench.judge.claims import print_interval
from bench.judge.comparison import CANNOT_TELL
from bench.judge.stats.rule import Verdict
from bench.show.figures.figure import FIELD, Absent, Figure
from bench.show.figures.style import NARROW, READABLE, REPORTED, WIDTH, Axes, Drawing, canvas
from bench.show.figures.svg import mark
from bench.show.inputs import Inputs
from bench.show.outcomes import LOOKS
from bench.show.tables.verdicts import load_short_names

if TYPE_CHECKING:
    from matplotlib.artist import Artist

INCHES, NARROW_INCHES = 0.2, 0.36  # of the height of a line; the second where a label takes two lines
TICKS, NARROW_TICKS = (1, 3, 10, 30, 100, 300, 1000, 10_000, 100_000), (1, 10, 100, 1000, 10_000, 100_000)
NAME, TITLE = "end-results", "All end results of the documents against our interval for one more run"


class ClaimMark(NamedTuple):
    """A claim in units of its margin."""

    label: str
    approach: str
    printed: str
    outcome: str
    middle: float  # our mean minus the reported value
    low: float  # the 95 % prediction interval for one more run, minus the farthest number that prints as the report
    high: float

    @property
    def said(self) -> str:
        """Return the mark in words."""
        interval = "" if self.low == self.high else f", 95 % of runs {self.low:+.2f} to {self.high:+.2f}"
        what = f"{self.label}, reported {self.printed}: {self.outcome}"
        return f"{what}. Ours minus reported: {self.middle:+.2f} margins{interval}"


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give the figure."""
    seen = [verdict for verdict in inputs.judgement.ends if verdict.difference is not None]
    if not seen:
        yield Absent(NAME, TITLE, FIELD, inputs.not_run("a published recipe by the published protocol"))
        return
    names = load_short_names()
    lines = [
        claim_mark(verdict, f"{_who(verdict.claim.source)}: {names.get(verdict.claim.id) or verdict.claim.metric}")
        for verdict in seen
    ]
    approaches = dict.fromkeys(verdict.claim.approach for verdict in seen)
    records = [record for name in approaches for record in inputs.finished(name, "published", "published")]
    caption = (
        "Our mean minus the reported value, in units of the difference that would matter (grey band); bars: the 95 % "
        "interval for one more run of ours, minus the farthest number that prints as the report. A bar that leaves the "
        "band confirms nothing; if it is wider than the band, no report could be confirmed. Linear "
        f"within the band, logarithmic beyond. {inputs.conditions(records)}"
    )
    yield Figure(NAME, TITLE, caption, FIELD, partial(_draw, lines), narrow=partial(_draw, lines, NARROW))


def _who(source: str) -> str:
    """Return the author of a document, from the document's name."""
    return source.partition("-")[0].rstrip("0123456789") + (" (first run)" if "first" in source else "")


def claim_mark(verdict: Verdict, label: str) -> ClaimMark:
    """Return a measured claim in units of its margin; of a computed number, of half of its print interval."""
    claim = verdict.claim
    interval = print_interval(claim)
    unit = claim.margin or (interval.high - interval.low) / 2
    assert verdict.centre is not None
    middle = verdict.centre - claim.value
    ends = (middle, middle)
    if verdict.interval is not None:
        low, high = verdict.interval
        ends = low - interval.high, high - interval.low
    places = (place / unit for place in (middle, *ends))
    return ClaimMark(label, claim.approach, claim.printed, verdict.outcome, *places)


def _draw(lines: Sequence[ClaimMark], width: float = WIDTH) -> Drawing:
    """Return the drawing: a line for each claim."""
    is_wide = width == WIDTH
    drawing = canvas(width, 1.0 + (INCHES if is_wide else NARROW_INCHES) * len(lines))
    axes = drawing.subplots()
    _marks(axes, lines)
    axes.axvspan(-1, 1, color=REPORTED, alpha=0.15, linewidth=0, zorder=0)
    axes.axvline(0, color=REPORTED, linewidth=0.8, zorder=1)
    _scale(
        axes, max(2.0, *(1.25 * abs(place) for line in lines for place in (line.low, line.middle, line.high))), is_wide
    )
    axes.set_ylim(len(lines) - 0.2, -0.8)
    axes.set_yticks(range(len(lines)), [line.label if is_wide else line.label.replace(": ", "\n", 1) for line in lines])
    axes.tick_params(labelsize=READABLE)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    handles, labels = _legend(axes)
    place = {"loc": "lower left", "bbox_to_anchor": (0 if is_wide else -0.9, 1), "borderaxespad": 0.2}
    axes.legend(handles, labels, ncols=3 if is_wide else 1, fontsize=READABLE, **place)
    return drawing


def _scale(axes: Axes, reach: float, is_wide: bool) -> None:
    """Make the axis of margins linear within one margin, logarithmic beyond."""
    axes.set_xscale("symlog", linthresh=1, linscale=1.2)
    axes.set_xlim(-reach, reach)
    shown = [tick for tick in (TICKS if is_wide else NARROW_TICKS) if tick <= reach]
    if not is_wide:
        shown = sorted({shown[0], shown[-1]})  # there is no room for more
    at = sorted([0, *shown, *(-tick for tick in shown)])
    axes.set_xticks(at, [f"{tick:g}" for tick in at])
    axes.minorticks_off()
    across = "our mean minus the reported value [margins]" if is_wide else "ours minus reported [margins]"
    axes.set_xlabel(across, fontsize=READABLE)


def _marks(axes: Axes, lines: Sequence[ClaimMark]) -> None:
    """Draw the intervals and marks."""
    for row, line in enumerate(lines):
        look, known = LOOKS[line.outcome], mark((line.approach,), line.said)
        axes.plot([line.low, line.high], [row, row], color=look.light, linewidth=1.0, zorder=2, gid=known)
        (drawn,) = axes.plot(line.middle, row, marker=look.marker, linestyle="none", color=look.light, gid=known)
        drawn.set(markersize=7 if line.outcome == CANNOT_TELL else 5, markeredgewidth=0.8, fillstyle=look.fill)
        drawn.set(label=line.outcome, zorder=2)


def _legend(axes: Axes) -> tuple[list[Artist], list[str]]:
    """Return a mark of each outcome that is there, in the order of all outcomes, and its name."""
    marks = {str(one.get_label()): one for one in axes.lines if one.get_label() in LOOKS}
    shown = [outcome for outcome in LOOKS if outcome in marks]
    return [marks[outcome] for outcome in shown], shown
