"""The numbers that everybody quotes, and what our seeds say of each: the README's first table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.core.text import FRACTION, SIX, Digits, counted
from bench.core.toml import TomlTable, read_toml
from bench.judge.claims import PUBLISHED
from bench.judge.results import Results
from bench.judge.stats.prediction import leaves_unit_interval
from bench.judge.stats.rule import Verdict
from bench.judge.stats.scales import IDENTITY
from bench.judge.stats.verdicts import Judgement
from bench.show.cells import Entry, Linked, Measured, Number, Table, make_table, of_claim
from bench.show.material import Material
from bench.show.outcomes import counts, meanings
from bench.show.reasoning import digits_of, ours_text, p_text
from bench.show.tables.accuracy import headline, truncations

HEADLINE = PUBLISHED.parent / "headline.toml"
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
    short: Mapping[str, str]


def load_quoted() -> tuple[Quoted, ...]:
    """Read the numbers that are quoted, in the order of the file; raises ConfigError that names the file."""
    return read_toml(HEADLINE, _Headline, "quoted numbers").number


def load_short_names() -> Mapping[str, str]:
    """Read the short names of end results by claim; raises ConfigError that names the file."""
    return read_toml(HEADLINE, _Headline, "quoted numbers").short


def headline_table(results: Results, judgement: Judgement) -> Table:
    """One line for each quoted number whose claim is among the verdicts."""
    by_claim = {verdict.claim.id: verdict for verdict in judgement.verdicts}
    found = [(quoted, by_claim[quoted.claim]) for quoted in load_quoted() if quoted.claim in by_claim]
    lines = [_line(quoted, verdict) for quoted, verdict in found]
    caption = (
        "Ours: mean of our seeds, each trained and measured as published; in brackets the 95 % interval for one more "
        f"run, because a reported number is of a single run. All {len(judgement.ends)} end results of the documents: "
        f"{counts(judgement.ends)}."
    )
    columns = ["what is reported", "reported", "ours [95 %]", "verdict"]
    title = "Do the numbers that everybody quotes hold?"
    notes = _notes([verdict for _, verdict in found], judgement)
    return make_table("headline", title, caption, columns, lines, notes).of(results, has_spread=False)


def _notes(verdicts: Sequence[Verdict], judgement: Judgement) -> list[str]:
    """Return what the outcomes mean, each document's seeds and joint p, and what is to be known of the numbers."""
    notes = meanings({verdict.outcome for verdict in verdicts})
    for document in dict.fromkeys(verdict.claim.source for verdict in verdicts):
        mine = [verdict for verdict in verdicts if verdict.claim.source == document]
        seeds = dict.fromkeys(f"{counted(verdict.sample.n, 'seed')} of {verdict.claim.approach}" for verdict in mine)
        joint = judgement.joint.get(document)
        together = f"; all its end results together: p = {p_text(joint)}" if joint else ""
        notes.append(f"{document}: {', '.join(seeds)}{together}.")
    notes += truncations(verdict.claim for verdict in verdicts)
    if any(_is_rough(verdict) for verdict in verdicts):
        notes.append("An interval that ends at 0 or 1 is cut there; near 0 and 1 the t rule is rough.")
    return notes


def _is_rough(verdict: Verdict) -> bool:
    evidence = verdict.evidence
    is_fraction = verdict.claim.unit == "fraction" and verdict.scale == IDENTITY
    return is_fraction and evidence is not None and leaves_unit_interval(evidence.mean, evidence.half_width)


def _line(quoted: Quoted, verdict: Verdict) -> list[Entry]:
    claim = verdict.claim
    here = (of_claim(claim.id),)
    ours = None if verdict.centre is None else Linked(ours_text(verdict), here)
    return [quoted.asks, Linked(reported_text(verdict), here), ours, Linked(verdict.outcome, here)]


def reported_text(verdict: Verdict) -> str:
    """Return the reported number as it is printed, or rounded where that is long."""
    printed = verdict.claim.printed
    return printed if len(printed) <= LONGEST_PRINT else digits_of(verdict).text(verdict.claim.value)


def final_verdicts(material: Material) -> list[Verdict]:
    """Return the verdicts on what the documents report at their end: final numbers, and each approach's accuracy."""
    claims = material.claims
    accuracies = (headline(claims, name, "accuracy", "mnist") for name in {claim.approach for claim in claims})
    at_end = {claim.id for claim in (*(one for one in claims if one.stage == "final"), *accuracies) if claim}
    return [verdict for verdict in material.judgement.verdicts if verdict.claim.id in at_end]


def final_numbers_table(material: Material) -> Table:
    """Return a row for each number that a document reports at its end; the page draws the column `DRAWING`."""
    lines: list[list[Entry]] = []
    for verdict in final_verdicts(material):
        claim, here = verdict.claim, (of_claim(verdict.claim.id),)
        digits = FRACTION if claim.unit == "fraction" else SIX
        in_margins = verdict.difference / claim.margin if verdict.difference is not None and claim.margin else None
        place = ", ".join(part for part in (claim.metric.replace("_", " "), claim.dataset, claim.split) if part)
        lines.append(
            [
                claim.source,
                Linked(place, here),
                Linked(claim.printed, here),
                Measured(verdict.sample, digits),
                None if in_margins is None else Number(in_margins, MARGINS, verdict.sample.sources),
                Linked(verdict.outcome, here),
                claim.approach,
                f"{claim.margin:g}" if claim.margin else None,
                claim.unit or "1",
            ]
        )
    columns = ["document", "what", "reported", "measured", DRAWING, "verdict", "approach", "margin", "unit"]
    caption = (
        "The numbers that each document reports at its end. Last points of curves and computed numbers are shown and "
        f"not counted among the {len(material.judgement.ends)} end results. The drawing: our mean (dot) and the 95 % "
        "prediction interval for one more run of ours (line; none below two seeds). Middle stroke: the reported "
        "number. Shaded band and unit: the margin, the difference that would matter, declared before the runs with "
        f"five seeds. The drawing ends {REACH:.0f} margins away; a triangle lies further out."
    )
    title = "The headline numbers, drawn"
    return make_table("headlines", title, caption, columns, lines).of(material.results, has_spread=False)
