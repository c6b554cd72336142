"""A table as the template shows it: text, address and kind of every cell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from markupsafe import Markup, escape

from bench.judge.stats.verdicts import (
    CONSISTENT,
    EQUIVALENT,
    EXACT,
    INCONCLUSIVE,
    NOT_REPRODUCED,
    NOT_RUN,
    UNRESOLVABLE,
    WITHIN,
)
from bench.show.page.links import Links, anchor
from bench.show.tables.cells import Cell, Missing, Number, Table, cell_text, gap_labels, sources_of

GAP = "\N{EN DASH}"  # where tables for other eyes have a hyphen
TONES = {EXACT: "good", EQUIVALENT: "good", WITHIN: "good", CONSISTENT: "good", NOT_REPRODUCED: "bad"}
HUES = {
    EXACT: "exact",
    EQUIVALENT: "equivalent",
    WITHIN: "within",
    CONSISTENT: "consistent",
    NOT_REPRODUCED: "refuted",
    UNRESOLVABLE: "unresolvable",
    INCONCLUSIVE: "inconclusive",
    NOT_RUN: "not-run",
}
"""Class of each verdict's colour in page.css."""


@dataclass(frozen=True)
class Shown:
    """One cell: text, where it leads ('' for nowhere), a tone for verdicts, and a small drawing before the text."""

    text: str
    href: str = ""
    tone: str = ""
    strip: Any = None


@dataclass(frozen=True)
class Grid:
    """One table."""

    id: str
    title: str
    caption: str
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[Shown, ...], ...]
    notes: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()  # form and address of the same table as a file
    unfolded: ClassVar = ("kept by layer", "data")  # columns of lists, in one line: folded, rows would be tall


def tone(outcome: str) -> str:
    """Return how a verdict is coloured: "good", "bad", or "open" for what is not decided."""
    return TONES.get(outcome, "open")


def grid(table: Table, links: Links, name: str = "", files: Sequence[tuple[str, str]] = ()) -> Grid:
    """Return a table ready to be shown; `name` tells apart what comes from one table."""
    labels = gap_labels(table.frame)
    columns = tuple(str(column) for column in table.frame.columns)
    verdicts = [column == "verdict" for column in columns]
    rows = tuple(
        tuple(
            _shown(cell, cell_text(cell, labels), links, is_verdict)
            for cell, is_verdict in zip(row, verdicts, strict=True)
        )
        for row in table.frame.itertuples(index=False, name=None)
    )
    numeric = tuple(
        _is_numeric([row[place] for row in table.frame.itertuples(index=False, name=None)])
        for place in range(len(columns))
    )
    return Grid(
        anchor("table", name or table.name),
        table.title,
        table.caption,
        columns,
        numeric,
        rows,
        tuple(re.sub("^-(?=:)", GAP, note) for note in table.notes),
        tuple(files),
    )


def typeset(text: str) -> str:
    """Return a number's text with the signs of print: a minus as long as a plus, and a sign for the spread."""
    return re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text).replace(" +- ", " \N{PLUS-MINUS SIGN} ")


def breakable(text: str) -> Markup:
    """Return text in which a long name of several parts may go on in the next line after a dot."""
    is_name = " " not in text and text.count(".") > 1
    return Markup(".<wbr>").join(text.split(".")) if is_name else escape(text)


def _shown(cell: Any, text: str, links: Links, is_verdict: bool) -> Shown:
    href = links.to(sources_of(cell)) or links.name(text)
    if isinstance(cell, Cell | Number) or re.match(r"[-+]?\d", text):
        text = typeset(text)
    elif text == "-":
        text = GAP
    return Shown(text, href, tone(text) if is_verdict else "")


def _is_numeric(cells: Sequence[Any]) -> bool:
    """Return whether a column is sorted by its numbers and aligned to the right: most of what is no gap begins so."""
    filled = [cell for cell in cells if not isinstance(cell, Missing) and str(cell) != "-"]
    numbers = [cell for cell in filled if isinstance(cell, Cell | Number) or _leads_with_number(str(cell))]
    return 2 * len(numbers) > len(filled)


def _leads_with_number(text: str) -> bool:
    return bool(re.match(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?(\s|$)", text))
