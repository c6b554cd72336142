"""Where the numbers of one record are shown."""

from __future__ import annotations

from itertools import takewhile

from bench.core.records import Record
from bench.show.inputs import Inputs
from bench.show.table import EMPTY, Table, sources_of
from bench.show.tables.registry import all_tables
from bench.show.terminal import Listing

MOST = 3  # rows of a table that are named


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
