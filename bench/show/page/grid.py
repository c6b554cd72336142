"""Tables as the page's template shows them: text, address and look of every cell."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup, escape

from bench.core.text import visible
from bench.judge.claims import print_interval
from bench.judge.stats.rule import Verdict
from bench.show.outcomes import tone
from bench.show.page.links import Links, anchor
from bench.show.sentences import unbroken
from bench.show.table import Entry, Measured, Missing, Number, Table, sources_of
from bench.show.tables.choice import HIGHER, METRICS, Candidate
from bench.show.tables.verdicts import REACH

HOTTEST = 4  # level of the strongest shade
STARTS_WITH_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?(\s|$)")
GAP = "\N{EN DASH}"  # shown for a missing number; the other forms of a table have a hyphen
NOT_ON_THE_PAGE = {
    "ood": ("AUROC predictive entropy", "AUROC mutual information", "AUROC max probability"),  # in table detection
    "pruning": ("kept weights", "bytes", "kept by layer"),
    "verdict_curves": ("h", "M"),
    "verdicts": ("unit", "difference", "percentile", "R"),
}
"""Columns that only the files have, by table: the page has no room for them."""


@dataclass(frozen=True)
class Strip:
    """A drawing of one verdict: the reported number in the middle, the margin around it; in percent of the width."""

    band: tuple[float, float]  # start and width of the margin
    interval: tuple[float, float] | None  # start and width of the 95 % prediction interval for one more run
    mean: float
    outside: str  # "below" or "above" if the mean lies outside of the drawing, else ''
    text: str  # the same in words


def strip(verdict: Verdict) -> Strip | None:
    """Return the drawing of one verdict; None if nothing was measured or no margin was declared."""
    claim, centre = verdict.claim, verdict.centre
    if centre is None or claim.margin == 0:
        return None
    middle = (centre - claim.value) / claim.margin
    interval = None
    text = f"{middle:+.2f} margins from the reported number"
    if verdict.interval is not None:
        (low, high), printed = verdict.interval, print_interval(claim)
        below, above = (low - printed.high) / claim.margin, (high - printed.low) / claim.margin
        interval = _span(below, above)
        text += f"; 95 % of runs, from the farthest number that prints alike: {below:+.2f} to {above:+.2f}"
    outside = "" if abs(middle) <= REACH else "above" if middle > 0 else "below"
    return Strip(_span(-1.0, 1.0), interval, _percent(middle), outside, text)


def _span(low: float, high: float) -> tuple[float, float]:
    """Return start and width of a part of the strip in percent; its ends are given in margins."""
    start = _percent(low)
    return start, round(_percent(high) - start, 2)


def _percent(margins: float) -> float:
    """Return the place of a distance from the reported number, given in margins: 0 to 100 percent."""
    return round(50 + 50 * max(-REACH, min(REACH, margins)) / REACH, 2)


@dataclass(frozen=True)
class PageEntry:
    """One cell of a table: text, link ('' for none), a tone for verdicts, a drawing before the text."""

    text: str
    href: str = ""
    tone: str = ""
    strip: Strip | None = None
    heat: int | None = None  # 0 (worst of its column) to HOTTEST (best)


@dataclass(frozen=True)
class PageTable:
    """One table of the page."""

    id: str
    title: str
    caption: str
    columns: Sequence[str]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[PageEntry, ...], ...]
    notes: tuple[str, ...] = ()
    n_apart: int = 0  # number of last rows that stand below a line


def page_table(table: Table, links: Links, said: Collection[str] = (), name: str = "") -> PageTable:
    """Return a table as the page shows it, without the columns for which the page has no room.

    Notes in `said` are left out: the page says the conditions and the origin of all records once. `name` replaces the
    table's own name in its id, so that the parts of one table have different ids.
    """
    if table.name in NOT_ON_THE_PAGE:
        table = table.without(NOT_ON_THE_PAGE[table.name])
    rows = [
        tuple(
            _page_entry(entry, text, links, column == "verdict")
            for column, entry, text in zip(table.columns, row, texts, strict=True)
        )
        for row, texts in zip(table.rows, table.texts(), strict=True)
    ]
    notes = (*table.own_notes, *(note for note in table.origin if note not in said))
    return PageTable(
        anchor("table", name or table.name),
        table.title,
        table.explanation,
        table.columns,
        tuple(_sorts_by_number([row[place] for row in table.rows]) for place in range(len(table.columns))),
        tuple(rows),
        tuple(re.sub(r"^-(?=:| \[)", GAP, note) for note in notes),
    )


def typeset(text: str) -> str:
    """Return text with real minus and plus-minus signs.

    Spaces inside a spread with its number of seeds, and inside an interval, cannot be broken. A line may break before
    them.
    """
    signed = re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text)
    spread = re.sub(r" \+- (\S+) \((\d+)\)", " \N{PLUS-MINUS SIGN}\N{NO-BREAK SPACE}\\1 (\\2)", signed)
    return re.sub(r"\[(\S+), (\S+)\]", "[\\1,\N{NO-BREAK SPACE}\\2]", spread)


def breakable(text: str) -> Markup:
    """Return text in which a line may break inside a long name: after a dot or an underscore, before a plus."""
    shown = visible(text)
    if " " in shown or (max(shown.count("."), shown.count("_")) < 2 and "+" not in shown[1:]):
        return escape(shown)
    parted = escape(shown).replace("_", Markup("_<wbr>")).replace("+", Markup("<wbr>+"))
    return parted.replace(".", Markup(".<wbr>"))


def coded(text: str) -> Markup:
    """Return Markdown of one line: parts between backticks as code, between two asterisks as strong.

    A link to a file is its text alone: the page is passed on without other files.
    """
    text = re.sub(r"\[([^][]+)\]\([^()\s]+\)", r"\1", text)
    code = re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(visible(unbroken(text)))))
    return Markup(re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", code))


def _page_entry(entry: Entry, text: str, links: Links, is_verdict: bool) -> PageEntry:
    href = links.to(sources_of(entry)) or links.name(text)
    is_missing_value = entry is None or isinstance(entry, Missing)
    return PageEntry(
        re.sub("^-", GAP, text) if is_missing_value else typeset(text), href, tone(text) if is_verdict else ""
    )


def _sorts_by_number(entries: Sequence[Entry]) -> bool:
    """Return whether most entries of a column, missing values aside, begin with a number."""
    filled = [entry for entry in entries if entry is not None and not isinstance(entry, Missing)]
    numbers = [one for one in filled if isinstance(one, Measured | Number) or STARTS_WITH_NUMBER.match(str(one))]
    return 2 * len(numbers) > len(filled)


def shaded(table: PageTable, found: Sequence[Candidate]) -> PageTable:
    """Return the table of approaches with a shade behind every number; baselines stand apart and have no shades."""
    rows = [list(row) for row in table.rows]
    for column in METRICS:
        place = table.columns.index(column)
        values = [None if one.is_baseline else one.numbers[column].mean for one in found]
        for row, level in zip(rows, levels(values, column in HIGHER), strict=True):
            row[place] = replace(row[place], heat=level)
    caption = f"{table.caption} The stronger the shade, the better the number in its column."
    n_apart = sum(one.is_baseline for one in found)
    return replace(table, caption=caption, rows=tuple(tuple(row) for row in rows), n_apart=n_apart)


def levels(values: Sequence[float | None], is_higher_better: bool) -> list[int | None]:
    """Return the level of each value, an equal part of the range: from 0 for the worst to HOTTEST for the best."""
    known = [value for value in values if value is not None]
    if not known or min(known) == max(known):
        return [None] * len(values)
    low, high = min(known), max(known)
    shares = [None if value is None else (value - low) / (high - low) for value in values]
    return [None if one is None else round(HOTTEST * (one if is_higher_better else 1 - one)) for one in shares]
