"""A table as data: rows of entries, caption and notes. Each form (text, Markdown, CSV, LaTeX, HTML) lays them out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile

from bench.core.text import FRACTION, Digits
from bench.judge.results import Results
from bench.judge.samples import MissingValue, Samples

NOTHING = MissingValue("n/a", "nothing was measured")


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
    """A measured quantity. The table's notes explain the missing value of its sample, and its mark."""

    sample: Samples
    digits: Digits = FRACTION
    mark: MissingValue | None = None  # what a reader must know about a number that is shown
    has_spread: bool = True  # False: show the mean alone; the table gives spread and number of seeds elsewhere

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the keys of the sample's records, also of those without a number."""
        return self.sample.sources

    def missing_values(self) -> list[MissingValue]:
        """Return what the notes must explain: the sample's missing value, and the mark if a number is shown."""
        return [
            missing_value
            for missing_value in (self.sample.missing_value, self.mark if self.sample.n else None)
            if missing_value is not None
        ]

    def text(self, labels: Mapping[MissingValue, str]) -> str:
        """Return what the reader sees, e.g. "0.9726 +- 0.0008 (5)" or "n/a [2]"."""
        mean, sd = self.sample.mean, self.sample.sd
        shown = [labels[missing_value] for missing_value in self.missing_values()]
        if mean is None:
            return " ".join(shown)
        text = self.digits.text(mean)
        if sd is not None and self.has_spread:
            text += f" +- {format(sd, self.digits.form(mean).lstrip('+'))} ({self.sample.n})"
        return " ".join([text, *shown])


@dataclass(frozen=True)
class Missing:
    """A number that is not there, and why."""

    missing_value: MissingValue
    sources: tuple[str, ...] = field(default=(), compare=False)  # see `Linked`

    def missing_values(self) -> list[MissingValue]:
        """Return the missing value, which the notes must explain."""
        return [self.missing_value]


@dataclass(frozen=True)
class Linked:
    """Text with its sources, to which the page links: keys of records, or names by `of_claim` or `of_document`."""

    text: str
    sources: tuple[str, ...] = field(compare=False)
    mark: MissingValue | None = None  # what a reader must know about it

    def missing_values(self) -> list[MissingValue]:
        """Return the mark, if any, which the notes must explain."""
        return [] if self.mark is None else [self.mark]

    def __str__(self) -> str:
        """Return the text alone, for forms without links and marks."""
        return self.text


Entry = Number | Measured | Missing | Linked | str | None
"""One entry of a table. None: nothing belongs there; it is shown as `EMPTY`."""
EMPTY = "-"
DATA_SET = "data set"  # name of the column
MINE = "mine: "  # begins the name of an approach of the user's


def of_claim(claim_id: str) -> str:
    """Return the name of a reported number among sources."""
    return f"claim:{claim_id}"


def of_document(document: str) -> str:
    """Return the name among sources of all numbers of a document."""
    return f"document:{document}"


def sources_of(entry: Entry) -> tuple[str, ...]:
    """Return the sources of an entry; plain text has none."""
    return () if entry is None or isinstance(entry, str) else entry.sources


def _marks(table: Table) -> set[str]:
    """Return what a remark on some rows may begin with: a row's name, also with its kind, or the star of an entry."""
    names = {name for texts in table.texts() for name in (texts[0], " (".join(texts[:2]) + ")")}
    return names | {"*" for texts in table.texts() if any("*" in text for text in texts)}


