"""Tables about the suite itself: programs of `benchmarks` and `tests` measure them and keep each in a sealed file.

`benchmarks.keeping` writes the files. A file holds the whole table, so that no code here depends on what was measured.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, field

from bench.core.folder import SealedFolder
from bench.core.records import Fields, Name, Real
from bench.core.text import Digits
from bench.judge.samples import Gap
from bench.show.table import Entry, Missing, Number, Table

SCHEMA = 1


class MeasuredNumber(Fields, frozen=True, kw_only=True):
    """A number and the digits that are shown of it."""

    value: Real
    decimals: Annotated[int, Meta(ge=0, le=20)] | None = None
    significant: Annotated[int, Meta(ge=1, le=20)] = 3


class MeasuredTable(Fields, frozen=True, kw_only=True):
    """The content of one file."""

    schema: int
    sha256: str = ""
    name: Name
    title: str
    explanation: str
    columns: list[str]
    rows: list[list[str | MeasuredNumber | tuple[str, str] | None]]  # as `Entry`; a tuple is code and reason of a gap
    remarks: list[str]
    origin: list[str]
    versions: dict[str, dict[str, int]] = field(default_factory=dict)
    """Versions of the recipes that were measured, by what the rows are about."""

    def __post_init__(self) -> None:
        """Raise ValueError for a row without an entry for each column."""
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"a row does not have the {len(self.columns)} entries of the columns")

    def table(self) -> Table:
        """Return the table."""
        rows = [list(map(_entry, row)) for row in self.rows]
        return Table(self.name, self.title, self.explanation, self.columns, rows, self.remarks, origin=self.origin)


def _entry(kept: str | MeasuredNumber | tuple[str, str] | None) -> Entry:
    if isinstance(kept, MeasuredNumber):
        return Number(kept.value, Digits(kept.decimals, kept.significant))
    return Missing(Gap(*kept)) if isinstance(kept, tuple) else kept


def measured_folder(results: Path) -> SealedFolder[MeasuredTable]:
    """Return the measured tables of a results folder."""
    return SealedFolder(
        results,
        "measured",
        MeasuredTable,
        "measured table",
        SCHEMA,
        lambda one: f"{one.name}.json",
        "*.json",
        "make it again with the program that measures it",
    )
