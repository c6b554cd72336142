"""What is measured about the suite itself is kept: the raw files, and the table that `bench table` shows again."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from bench.cli.options import warn
from bench.core.errors import ConfigError
from bench.core.folder import SealedFolder
from bench.core.records import Fields
from bench.show.cells import Entry, Missing, Number, Table
from bench.show.measured import SCHEMA, MeasuredNumber, MeasuredTable, measured_folder
from bench.show.tables.files import write_tables

T = TypeVar("T", bound=Fields)


def raw_files(folder: SealedFolder[T]) -> list[T]:
    """Return all raw files that can be trusted and name the others; raises ConfigError if there are none."""
    found, problems = folder.read_all()
    for problem in problems:
        warn(problem.reason)
    if not found:
        raise ConfigError(f"{folder.root} holds no {folder.what}; {folder.remedy}")
    return found


def keep(table: Table, results: Path) -> Table:
    """Write a table for `bench table` and as the files of `write_tables`, and return it."""
    measured_folder(results).write(as_file(table))
    write_tables([table], results / "tables", below=results)
    return table


def as_file(table: Table) -> MeasuredTable:
    """Return what is kept of a table whose entries are texts, numbers and gaps."""
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
