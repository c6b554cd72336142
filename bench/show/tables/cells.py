"""Cells of a table: a number with its spread and number of seeds, or the reason why it is not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from bench.core.text import FRACTION, Digits
from bench.judge.claims import Gap, Sample

Detail = Literal["full", "spread", "mean"]
"""How much of a cell is shown: mean, spread and seeds; mean and spread; the mean alone."""

NOTHING = Gap("n/a", "nothing was measured")


@dataclass(frozen=True)
class Number:
    """A number without spread: a reported value or a difference of means."""

    value: float
    digits: Digits
    sources: tuple[str, ...] = field(default=(), compare=False)  # see `Linked`


@dataclass(frozen=True)
class Cell:
    """A measured quantity; its sample's gap, or a mark, is explained in the table's notes."""

    sample: Sample
    digits: Digits = FRACTION
    mark: Gap | None = None  # what is to be known of a number that is shown
    inline: bool = False  # give the whole reason in the cell instead of a word and a note

    def gaps(self) -> list[Gap]:
        """Return all that the notes must explain."""
        if self.inline:
            return []
        return [gap for gap in (self.sample.gap, self.mark if self.sample.n else None) if gap is not None]

    def text(self, labels: dict[Gap, str], detail: Detail) -> str:
        """Return what the reader sees, e.g. "0.9726 +- 0.0008 (5)" or "n/a [2]"."""
        mean, sd = self.sample.mean, self.sample.sd
        shown = [labels[gap] for gap in self.gaps()]
        if mean is None:
            return f"not measured: {(self.sample.gap or NOTHING).reason}" if self.inline else " ".join(shown)
        if self.inline and self.sample.gap:
            shown = [self.sample.gap.code]
        text = self.digits.text(mean)
        if sd is not None and detail != "mean":
            text += f" +- {format(sd, self.digits.form(mean).lstrip('+'))}"
            text += f" ({self.sample.n})" if detail == "full" else ""
        return " ".join([text, *shown])


@dataclass(frozen=True)
class Missing:
    """The place of a number that is not there."""

    gap: Gap
    sources: tuple[str, ...] = field(default=(), compare=False)  # see `Linked`

    def gaps(self) -> list[Gap]:
        """Return what the notes must explain."""
        return [self.gap]


@dataclass(frozen=True)
class Linked:
    """Text and where it comes from: keys of records, hashes of speeds, `of_claim` or `of_document`."""

    text: str
    sources: tuple[str, ...] = field(compare=False)

    def __str__(self) -> str:
        """Return the text, which is all that a form without links shows."""
        return self.text


Entry = Number | Cell | Missing | Linked
"""What a table holds besides text."""


def of_claim(claim_id: str) -> str:
    """Return what stands among sources for a reported number."""
    return f"claim:{claim_id}"


def of_document(document: str) -> str:
    """Return what stands among sources for all that is reported by a document."""
    return f"document:{document}"


def sources_of(entry: Any) -> tuple[str, ...]:
    """Return where what stands in a cell of a table comes from, nothing for plain text."""
    if isinstance(entry, Cell):
        return entry.sample.sources
    return entry.sources if isinstance(entry, Number | Missing | Linked) else ()


def difference(measured: Sample, reported: float, digits: Digits) -> Number | Missing:
    """Make the cell of measured mean minus reported value, or of the reason why nothing was measured."""
    if measured.mean is None:
        return Missing(measured.gap or NOTHING, measured.sources)
    return Number(measured.mean - reported, digits, measured.sources)


@dataclass(frozen=True)
class Table:
    """A table: its cells are entries or text."""

    name: str
    title: str
    caption: str  # units, protocol, seeds, profile, device
    frame: pd.DataFrame
    notes: tuple[str, ...]  # the full reason of every gap, then remarks
    brief: str = ""  # what the terminal's summary says of it


def make_table(
    name: str,
    title: str,
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    notes: Iterable[str],
    brief: str = "",
) -> Table:
    """Make a table and the notes that explain its gaps."""
    frame = pd.DataFrame([list(row) for row in rows], columns=list(columns), dtype=object)
    explained = [f"{label}: {gap.reason}" for gap, label in gap_labels(frame).items()]
    return Table(name, title, caption, frame, (*explained, *notes), brief)


def gap_labels(frame: pd.DataFrame) -> dict[Gap, str]:
    """Return what stands in the cells for each gap: its code, numbered where one code has several reasons."""
    by_code: dict[str, list[Gap]] = {}
    for row in frame.itertuples(index=False, name=None):
        for cell in row:
            for gap in cell.gaps() if isinstance(cell, Cell | Missing) else ():
                known = by_code.setdefault(gap.code, [])
                if gap not in known:
                    known.append(gap)
    return {
        gap: code if len(gaps) == 1 else f"{code} [{number}]"
        for code, gaps in by_code.items()
        for number, gap in enumerate(gaps, start=1)
    }


def cell_text(cell: Any, labels: dict[Gap, str], detail: Detail = "full") -> str:
    """Return a cell's text."""
    if isinstance(cell, Cell):
        return cell.text(labels, detail)
    if isinstance(cell, Missing):
        return labels[cell.gap]
    return cell.digits.text(cell.value) if isinstance(cell, Number) else str(cell)
