"""Tables as text for a terminal, as Markdown and as CSV; LaTeX has its own file."""

from __future__ import annotations

import csv
import io
import itertools
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
from tabulate import tabulate

from bench.core.errors import unknown_name
from bench.show.tables.cells import NOTHING, Cell, Detail, Missing, Number, Table, cell_text, gap_labels
from bench.show.tables.latex import latex

SUMMARY_COLUMNS = (
    "approach",
    "reported",
    "published x published",
    "difference",
    "published x common",
    "corrected x common",
)
DETAILS: tuple[Detail, ...] = ("full", "spread", "mean")


def render(table: Table, form: str = "text") -> str:
    """Return a table as "text", "md", "csv" or "tex"; raises ConfigError for another form."""
    forms: dict[str, Callable[[Table], str]] = {"text": text, "md": markdown, "csv": comma_separated, "tex": latex}
    if form not in forms:
        raise unknown_name("table format", form, forms)
    return forms[form](table)


def text(table: Table) -> str:
    """Return a table for a terminal, as wide as it is."""
    labels = gap_labels(table.frame)
    grid = _grid(table.frame, list(table.frame.columns), "simple", lambda cell: cell_text(cell, labels))
    return "\n".join([table.title, table.caption, "", grid, *([""] if table.notes else []), *table.notes])


def markdown(table: Table) -> str:
    """Return a table as a Markdown document."""
    return f"# {escape(table.title)}\n\n{markdown_body(table)}"


def markdown_body(table: Table) -> str:
    """Return caption, table and notes in Markdown, without the heading."""
    labels = gap_labels(table.frame)
    headers = [escape(column) for column in table.frame.columns]
    grid = _grid(table.frame, headers, "pipe", lambda cell: escape(cell_text(cell, labels)))
    notes = "".join(f"- {escape(note)}\n" for note in table.notes)
    return f"{escape(table.caption)}\n\n{grid}\n" + (f"\n{notes}" if notes else "")


def escape(raw: str) -> str:
    """Return text that Markdown shows as it is, on one line: no cell borders, tags, emphasis or comments."""
    one_line = " ".join(raw.split())
    for character in "\\|*`":
        one_line = one_line.replace(character, f"\\{character}")
    return one_line.replace("<", "&lt;")


def comma_separated(table: Table) -> str:
    """Return a table as CSV with unrounded numbers.

    A measured column NAME gets "NAME sd" and "NAME n" beside it. A number that was not measured is its reason.
    """
    measured = [any(isinstance(cell, Cell) for cell in table.frame[column]) for column in table.frame.columns]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    header: list[str] = []
    for column, with_spread in zip(table.frame.columns, measured, strict=True):
        header += [column, f"{column} sd", f"{column} n"] if with_spread else [column]
    writer.writerow(header)
    for row in table.frame.itertuples(index=False, name=None):
        line: list[Any] = []
        for cell, with_spread in zip(row, measured, strict=True):
            line += _raw(cell) if with_spread else _raw(cell)[:1]
        writer.writerow(line)
    return out.getvalue()


def _raw(cell: Any) -> list[Any]:
    if isinstance(cell, Number):
        return [repr(cell.value), "", ""]
    if isinstance(cell, Missing):
        return [cell.gap.code, "", 0]
    if not isinstance(cell, Cell):
        return [cell, "", ""]
    if cell.sample.mean is None:
        gap = cell.sample.gap or NOTHING
        return [f"{gap.code}: {gap.reason}", "", 0]
    return [repr(cell.sample.mean), "" if cell.sample.sd is None else repr(cell.sample.sd), cell.sample.n]


def terminal_summary(
    tables: Mapping[str, Table], width: int = 100, rows: int | None = None, options: Sequence[str] = ()
) -> str:
    """Return the main table, cut to fit `width` columns: numbers of seeds, then spreads, then differences give way.

    Where there are so few `rows` that not all notes fit, those that do not are left out, and a line says which command,
    with the `options` that say where the records are, shows them.
    """
    accuracy = tables["accuracy"]
    labels = gap_labels(accuracy.frame)
    frame = accuracy.frame[list(SUMMARY_COLUMNS)].copy()
    frame["approach"] = [f"+ {name.split(' + ', 1)[1]}" if " + " in name else name for name in frame["approach"]]
    for shown, detail in [*((frame, detail) for detail in DETAILS), (frame.drop(columns="difference"), DETAILS[-1])]:
        headers = [name.replace(" x ", "\nx ").replace("difference", "diff.") for name in shown.columns]
        grid = _grid(shown, headers, "simple", partial(cell_text, labels=labels, detail=detail))
        if max(map(len, grid.splitlines())) <= width:
            break
    head = [accuracy.title, "", *grid.splitlines(), ""]
    notes = [_wrapped(note, width) for note in (accuracy.brief, *accuracy.notes)]
    last = _wrapped(tables["claims"].brief, width)
    if rows is not None and len(head) + sum(map(len, notes)) + len(last) > rows:
        more = _wrapped(f"more notes: {shlex.join(['python', '-m', 'bench', 'table', 'accuracy', *options])}", width)
        notes = _fitting(notes, rows - len(head) - len(last) - len(more))
        last += more
    return "\n".join([*head, *itertools.chain(*notes), *last])


def _wrapped(note: str, width: int) -> list[str]:
    return textwrap.wrap(note, width, subsequent_indent="  ")


def _fitting(notes: Sequence[list[str]], rows: int) -> list[list[str]]:
    """Return the first notes that fit into so many lines."""
    used = itertools.accumulate(map(len, notes))
    return [note for note, lines in zip(notes, used, strict=True) if lines <= rows]


def _grid(frame: pd.DataFrame, headers: Sequence[str], form: str, show: Callable[[Any], str]) -> str:
    rows = [[show(cell) for cell in row] for row in frame.itertuples(index=False, name=None)]
    numeric = [any(isinstance(cell, Cell | Number | Missing) for cell in frame[column]) for column in frame.columns]
    return tabulate(
        rows,
        headers=headers,
        tablefmt=form,
        disable_numparse=True,  # the numbers are rounded text already
        colalign=["right" if is_number else "left" for is_number in numeric] if rows else None,
    )
