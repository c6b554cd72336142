"""Keeps tables of measurements of the suite itself, in files from which `bench table` shows them again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from bench.core.errors import StoreError
from bench.show.measured import SCHEMA, MeasuredNumber, MeasuredTable, measured_folder
from bench.show.table import Entry, Missing, Number, Table
from bench.show.tables.files import write_tables

NOTHING = MeasuredTable(schema=SCHEMA, name="", title="", explanation="", columns=[], rows=[], remarks=[], origin=[])


def kept(name: str, results: Path) -> MeasuredTable:
    """Return the table that a results folder keeps; without a file, a table without rows.

    Raises:
        StoreError: the file is damaged. To write new rows over it would lose the other rows.
    """
    folder = measured_folder(results)
    path = folder.root / f"{name}.json"
    try:
        return folder.read(path) if path.exists() else NOTHING
    except StoreError as error:
        raise StoreError(f"{error}; to measure the whole table anew, remove the file") from error


def others(
    before: MeasuredTable,
    new: Iterable[Sequence[Entry]],
    subject: Callable[[Sequence[object]], object] = lambda row: row[0],
) -> MeasuredTable:
    """Return a kept table without the rows that are measured anew: new rows replace rows of the same subject."""
    measured = {subject(row) for row in new}
    rows = [row for row in before.rows if subject(row) not in measured]
    return replace(before, rows=rows) if rows else NOTHING


def keep(table: Table, results: Path, versions: Mapping[str, dict[str, int]] | None = None) -> Table:
    """Write a table for `bench table` and in the forms of `write_tables`, and return it.

    `versions`: by row, the versions of the recipe that was measured.
    """
    measured_folder(results).write(replace(as_file(table), versions=dict(versions or {})))
    write_tables([table], results / "tables", below=results)
    return table


def as_file(table: Table) -> MeasuredTable:
    """Return the contents of a table's file; entries may be texts, numbers and gaps."""
    return MeasuredTable(
        schema=SCHEMA,
        name=table.name,
        title=table.title,
        explanation=table.explanation,
        columns=list(table.columns),
        rows=[[_kept(entry) for entry in row] for row in table.rows],
        remarks=list(table.remarks),
        origin=list(table.origin),
    )


def _kept(entry: Entry) -> str | MeasuredNumber | tuple[str, str] | None:
    if isinstance(entry, Number):
        digits = entry.digits
        return MeasuredNumber(value=entry.value, decimals=digits.decimals, significant=digits.significant)
    if isinstance(entry, Missing):
        return entry.gap.code, entry.gap.reason
    return None if entry is None else str(entry)
