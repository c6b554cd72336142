"""The numbers that everybody quotes, and what our seeds say of each: the README's first table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.claims import PUBLISHED
from bench.errors import ConfigError
from bench.report.cells import FRACTION, SIX, Digits, Table, make_table
from bench.report.records import Results
from bench.report.verdicts import counts_text
from bench.stats.prediction import half_width
from bench.stats.verdicts import Verdict

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HEADLINE = PUBLISHED.parent / "headline.toml"
LONGEST_PRINT = 8  # characters; means over batches are printed with sixteen digits


@dataclass(frozen=True)
class Quoted:
    """A claim and what it answers."""

    claim: str  # id
    asks: str


def load_quoted(path: Path = HEADLINE) -> list[Quoted]:
    """Read the numbers that are quoted, in the order of the file; raises ConfigError that names the file."""
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["number"]
        return [Quoted(**row) for row in rows]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} is no list of quoted numbers ({error}); each [[number]] has a claim and what it asks"
        ) from error


def headline_table(results: Results, verdicts: Sequence[Verdict]) -> Table:
    """One line for each quoted number whose claim is among the verdicts."""
    by_claim = {verdict.claim.id: verdict for verdict in verdicts}
    found = [(quoted, by_claim[quoted.claim]) for quoted in load_quoted() if quoted.claim in by_claim]
    lines = [_line(quoted, verdict) for quoted, verdict in found]
    brief = f"{len(verdicts)} reported numbers, {len(lines)} of them quoted here: {counts_text(verdicts)}."
    caption = (
        "Measured: mean of our seeds, each a training and a measuring as published; in brackets the 95 % prediction "
        "interval for one more run, which is what a single reported run is; n: seeds. All "
        f"{len(verdicts)} reported numbers: {counts_text(verdicts)}."
    )
    columns = ["what is reported", "document", "reported", "measured", "n", "verdict"]
    title = "Do the numbers that everybody quotes hold?"
    caption = f"{caption} {results.describe(spread=False)}"
    return make_table("headline", title, caption, columns, lines, results.origin(), brief)


def _line(quoted: Quoted, verdict: Verdict) -> list[str]:
    claim, sample = verdict.claim, verdict.sample
    digits = FRACTION if claim.unit == "fraction" else SIX if claim.precision_kind == "count" else Digits(significant=4)
    measured = "-" if sample.mean is None else digits.text(sample.mean)
    if sample.mean is not None and sample.sd is not None:
        width = half_width(sample.sd, sample.n)
        low, high = sample.mean - width, sample.mean + width
        if claim.unit == "fraction":  # no share lies outside, whatever the t distribution says
            low, high = max(0.0, low), min(1.0, high)
        measured += f" [{digits.text(low)}, {digits.text(high)}]"
    reported = claim.printed if len(claim.printed) <= LONGEST_PRINT else digits.text(claim.value)
    return [quoted.asks, claim.source, reported, measured, str(sample.n), verdict.outcome]
