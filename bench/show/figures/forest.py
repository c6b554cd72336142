"""Reported numbers against our interval, each in units of its margin: all end results, and all of each document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from bench.core.records import Record
from bench.judge.claims import CLOSED_FORM, measured_key, print_interval
from bench.judge.comparison import CANNOT_TELL
from bench.judge.stats.rule import Verdict
from bench.show.figures.figure import FIELD, Absent, Figure
from bench.show.figures.style import NARROW, REPORTED, SMALL, WIDTH, Axes, Drawing, canvas
from bench.show.figures.training import quantity
from bench.show.inputs import Inputs
from bench.show.outcomes import LOOKS
from bench.show.tables.verdicts import kinds_text, load_short_names

SINGLE, EPOCH, BETWEEN = 1.0, 0.24, 0.7  # heights of a claim, of an epoch of a curve, and of the space between blocks
INCHES, NARROW_INCHES = 0.165, 0.27  # of the height 1; the second where a label takes two lines
NAME, TITLE = "end-results", "All end results of the documents against our interval for one more run"


class ClaimMark(NamedTuple):
    """A claim in units of its margin."""

    outcome: str
    middle: float  # our mean minus the reported value
    low: float  # the 95 % prediction interval for one more run, minus the farthest number that prints as the report
    high: float


class Block(NamedTuple):
    """A claim by itself, or the claims of one curve."""

    label: str
    lines: Sequence[ClaimMark]


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give the figure of all end results, then one for each document."""
    yield _end_results(inputs)
    documents: dict[str, list[Verdict]] = {}
    for verdict in inputs.judgement.verdicts:
        documents.setdefault(verdict.claim.source.partition("-")[0], []).append(verdict)
    for document, verdicts in documents.items():
        name, title = f"{document}-verdicts", f"All reported numbers of {document} against our interval"
        seen = [verdict for verdict in verdicts if verdict.difference is not None]
        trained = [verdict for verdict in seen if measured_key(verdict.claim)[0] != CLOSED_FORM]
        records = _records(inputs, trained)
        if not trained:
            yield Absent(name, title, document, inputs.not_run(f"an approach of {document} published x published"))
            continue
        wide, narrow = (partial(_draw, blocks(seen), width) for width in (WIDTH, NARROW))
        yield Figure(name, title, _caption(inputs, verdicts, seen, records), document, wide, narrow=narrow)


def _end_results(inputs: Inputs) -> Figure | Absent:
    seen = [verdict for verdict in inputs.judgement.ends if verdict.difference is not None]
    if not seen:
        return Absent(NAME, TITLE, FIELD, inputs.not_run("a published recipe by the published protocol"))
    names = load_short_names()
    lines = [
        Block(f"{_who(verdict.claim.source)}: {names.get(verdict.claim.id) or verdict.claim.metric}", [_line(verdict)])
        for verdict in seen
    ]
    caption = (
        "Our mean minus the reported value, in units of the difference that would matter (grey band); bars: the 95 % "
        "interval for one more run of ours, minus the farthest number that prints as the report. A bar that leaves the "
        "band confirms nothing; if it is wider than the band, no report could be confirmed. Linear "
        f"within the band, logarithmic beyond. {inputs.conditions(_records(inputs, seen))}"
    )
    return Figure(NAME, TITLE, caption, FIELD, partial(_draw, lines), narrow=partial(_draw, lines, NARROW))


def _records(inputs: Inputs, verdicts: Sequence[Verdict]) -> list[Record]:
    approaches = dict.fromkeys(verdict.claim.approach for verdict in verdicts)
    return [record for name in approaches for record in inputs.finished(name, "published", "published")]


def _who(source: str) -> str:
    """Return the author of a document, from the document's name."""
    return source.partition("-")[0].rstrip("0123456789") + (" (first run)" if "first" in source else "")


def _caption(inputs: Inputs, verdicts: Sequence[Verdict], seen: Sequence[Verdict], records: Sequence[Record]) -> str:
    counted = kinds_text(inputs.judgement.of_documents({verdict.claim.source for verdict in verdicts}))
    unseen = len(verdicts) - len(seen)
    without = f" {unseen} were not measured and have no mark." if unseen else ""
    return (
        f"{counted}{without} Our mean minus the reported value, divided by the "
        "margin declared with the number (for computed numbers by half of the print interval); the grey "
        "band is the margin; bars are 95 % prediction intervals for one more run of ours, minus the farthest number "
        "that prints as the report, if there are two seeds or more. Curves have one mark for each epoch, the first on "
        "top, with the verdict of the whole curve. "
        f"Linear within the margin, logarithmic beyond. {inputs.conditions(records)}"
    )


