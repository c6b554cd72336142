"""The top of the page: what it is made of, what its words mean; and the drawing of a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from bench.core.records import Record
from bench.core.text import counted
from bench.judge.results import Results, made_at
from bench.judge.stats.rule import Verdict
from bench.show.page.grid import Strip
from bench.show.tables.headline import REACH

LEAD = (
    "Recipes of well-known documents on Bayesian neural networks for MNIST, trained again as published, with their "
    "mistakes, and corrected. They are measured as each document did, and by one common protocol. First the findings; "
    "below, folded, every number and where it comes from."
)
TERMS = (
    ("published, corrected", "the recipe as the document runs it; the same with its mistakes corrected"),
    (
        "\N{MULTIPLICATION SIGN} published, \N{MULTIPLICATION SIGN} common",
        "measured as the document did; measured alike for all: official test set, mean probability of 100 draws",
    ),
    ("0.9726 \N{PLUS-MINUS SIGN} 0.0008 (5)", "mean, standard deviation and number of seeds; one seed has no spread"),
    ("links", "a measured number leads to its records; a reported number and a verdict lead to the reasoning"),
    ("n/a, not run, ...", "a missing number; the lines below the table say why"),
    ("tables", "a column's name sorts by it: up, down, original order; the filter keeps rows with all its words"),
    ("#", "after a heading: the link to this place"),
)


def strip(verdict: Verdict) -> Strip | None:
    """Return the drawing of one verdict, None where nothing was measured or no margin was declared."""
    claim, centre = verdict.claim, verdict.centre
    if centre is None or claim.margin == 0:
        return None
    middle = (centre - claim.value) / claim.margin
    interval = None
    text = f"{middle:+.2f} margins from the reported number"
    if verdict.interval is not None:
        below, above = ((end - claim.value) / claim.margin for end in verdict.interval)
        low, high = _percent(below), _percent(above)
        interval = (low, round(high - low, 2))
        text += f", 95 % prediction interval {below:+.2f} to {above:+.2f}"
    outside = "" if abs(middle) <= REACH else "above" if middle > 0 else "below"
    low, high = _percent(-1.0), _percent(1.0)
    return Strip((low, round(high - low, 2)), interval, _percent(middle), outside, text)


def _percent(margins: float) -> float:
    """Return a place of the strip, 0 to 100."""
    return round(50 + 50 * max(-REACH, min(REACH, margins)) / REACH, 2)


def made_of(records: Sequence[Record], results: Results) -> str:
    """Return what the page was made from, with the records' own dates."""
    days = sorted({day for record in records if (day := made_at(record)[:10])})
    span = "" if not days else f", measured {days[0]}" if days[0] == days[-1] else f", measured {days[0]} to {days[-1]}"
    n_approaches = len({record.approach for record in records})
    approaches = f"{n_approaches} approach{'' if n_approaches == 1 else 'es'}"
    made = f"Made from {counted(len(records), 'record')} of {approaches}{span}, and nothing else."
    return f"{made} {results.describe(spread=False)}"
