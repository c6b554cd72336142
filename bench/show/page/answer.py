"""The top of the page: what it is made of, what its words mean, and the answer in short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.core.records import Record
from bench.judge.results import Results
from bench.judge.stats.prediction import half_width
from bench.judge.stats.verdicts import ENOUGH, OUTCOMES, Verdict, is_exact
from bench.show.page.grid import HUES, Strip
from bench.show.page.links import anchor
from bench.show.tables.headline import REACH
from bench.show.tables.records import measured
from bench.show.tables.verdicts import counts_text

LEAD = (
    "Recipes of well-known documents on Bayesian neural networks for MNIST, re-run as they were published, mistakes "
    "included, and with their corrections; measured as each document did, and all alike in one protocol. Every number "
    "that a document reports is set beside ours, with a verdict by one rule."
)
TERMS = (
    ("published, corrected", "the recipe as the document runs it; the recipe with its named corrections"),
    (
        "\N{MULTIPLICATION SIGN} published, \N{MULTIPLICATION SIGN} common",
        "measured as the document did; measured alike for all: official test set, 100 draws, mean of probabilities",
    ),
    ("0.9726 \N{PLUS-MINUS SIGN} 0.0008 (5)", "mean, standard deviation and number of seeds; one seed has no spread"),
    ("links", "a measured number leads to its records, a reported one and a verdict to the reasoning"),
    ("n/a, not run, ...", "a number that is not there; the lines below the table say why"),
    ("tables", "a column's name sorts by it, once up, once down, once as it was; the filter keeps rows with all words"),
)


@dataclass(frozen=True)
class Share:
    """One outcome's share of a bar, start and width in percent."""

    outcome: str
    hue: str  # class of its colour
    count: int
    start: float
    width: float


@dataclass(frozen=True)
class Bar:
    """The verdicts of one document as shares of a line."""

    document: str
    href: str
    n_claims: int
    seeds: str
    parts: tuple[Share, ...]


def sentence(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts in one sentence, with the number of seeds."""
    return f"Of {len(verdicts)} reported numbers: {counts_text(verdicts)}. {_seeds_text(verdicts)}"


def _seeds_text(verdicts: Iterable[Verdict]) -> str:
    seeds = _seeds(verdicts)
    if not seeds:
        return "Nothing that is trained was measured."
    word = "seed" if seeds[-1] == 1 else "seeds"
    few = f", where a verdict needs {ENOUGH}" if seeds[0] < ENOUGH else ""
    return f"Trained numbers were measured with {_span(seeds)} {word}{few}."


def _seeds(verdicts: Iterable[Verdict]) -> list[int]:
    return sorted({verdict.sample.n for verdict in verdicts if verdict.sample.n and not is_exact(verdict.claim)})


def _span(numbers: Sequence[int]) -> str:
    if not numbers:
        return "0"
    return str(numbers[0]) if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"


def bars(verdicts: Sequence[Verdict]) -> list[Bar]:
    """Return a bar for each document, in the order of the claims."""
    found = []
    for document in dict.fromkeys(verdict.claim.source for verdict in verdicts):
        mine = [verdict for verdict in verdicts if verdict.claim.source == document]
        parts, start = [], 0.0
        for outcome in OUTCOMES:
            count = sum(verdict.outcome == outcome for verdict in mine)
            width = 100 * count / len(mine)
            if count:
                parts.append(Share(outcome, HUES[outcome], count, round(start, 2), round(width, 2)))
            start += width
        found.append(Bar(document, f"#{anchor('document', document)}", len(mine), _span(_seeds(mine)), tuple(parts)))
    return found


def strip(verdict: Verdict) -> Strip | None:
    """Return the drawing of one verdict, None where nothing was measured or no margin was declared."""
    margin, difference = verdict.claim.margin, verdict.difference
    if difference is None or margin == 0:
        return None
    middle, half = difference / margin, _half(verdict)
    interval = None
    text = f"{middle:+.2f} margins from the reported number"
    if half is not None:
        low, high = _percent(middle - half / margin), _percent(middle + half / margin)
        interval = (low, round(high - low, 2))
        text += f", 95 % prediction interval {middle - half / margin:+.2f} to {middle + half / margin:+.2f}"
    outside = "" if abs(middle) <= REACH else "above" if middle > 0 else "below"
    low, high = _percent(-1.0), _percent(1.0)
    return Strip((low, round(high - low, 2)), interval, _percent(middle), outside, text)


def _half(verdict: Verdict) -> float | None:
    if verdict.half_width is not None:
        return verdict.half_width
    sd = verdict.sample.sd
    return None if sd is None else half_width(sd, verdict.sample.n)


def _percent(margins: float) -> float:
    """Return a place of the strip, 0 to 100."""
    return round(50 + 50 * max(-REACH, min(REACH, margins)) / REACH, 2)


def made_of(records: Sequence[Record], results: Results) -> str:
    """Return what the page was made from, with the records' own dates."""
    days = sorted({day for record in records if (day := measured(record)[:10])})
    span = "" if not days else f", measured {days[0]}" if days[0] == days[-1] else f", measured {days[0]} to {days[-1]}"
    approaches = len({record.approach for record in records})
    made = f"Made from {len(records)} records of {approaches} approaches{span}, and nothing else."
    return f"{made} {results.describe()}"