def blocks(verdicts: Sequence[Verdict]) -> list[Block]:
    """Return a document's claims in their order, with labels; the points of one training curve are one block."""
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        claim = verdict.claim
        stage, key = measured_key(claim)
        is_curve = stage.startswith("epoch")
        found.setdefault(f"{claim.source}/{claim.approach}/{key}" if is_curve else claim.id, []).append(verdict)
    return [Block(_label(members), [_line(verdict) for verdict in members]) for members in found.values()]


def _label(verdicts: Sequence[Verdict]) -> str:
    claim = verdicts[0].claim
    if len(verdicts) == 1:
        return claim.id.partition(".")[2].replace(".", " ").replace("_", " ")
    first, last = (verdict.claim.stage.replace(":", " ") for verdict in (verdicts[0], verdicts[-1]))
    run = claim.source.partition("-")[2].replace("-", " ")
    return f"{claim.approach}{', ' + run if run else ''}\n{quantity(claim)}\n{first} to {last.partition(' ')[2]}"


def _line(verdict: Verdict) -> ClaimMark:
    claim = verdict.claim
    interval = print_interval(claim)
    unit = claim.margin or (interval.high - interval.low) / 2
    assert verdict.centre is not None
    middle = verdict.centre - claim.value
    ends = (middle, middle)
    if verdict.interval is not None:
        low, high = verdict.interval
        ends = low - interval.high, high - interval.low
    return ClaimMark(verdict.outcome, *(place / unit for place in (middle, *ends)))


def _draw(blocks: Sequence[Block], width: float = WIDTH) -> Drawing:
    """Return the drawing: a line for each claim, epochs of a curve close together."""
    places: list[tuple[float, ClaimMark, bool]] = []
    ticks: list[tuple[float, str]] = []
    y = 0.0
    for label, lines in blocks:
        alone = len(lines) == 1
        step = SINGLE if alone else max(EPOCH, 3 * SINGLE / len(lines))
        gap = 0.0 if alone else BETWEEN
        y += gap
        inside = [y + step * (number + 0.5) for number in range(len(lines))]
        places += [(place, line, alone) for place, line in zip(inside, lines, strict=True)]
        y += step * len(lines)
        ticks.append(((inside[0] + inside[-1]) / 2, label))
        y += gap
    is_wide = width == WIDTH
    drawing = canvas(width, 1.0 + (INCHES if is_wide else NARROW_INCHES) * y)
    axes = drawing.subplots()
    reach = _marks(axes, places)
    axes.axvspan(-1, 1, color=REPORTED, alpha=0.15, linewidth=0, zorder=0)
    axes.axvline(0, color=REPORTED, linewidth=0.8, zorder=1)
    axes.set_xscale("symlog", linthresh=1, linscale=1.2)
    axes.set_xlim(-reach, reach)
    wanted = (1, 3, 10, 30, 100, 300, 1000, 10_000, 100_000) if is_wide else (1, 10, 100, 1000, 10_000, 100_000)
    shown = [tick for tick in wanted if tick <= reach]
    if not is_wide:
        shown = sorted({shown[0], shown[-1]})  # there is no room for more
    at = sorted([0, *shown, *(-tick for tick in shown)])
    axes.set_xticks(at, [f"{tick:g}" for tick in at])
    axes.minorticks_off()
    axes.set_ylim(y + 0.3, -0.3)
    labels = [label if is_wide else label.replace(": ", "\n", 1) for _, label in ticks]
    axes.set_yticks([place for place, _ in ticks], labels, fontsize=SMALL)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("our mean minus the reported value [margins]" if is_wide else "ours minus reported [margins]")
    axes.legend(loc="lower left", bbox_to_anchor=(0 if is_wide else -0.5, 1), ncols=3, borderaxespad=0.2)
    return drawing


def _marks(axes: Axes, places: Sequence[tuple[float, ClaimMark, bool]]) -> float:
    """Draw marks and intervals; return how far the axis must reach on either side of 0, in margins."""
    reach = 2.0
    for outcome, (_, colour, _, marker, fill, _) in LOOKS.items():
        for alone in (True, False):
            mine = [(place, line) for place, line, single in places if line.outcome == outcome and single == alone]
            if not mine:
                continue
            y = [place for place, _ in mine]
            x = np.array([line.middle for _, line in mine])
            low, high = (np.array(ends) for ends in ([line.low for _, line in mine], [line.high for _, line in mine]))
            reach = max(reach, 1.25 * float(np.abs([low, x, high]).max()))
            axes.hlines(y, low, high, color=colour, linewidth=1.0 if alone else 0.6, zorder=2)
            label = None if outcome in axes.get_legend_handles_labels()[1] else outcome
            (marks,) = axes.plot(
                x, y, marker=marker, linestyle="none", color=colour, fillstyle=fill, label=label, zorder=3
            )
            marks.set(markersize=(5 if alone else 2.6) * (1.4 if outcome == CANNOT_TELL else 1), markeredgewidth=0.8)
    return reach