@dataclass(frozen=True)
class Table:
    """A table. Each form decides which parts of the caption and of the notes it shows, and where."""

    name: str
    title: str
    explanation: str  # what the columns mean: units, protocol
    columns: Sequence[str]
    rows: Sequence[Sequence[Entry]]  # each with an entry for each column
    remarks: Sequence[str] = ()  # notes on the numbers, besides the reasons of the missing values
    conditions: str = ""  # profile, device, precision and seeds of the records
    origin: Sequence[str] = ()  # machine, versions and code that made the records
    lines: Sequence[Mapping[str, str | float | None]] = ()  # what the CSV file holds instead of the rows
    spare: tuple[str, ...] = field(default=(), compare=False)  # columns that a narrow screen omits, first one first
    main: Callable[[Sequence[Entry]], bool] | None = field(default=None, compare=False)  # rows that a screen shows
    main_says: str = field(default="", compare=False)  # which rows these are, in a few words

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), f"a row of table {self.name} has a wrong length"

    @property
    def caption(self) -> str:
        """Return the explanation and the conditions."""
        return " ".join(part for part in (self.explanation, self.conditions) if part)

    @cached_property
    def labels(self) -> dict[MissingValue, str]:
        """Return how each missing value is shown: by its code, with a number if the code has several reasons."""
        by_code: dict[str, dict[MissingValue, None]] = {}
        for row in self.rows:
            for entry in row:
                for missing_value in entry.missing_values() if isinstance(entry, Measured | Missing | Linked) else ():
                    by_code.setdefault(missing_value.code, {})[missing_value] = None
        return {
            missing_value: code if len(missing_values) == 1 else f"{code} [{number}]"
            for code, missing_values in by_code.items()
            for number, missing_value in enumerate(missing_values, start=1)
        }

    @property
    def own_notes(self) -> tuple[str, ...]:
        """Return the full reason of every missing value, then the remarks."""
        return (*(f"{label}: {missing_value.reason}" for missing_value, label in self.labels.items()), *self.remarks)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return all notes: the table's own, then the origin of its records."""
        return (*self.own_notes, *self.origin)

    def of(self, results: Results, has_spread: bool = True, keys: Iterable[str] = ()) -> Table:
        """Return the table with the conditions and origin of results; `has_spread`: it shows standard deviations.

        The seeds are those of the records that the entries or `keys` name.
        """
        shown = {*keys, *self.sources()}
        return replace(self, conditions=results.describe(has_spread, shown), origin=results.origin())

    def sources(self) -> set[str]:
        """Return the sources of all entries."""
        return {key for row in self.rows for entry in row for key in sources_of(entry)}

    def without(self, columns: Collection[str]) -> Table:
        """Return the table without some columns."""
        kept = [place for place, column in enumerate(self.columns) if column not in columns]
        rows = tuple(tuple(row[place] for place in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[place] for place in kept), rows=rows)

    def data_sets(self) -> list[str]:
        """Return the data set of each row, or the word at its place if the table has none."""
        if DATA_SET in self.columns:
            return [texts[self.columns.index(DATA_SET)] for texts in self.texts()]
        return [texts[0].partition("/")[0] for texts in self.texts()]

    def of_data_set(self, data_set: str) -> Table:
        """Return the table with the rows of one data set alone."""
        return self.of_rows([row for row, name in zip(self.rows, self.data_sets(), strict=True) if name == data_set])

    def of_rows(self, rows: Sequence[Sequence[Entry]]) -> Table:
        """Return the table with some of its rows alone, and without the remarks on the other rows."""
        kept = replace(self, rows=rows, lines=())
        gone = _marks(self) - _marks(kept)
        return replace(kept, remarks=[remark for remark in self.remarks if remark.partition(": ")[0] not in gone])

    def only(self, columns: Collection[str]) -> Table:
        """Return the table with some columns: those named, the first, and those of text after it, which name a row."""
        texts = takewhile(
            lambda place: all(row[place] is None or isinstance(row[place], str) for row in self.rows),
            range(1, len(self.columns)),
        )
        kept = {self.columns[place] for place in (0, *texts)} | set(columns)
        return replace(self.without([name for name in self.columns if name not in kept]), lines=(), spare=())

    def is_numeric(self, place: int) -> bool:
        """Return whether any entry of a column is a number, or a missing value where a number is missing."""
        return any(isinstance(row[place], Measured | Number | Missing) for row in self.rows)

    def text(self, entry: Entry) -> str:
        """Return an entry's text."""
        if isinstance(entry, Measured):
            return entry.text(self.labels)
        if isinstance(entry, Missing):
            return self.labels[entry.missing_value]
        if isinstance(entry, Linked):
            return " ".join([entry.text, *(self.labels[missing_value] for missing_value in entry.missing_values())])
        return EMPTY if entry is None else str(entry)

    @cached_property
    def _texts(self) -> list[list[str]]:  # every form asks for them
        return [[self.text(entry) for entry in row] for row in self.rows]

    def texts(self) -> list[list[str]]:
        """Return the text of every entry, row by row."""
        return self._texts
