"""The numbers that everybody quotes, and what our seeds say of each: the README's first table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.core.text import FRACTION, SIX, Digits
from bench.core.toml import TomlTable, read_toml
from bench.judge.claims import PUBLISHED, Claim
from bench.judge.results import Results
from bench.judge.samples import Sample
from bench.judge.stats.prediction import half_width, leaves_unit_interval
from bench.judge.stats.verdicts import CONSISTENT, INCONCLUSIVE, NOT_REPRODUCED, OUTCOMES, UNRESOLVABLE, WITHIN, Verdict
from bench.show.tables.accuracy import headline, truncations
from bench.show.tables.cells import Entry, Linked, Measured, Number, Table, of_claim, results_table
from bench.show.tables.verdicts import counts_text, kinds_text

HEADLINE = PUBLISHED.parent / "headline.toml"
MEANINGS = {
    WITHIN: "even one more run of ours would land within the margin, the difference that would matter",
    CONSISTENT: "it looks like one of our runs, and these are precise enough for that to mean something",
    NOT_REPRODUCED: "neither chance nor the margin explains the difference",
    UNRESOLVABLE: "no number of seeds would decide; mostly because our seeds alone differ by more than the margin. "
    "This says nothing against the report",
    INCONCLUSIVE: "more seeds could decide; the difference is shown all the same",
}
DRAWING = "difference in margins"
REACH = 3.0  # margins to either side that a drawing of the page shows
MARGINS = Digits(decimals=2, signed=True)
LONGEST_PRINT = 8  # characters; means over batches are printed with sixteen digits


class Quoted(TomlTable, frozen=True):
    """A claim and what it answers."""

    claim: str  # id
    asks: str


class _Headline(TomlTable, frozen=True):
    number: tuple[Quoted, ...]


def load_quoted(path: Path = HEADLINE) -> tuple[Quoted, ...]:
    """Read the numbers that are quoted, in the order of the file; raises ConfigError that names the file."""
    return read_toml(path, _Headline, "quoted numbers").number


def headline_table(results: Results, verdicts: Sequence[Verdict]) -> Table:
    """One line for each quoted number whose claim is among the verdicts."""
    by_claim = {verdict.claim.id: verdict for verdict in verdicts}
    found = [(quoted, by_claim[quoted.claim]) for quoted in load_quoted() if quoted.claim in by_claim]
    lines = [_line(quoted, verdict) for quoted, verdict in found]
    caption = (
        "Measured: mean of our seeds, each trained and measured as published; in brackets the 95 % prediction "
        "interval for one more run, because a reported number is of a single run; n: seeds. All "
        f"{len(verdicts)} reported numbers: {counts_text(verdicts)}. Of these, {kinds_text(verdicts)}."
    )
    columns = ["what is reported", "document", "reported", "measured", "n", "verdict"]
    title = "Do the numbers that everybody quotes hold?"
    notes = _meanings([verdict for _, verdict in found])
    return results_table(results, "headline", title, caption, columns, lines, notes, has_spread=False)


def _meanings(verdicts: Sequence[Verdict]) -> list[str]:
    """Return what the outcomes that stand in the table mean, and what is to be known of its numbers."""
    shown = {verdict.outcome for verdict in verdicts}
    notes = [f"{outcome}: {MEANINGS[outcome]}." for outcome in OUTCOMES if outcome in shown & set(MEANINGS)]
    notes += truncations(verdict.claim for verdict in verdicts)
    if any(
        verdict.claim.unit == "fraction"
        and mean is not None
        and width is not None
        and leaves_unit_interval(mean, width)
        for verdict in verdicts
        for mean, width in ((verdict.sample.mean, _width(verdict.sample)),)
    ):
        notes.append("An interval that ends at 0 or 1 is cut there: near these ends the t rule is rough.")
    return notes


def _width(sample: Sample) -> float | None:
    return None if sample.sd is None else half_width(sample.sd, sample.n)


def _line(quoted: Quoted, verdict: Verdict) -> list[Entry]:
    claim, sample = verdict.claim, verdict.sample
    digits = FRACTION if claim.unit == "fraction" else SIX if claim.precision_kind == "count" else Digits(significant=4)
    measured = "-" if sample.mean is None else digits.text(sample.mean)
    width = _width(sample)
    if sample.mean is not None and width is not None:
        low, high = sample.mean - width, sample.mean + width
        if claim.unit == "fraction":  # no share lies outside, whatever the t distribution says
            low, high = max(0.0, low), min(1.0, high)
        measured += f" [{digits.text(low)}, {digits.text(high)}]"
    reported = claim.printed if len(claim.printed) <= LONGEST_PRINT else digits.text(claim.value)
    here = (of_claim(claim.id),)
    linked = [Linked(text, here) for text in (reported, measured, str(sample.n), verdict.outcome)]
    return [quoted.asks, claim.source, *linked]


def final_verdicts(claims: Sequence[Claim], verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the verdicts on what the documents report at their end: final numbers, and each approach's accuracy."""
    at_end = {claim.id for claim in claims if claim.stage == "final"}
    for approach in dict.fromkeys(claim.approach for claim in claims):
        claim = headline(claims, approach, "accuracy", "mnist")
        at_end |= {claim.id} if claim else set()
    return [verdict for verdict in verdicts if verdict.claim.id in at_end]


def final_numbers_table(results: Results, claims: Sequence[Claim], verdicts: Iterable[Verdict]) -> Table:
    """Return a row for each number that a document reports at its end; the page draws the column `DRAWING`."""
    lines: list[list[Entry]] = []
    for verdict in final_verdicts(claims, verdicts):
        claim, here = verdict.claim, (of_claim(verdict.claim.id),)
        digits = FRACTION if claim.unit == "fraction" else SIX
        place = ", ".join(part for part in (claim.metric.replace("_", " "), claim.dataset, claim.split) if part)
        lines.append(
            [
                claim.source,
                Linked(place, here),
                Linked(claim.printed, here),
                Measured(verdict.sample, digits),
                _in_margins(verdict),
                Linked(verdict.outcome, here),
                claim.approach,
                f"{claim.margin:g}" if claim.margin else "-",
                claim.unit or "1",
            ]
        )
    columns = ["document", "what", "reported", "measured", DRAWING, "verdict", "approach", "margin", "unit"]
    caption = (
        "The numbers that each document reports at its end. The drawing: our mean (dot) and the 95 % prediction "
        "interval for one more run of ours (line; none below two seeds), as distances from the reported number (the "
        "stroke in the middle) in units of the margin (the shaded band), the difference that would matter, declared "
        f"before the runs with five seeds. It ends {REACH:.0f} margins away; a triangle is further out."
    )
    title = "The headline numbers, drawn"
    return results_table(results, "headlines", title, caption, columns, lines, has_spread=False)


def _in_margins(verdict: Verdict) -> Number | str:
    if verdict.difference is None or verdict.claim.margin == 0:
        return "-"
    return Number(verdict.difference / verdict.claim.margin, MARGINS, verdict.sample.sources)
