"""What a table is: rows of entries, and its caption and notes as data that each form sets in its own way."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from bench.core.text import FRACTION, Digits
from bench.judge.results import Results
from bench.judge.samples import Gap, Sample

NOTHING = Gap("n/a", "nothing was measured")


@dataclass(frozen=True)
class Number:
    """A number without spread: a reported value or a difference of means."""

    value: float
    digits: Digits
    sources: tuple[str, ...] = field(default=(), compare=False)  # see `Linked`

    def __str__(self) -> str:
        """Return the rounded number."""
        return self.digits.text(self.value)


@dataclass(frozen=True)
class Measured:
    """A measured quantity; its sample's gap, or a mark, is explained in the table's notes."""

    sample: Sample
    digits: Digits = FRACTION
    mark: Gap | None = None  # what a reader must know about a number that is shown
    has_spread: bool = True  # False: the mean alone, where the table says spread and number of seeds elsewhere

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the keys of the records that were asked."""
        return self.sample.sources

    def gaps(self) -> list[Gap]:
        """Return all that the notes must explain."""
        return [gap for gap in (self.sample.gap, self.mark if self.sample.n else None) if gap is not None]

    def text(self, labels: Mapping[Gap, str]) -> str:
        """Return what the reader sees, e.g. "0.9726 +- 0.0008 (5)" or "n/a [2]"."""
        mean, sd = self.sample.mean, self.sample.sd
        shown = [labels[gap] for gap in self.gaps()]
        if mean is None:
            return " ".join(shown)
        text = self.digits.text(mean)
        if sd is not None and self.has_spread:
            text += f" +- {format(sd, self.digits.form(mean).lstrip('+'))} ({self.sample.n})"
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
    """Text and where it comes from: keys of records, `of_claim` or `of_document`."""

    text: str
    sources: tuple[str, ...] = field(compare=False)

    def __str__(self) -> str:
        """Return the text, which is all that a form without links shows."""
        return self.text


Entry = Number | Measured | Missing | Linked | str | None
"""What stands in one place of a table; None where nothing belongs, which is shown as `EMPTY`."""
EMPTY = "-"


def of_claim(claim_id: str) -> str:
    """Return what stands among sources for a reported number."""
    return f"claim:{claim_id}"


def of_document(document: str) -> str:
    """Return what stands among sources for all that a document reports."""
    return f"document:{document}"


def sources_of(entry: Entry) -> tuple[str, ...]:
    """Return where an entry comes from, nothing for plain text."""
    return () if entry is None or isinstance(entry, str) else entry.sources


@dataclass(frozen=True)
class Table:
    """A table. Each form decides which parts of the caption and of the notes it shows, and where."""

    name: str
    title: str
    explanation: str  # what the columns mean: units, protocol
    columns: Sequence[str]
    rows: Sequence[Sequence[Entry]]  # each with an entry for each column
    remarks: Sequence[str] = ()  # notes on the numbers, besides the reasons of the gaps
    conditions: str = ""  # profile, device, precision and seeds of the records
    origin: Sequence[str] = ()  # machine, versions and code that made the records
    lines: Sequence[Mapping[str, str | float | None]] = ()  # what the CSV file holds instead of the rows
    spare: tuple[str, ...] = field(default=(), compare=False)  # left out by a narrow screen, the least important first

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), f"a row of table {self.name} has a wrong length"

    @property
    def caption(self) -> str:
        """Return the explanation and the conditions."""
        return " ".join(part for part in (self.explanation, self.conditions) if part)

    @cached_property
    def labels(self) -> dict[Gap, str]:
        """Return what stands in the table for each gap: its code, numbered where one code has several reasons."""
        by_code: dict[str, dict[Gap, None]] = {}
        for row in self.rows:
            for entry in row:
                for gap in entry.gaps() if isinstance(entry, Measured | Missing) else ():
                    by_code.setdefault(gap.code, {})[gap] = None
        return {
            gap: code if len(gaps) == 1 else f"{code} [{number}]"
            for code, gaps in by_code.items()
            for number, gap in enumerate(gaps, start=1)
        }

    @property
    def own_notes(self) -> tuple[str, ...]:
        """Return the full reason of every gap, then the remarks."""
        return (*(f"{label}: {gap.reason}" for gap, label in self.labels.items()), *self.remarks)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return all notes: the table's own, then the origin of its records."""
        return (*self.own_notes, *self.origin)

    def of(self, results: Results, has_spread: bool = True) -> Table:
        """Return the table with the conditions and origin of results; `has_spread`: it shows means over seeds."""
        return replace(self, conditions=results.describe(has_spread), origin=results.origin())

    def without(self, columns: Collection[str]) -> Table:
        """Return the table without some columns."""
        kept = [place for place, column in enumerate(self.columns) if column not in columns]
        rows = tuple(tuple(row[place] for place in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[place] for place in kept), rows=rows)

    def is_numeric(self, place: int) -> bool:
        """Return whether any entry of a column is a number or the place of one."""
        return any(isinstance(row[place], Measured | Number | Missing) for row in self.rows)

    def text(self, entry: Entry) -> str:
        """Return an entry's text."""
        if isinstance(entry, Measured):
            return entry.text(self.labels)
        if isinstance(entry, Missing):
            return self.labels[entry.gap]
        return EMPTY if entry is None else str(entry)

    def texts(self) -> list[list[str]]:
        """Return the text of every entry, row by row."""
        return [[self.text(entry) for entry in row] for row in self.rows]
