"""Tables and lines for a terminal, folded to its width. In a pipe and where NO_COLOR is set, they have no colours."""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from bench.core.text import as_called, visible
from bench.judge.results import without_commits
from bench.show.table import MINE, Entry, Table

GAP, NARROW_GAP = 2, 1  # spaces between two columns of a table; NARROW_GAP if the table is too wide with GAP
SCREEN, LONGEST = 60, 90  # lines of a long table; a shorter one is whole, as nobody wants to ask again for a few lines
PIPE = 120  # width of the output in a pipe or a file, unless COLUMNS says otherwise
STYLES = {"good": "green", "bad": "red", "open": "yellow", "mine": "cyan"}  # by tone
TONES = {
    **dict.fromkeys(("exact", "confirmed", "pass", "passes", "passed", "gate passed", "done", "identical"), "good"),
    **dict.fromkeys(("not exact", "contradicted", "fail", "fails", "failed", "gate NOT PASSED", "out-of-time"), "bad"),
    **dict.fromkeys(("no single run can tell", "too few seeds", "not run", "missing", "stale", "skipped"), "open"),
}
# An outcome has its colour where it stands alone: as an entry, at the start of a line or after a number, not in a text.
ALONE = re.compile(
    rf"(?:^ *|(?<=  ))(?P<outcome>{'|'.join(TONES)})(?=$|:|  )"
    r"|(?:(?<=[]\d)!-] )|(?<=same ))"
    r"(?P<verdict>(?:not )?exact|confirmed|contradicted|no single run can tell|too few seeds|not run)(?=$|;)"
    r"|^(?P<mine>mine: .*?)(?=$|  )|(?<= )(?P<mark>mine)$",
    re.MULTILINE,
)
IN_A_NAME = re.compile(r"(?<=\w)(?=\+[a-z])|(?<=\w[./-])(?=[a-z])")  # places where a long name may be broken
AT_WORDS = re.compile(rf"{IN_A_NAME.pattern}|(?<=[a-z]_)(?=[a-z])")  # more of them, for what is still too wide
BETWEEN = re.compile(r"\s+(?!\+-|\(\d+\))")  # spaces between words; "0.5 +-" and "0.1 (2)" count as one word
NOWHERE = re.compile(r"(?!)")  # an entry stays on one line


class Listing(NamedTuple):
    """A heading with named lines below it."""

    heading: str
    lines: Sequence[tuple[str, str]]  # name and text


Part: TypeAlias = str | Table | Listing


class Screen(Console):
    """Rich's console, but an output that nobody reads any more is an error, as with `print`. Rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        """Raise the error again."""
        raise BrokenPipeError


def screen() -> Console:
    """Return the console on which commands print. In a pipe, its width is COLUMNS or else PIPE."""
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    made = Screen(width=None if has_width else PIPE, markup=False, highlight=False, emoji=False)
    if made.no_color:
        made._color_system = None  # Rich would still print bold text
    return made


def text(table: Table) -> str:
    """Return a table for the screen: title, caption, rows and notes."""
    narrow = narrowed(table, screen().width)
    notes = [*notes_of(narrow), *_left_out(table, narrow)]
    return shown(table.title, table.caption, "", narrow, *([""] if notes else []), *notes)


def brief(table: Table, first: Sequence[str] = (), whole: Table | None = None) -> str:
    """Return a table for the screen with the caption after the rows, which are single lines if they fit.

    `first`: sentences that say what the rows show; `whole`: the table with all columns, if this one has fewer.
    """
    narrow = narrowed(table, screen().width, NOWHERE)
    left_out = _left_out(whole or table, narrow)
    return shown(table.title, *first, "", narrow, "", *left_out, table.caption, *notes_of(narrow))


def page(table: Table) -> str:
    """Return a table for the screen; of one that is much longer than a screen, the main rows, or as many as fit."""
    whole = text(table)
    if _height(whole) <= LONGEST:
        return whole
    is_main = table.main or (lambda _: True)

    def is_mine(row: Sequence[Entry]) -> bool:
        return table.text(row[0]).startswith(MINE)

    rows = [row for row in table.rows if is_main(row) or is_mine(row)] or table.rows
    says = f" ({table.main_says})" if len(rows) < len(table.rows) else ""
    same = _same(table.of_rows(rows))
    alike = f" The same in all: {'; '.join(f'{column} {same[column]}' for column in same)}." if same else ""

    def first(count: int) -> str:
        chosen = [row for place, row in enumerate(rows) if place < count or is_mine(row)]
        part = table.of_rows(chosen).without(same)
        fits = _fit(_columns(narrowed(part, screen().width, NOWHERE)), screen().width, NOWHERE)
        said = f"{len(chosen)} of {len(table.rows)} rows{says}. --row TEXT shows those with this text, --all every row."
        return brief(part if fits else part.without(part.spare), [said + alike], table.without(same))

    main = first(len(rows))
    if _height(main) <= LONGEST:
        return main
    return first(max(1, bisect_right(range(1, len(rows)), SCREEN, key=lambda count: _height(first(count)))))


def _same(table: Table) -> dict[str, str]:
    """Return the columns after the first that have one text in all rows, and this text."""
    columns = zip(table.columns[1:], *(texts[1:] for texts in table.texts()), strict=True)
    same = {column: texts[0] for column, *texts in columns if len(texts) > 1 and len(set(texts)) == 1}
    return {column: text for column, text in same.items() if not table.is_numeric(table.columns.index(column))}


def _height(printed: str) -> int:
    return printed.count("\n") + 1


def _left_out(table: Table, narrow: Table) -> list[str]:
    left_out = [f'"{column}"' for column in table.columns if column not in narrow.columns]
    return [f"Left out: {'; '.join(left_out)}. --wide shows all columns."] if left_out else []


def narrowed(table: Table, width: int, between: re.Pattern[str] = BETWEEN) -> Table:
    """Return a table without its spare columns, as few of them as needed to fit; the whole table if it never fits.

    `between`: where an entry may be folded, if that helps.
    """
    narrower = [table.without(table.spare[:count]) for count in range(len(table.spare) + 1)]
    fit = (one for where in (between, BETWEEN) for one in narrower if _fit(_columns(one), width, where))
    return next(fit, table)


def notes_of(table: Table) -> list[str]:
    """Return a table's notes for the screen, which count the commits instead of listing them."""
    return [*table.own_notes, *map(without_commits, table.origin)]


