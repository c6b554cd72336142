"""Tables and lines on a terminal: folded to its width, in colour only where colours are shown (NO_COLOR, pipes)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from bench.core.text import visible
from bench.judge.results import without_commits
from bench.show.cells import Table
from bench.show.outcomes import tone

GAP, NARROW_GAP = 2, 1  # columns between two columns of a table; the second where the table fits only so
PIPE = 120  # columns of a pipe or a file, unless COLUMNS says otherwise
STYLES = {"good": "green", "coarse": "cyan", "bad": "red", "open": "yellow"}
COLOURED = "verdict"  # the column whose entries have the style of their tone


class Listing(NamedTuple):
    """A heading with named lines below it."""

    heading: str
    lines: Sequence[tuple[str, str]]  # name and text


Part: TypeAlias = str | Table | Listing


def screen() -> Console:
    """Return where commands print; in a pipe as wide as COLUMNS says, or PIPE."""
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if has_width else PIPE, markup=False, highlight=False, emoji=False)


def text(table: Table) -> str:
    """Return a table for the screen: title, caption, rows and notes."""
    notes = notes_of(table)
    return shown(table.title, table.caption, "", table, *([""] if notes else []), *notes)


def notes_of(table: Table) -> list[str]:
    """Return a table's notes for the screen: the number of commits instead of a list of them."""
    return [*table.own_notes, *map(without_commits, table.origin)]


def shown(*parts: Part, console: Console | None = None) -> str:
    """Return parts, one below the other, as they look on a console, the screen by default."""
    console = console or screen()
    with console.capture() as captured:
        for part in parts:
            console.print(_renderable(part, console))
    return "\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n"))


def _renderable(part: Part, console: Console) -> RenderableType:
    if isinstance(part, Table):
        return grid(part, console)
    return _listing(part) if isinstance(part, Listing) else _folded(visible(part))


def _folded(line: str) -> RenderableType:
    """Return text that keeps its indentation where it is folded."""
    if "\n" in line or not line.startswith(" "):
        return Text(line)
    return Padding(Text(line.lstrip()), (0, 0, 0, len(line) - len(line.lstrip())))


def grid(table: Table, console: Console) -> RenderableType:
    """Return a table's columns and rows: whole, else folded between words, else each row as lines of its own."""
    rows = [[visible(entry) for entry in row] for row in table.texts()]
    columns = [[column, *(row[place] for row in rows)] for place, column in enumerate(table.columns)]
    most = [max(map(cell_len, texts)) for texts in columns]
    least = [max(cell_len(word) for text in texts for word in text.split() or [""]) for texts in columns]
    widths = {gap: console.width - gap * (len(columns) - 1) for gap in (GAP, NARROW_GAP)}
    gap = next((gap for gap, width in widths.items() if sum(least) <= width), None)
    if gap is None:
        lines = (Listing(first, list(zip(table.columns[1:], others, strict=True))) for first, *others in rows)
        return Group(*map(_listing, lines))
    made = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0), header_style="bold")
    shares = [*_shares(least, most, widths[gap])[:-1], None]  # Rich gives the last column the remaining width
    for place, (column, share) in enumerate(zip(table.columns, shares, strict=True)):
        made.add_column(
            Text(column), justify="right" if table.is_numeric(place) else "left", width=share, overflow="fold"
        )
    for row in rows:
        made.add_row(*(_entry(column, entry) for column, entry in zip(table.columns, row, strict=True)))
    return made


def _shares(least: Sequence[int], most: Sequence[int], width: int) -> list[int]:
    """Return the width of each column: its longest word, then equal parts of the rest until its text fits."""
    shares = list(least)
    left = width - sum(least)
    in_need = sorted(range(len(least)), key=lambda place: most[place] - least[place])
    for number, place in enumerate(in_need):
        more = min(most[place] - least[place], left // (len(in_need) - number))
        shares[place] += more
        left -= more
    return shares


def _listing(part: Listing) -> Group:
    if not part.lines:
        return Group(Text(visible(part.heading), "bold"))
    lines = Grid.grid(padding=(0, GAP, 0, 0))
    lines.add_column()
    lines.add_column(overflow="fold")  # a word that is longer than the screen is not cut off
    for name, entry in part.lines:
        lines.add_row(f"  {visible(name)}", _entry(name, visible(entry)))
    return Group(Text(visible(part.heading), "bold"), lines)


def _entry(column: str, entry: str) -> Text:
    return Text(entry, STYLES[tone(entry)] if column == COLOURED else "")
