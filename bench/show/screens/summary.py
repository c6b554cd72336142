"""The summary that `run` and `table` print: the table of accuracies, with fewer columns. Where a record is shown."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile

from bench.core.records import Record
from bench.judge.claims import print_interval
from bench.show.inputs import Inputs
from bench.show.table import EMPTY, Table, sources_of
from bench.show.tables.common import ACCURACY
from bench.show.tables.registry import all_tables
from bench.show.terminal import Listing, notes_of, shown

MOST = 3  # rows of a table that are named


def summary(inputs: Inputs, more: str = "") -> str:
    """Return the table of accuracies for the screen.

    `more`: the command that shows the notes. If it is given, as at the end of a run, the notes and the rows of
    approaches without records are left out, and the last line if no document reports a number of one that ran.
    """
    table = inputs.with_baseline.marked(ACCURACY.make(inputs))
    notes = [f"notes: {more}"] if more else notes_of(table)
    ran = {record.approach for record in inputs.results.records}
    if more:
        table = replace(table, rows=tuple(row for row in table.rows if str(row[0]).partition(" + ")[0] in ran))
    means = [(row.claim, row.sample.mean) for row in inputs.rows if row.sample.mean is not None]
    inside = sum(mean in print_interval(claim) for claim, mean in means)
    measured = f"{len(means)} of {len(inputs.rows)} reported numbers are measured"
    if not more or any(row.claim.approach in ran for row in inputs.rows):
        notes.append(f"{measured}; {inside} give the digits that the document prints.")
    return shown(table.title, "", _narrowed(table), "", table.conditions, *notes)


def _narrowed(table: Table) -> Table:
    """Return the table with fewer and shorter columns. A variant stands below its approach and need not name it."""
    narrow = table.without(("document", "measured on"))
    rows = tuple((re.sub(r"^.*? (?=\+ )", "", str(name)), *others) for name, *others in narrow.rows)
    return replace(narrow, columns=tuple(column.replace("difference", "diff.") for column in narrow.columns), rows=rows)


def tables_with(record: Record, inputs: Inputs) -> Listing:
    """Return the tables that show numbers of a record, each with the rows and columns where they stand."""
    found = {name: _places(table, record.key) for name, table in all_tables(inputs).items()}
    lines = [(name, places) for name, places in found.items() if places]
    return Listing(f"{record.key[:8]}: {record.title}. Tables with its numbers, rows and columns", lines)


def _places(table: Table, key: str) -> str:
    """Return the rows and columns of a table with numbers of a record, "" without any."""
    cells = [
        (number, column)
        for number, row in enumerate(table.rows)
        for column, entry in zip(table.columns, row, strict=True)
        if key in sources_of(entry)
    ]
    rows, columns = dict.fromkeys(number for number, _ in cells), dict.fromkeys(column for _, column in cells)
    named = [_label(table, number) for number in rows]
    more = f" and {len(named) - MOST} more" if len(named) > MOST else ""
    return f"{'; '.join(named[:MOST])}{more}: {', '.join(columns)}" if cells else ""


def _label(table: Table, number: int) -> str:
    """Return the texts with which a row begins, up to its first entry of records."""
    names = takewhile(lambda entry: entry is None or isinstance(entry, str), table.rows[number][1:])
    texts = table.texts()[number][: 1 + len(list(names))]
    return " ".join(text for text in texts if text != EMPTY)