def toned(line: str) -> Text:
    """Return text in which outcomes and the user's rows have their colours; it says the same without them."""
    made = Text(line)
    for found in ALONE.finditer(line):
        name = found.lastgroup or ""
        made.stylize(STYLES[TONES.get(found[name], "mine")], *found.span(name))
    return made


def unfolded(lines: str) -> str:
    """Return lines that are folded already, with their colours on the screen."""
    console = screen()
    with console.capture() as captured:
        console.print(toned(_said(lines)), soft_wrap=True)
    return captured.get().rstrip("\n")


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
    if isinstance(part, Listing):
        return _listing(part)
    line = _said(part)
    if "\n" in line or not line.startswith(" "):
        return toned(line)
    return Padding(toned(line.lstrip()), (0, 0, 0, len(line) - len(line.lstrip())))  # stays indented where it is folded


def grid(table: Table, console: Console) -> RenderableType:
    """Return a table's columns and rows.

    If the table is too wide, its entries are folded between words, then also inside long names. If it is still too
    wide, each row becomes a list of lines.
    """
    columns = _columns(table)
    ways = ((BETWEEN, IN_A_NAME), (re.compile(r"\s+"), IN_A_NAME), (BETWEEN, AT_WORDS))
    fits = ((fit, parts) for between, parts in ways if (fit := _fit(columns, console.width, between, parts)))
    fit, parts = next(fits, (None, IN_A_NAME))
    if fit is None:
        rows = zip(*(texts[1:] for texts in columns), strict=True)
        lines = (Listing(first, list(zip(table.columns[1:], others, strict=True))) for first, *others in rows)
        return Group(*map(_listing, lines))
    gap, least = fit
    made = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0), header_style="bold")
    most = [max(map(cell_len, texts)) for texts in columns]
    shares = _shares(least, most, console.width - gap * (len(columns) - 1))
    for place, (column, share) in enumerate(zip(table.columns, shares, strict=True)):
        width = share if place < len(shares) - 1 else None  # Rich gives the last column the remaining width
        made.add_column(
            Text(_broken(column, share, parts)),
            justify="right" if table.is_numeric(place) else "left",
            width=width,
            overflow="fold",
        )
    folded = [
        [_broken(entry, share, parts) for entry in texts[1:]] for texts, share in zip(columns, shares, strict=True)
    ]
    for row in zip(*folded, strict=True):
        made.add_row(*map(toned, row))
    return made


def _columns(table: Table) -> list[list[str]]:
    """Return the texts of each column, its name first."""
    rows = [table.columns, *table.texts()]
    return [[_said(row[place]) for row in rows] for place in range(len(table.columns))]


def _fit(
    columns: Sequence[Sequence[str]],
    width: int,
    between: re.Pattern[str] = BETWEEN,
    parts: re.Pattern[str] = IN_A_NAME,
) -> tuple[int, list[int]] | None:
    """Return the gap between columns and the least width of each column; None if the table does not fit.

    A column must have room for its longest word. If that is too wide, names may be broken, and the column must have
    room for the longest part of a name.
    """
    for may_break_names in (False, True):
        texts_of = [[parts.sub(" ", text) for text in texts] for texts in columns] if may_break_names else columns
        least = [max(cell_len(part) for text in texts for part in between.split(text)) for texts in texts_of]
        for gap in (GAP, NARROW_GAP):
            if sum(least) + gap * (len(columns) - 1) <= width:
                return gap, least
    return None


def _broken(text: str, width: int, parts: re.Pattern[str]) -> str:
    """Return text in which names that are wider than the column are broken into lines."""
    return re.sub(r"\S+", lambda found: "\n".join(_lines(found[0], width, parts)), text)


def _lines(name: str, width: int, parts: re.Pattern[str]) -> list[str]:
    lines = [""]
    for part in parts.split(name):
        if lines[-1] and cell_len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return lines


def _shares(least: Sequence[int], most: Sequence[int], width: int) -> list[int]:
    """Return the width of each column: its least width and an equal share of the space left, at most what it needs."""
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
        return Group(Text(_said(part.heading), "bold"))
    lines = Grid.grid(padding=(0, GAP, 0, 0))
    for _ in range(2):
        lines.add_column(overflow="fold")  # a word that is longer than the screen is not cut off
    for name, entry in part.lines:
        lines.add_row(f"  {visible(name)}", toned(_said(entry)))
    return Group(Text(_said(part.heading), "bold"), lines)


def _said(part: str) -> str:
    return as_called(visible(part))
