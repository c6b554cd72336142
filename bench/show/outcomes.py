"""The outcomes of verdicts in words and colours: the one place from which terminal, tables, figures and page take them.

What agrees is blue, what differs orange-red (Okabe & Ito 2008, "Color Universal Design"), what is not known grey.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from bench.judge.stats.rule import (
    AGREES,
    COARSE,
    DIFFERS,
    ENOUGH,
    EXACT,
    NOT_EXACT,
    NOT_RUN,
    OUTCOMES,
    TOO_FEW,
    Verdict,
)
from bench.judge.stats.verdicts import CurveVerdict


class VerdictLook(NamedTuple):
    """How an outcome is shown."""

    tone: str  # "good", "coarse", "bad" or "open"
    light: str  # colour on white; 3 to 1 against it at least
    dark: str  # colour on near black
    marker: str  # in figures
    fill: str  # of the marker: "full" or "none"
    meaning: str


LOOKS = {
    EXACT: VerdictLook("good", "#004B75", "#9CD0F5", "*", "full", "computed, not trained; the printed digits come out"),
    AGREES: VerdictLook(
        "good",
        "#0072B2",
        "#56A8E0",
        "o",
        "full",
        "even one more run of ours would land within the margin, the difference that would matter",
    ),
    COARSE: VerdictLook(
        "coarse",
        "#4098CC",
        "#3A86B8",
        "D",
        "none",
        "it looks like one of our runs, but our runs scatter so much that we could have missed a shift that matters",
    ),
    DIFFERS: VerdictLook("bad", "#B84700", "#F08A4B", "X", "full", "chance does not explain the difference, p < .05"),
    NOT_EXACT: VerdictLook(
        "bad", "#7A2E00", "#FFB184", "P", "full", "computed, not trained; the printed digits do not come out"
    ),
    TOO_FEW: VerdictLook(
        "open", "#7F878E", "#79838C", "o", "none", f"fewer than {ENOUGH} seeds, or one without a number"
    ),
    NOT_RUN: VerdictLook("open", "#9AA1A7", "#4F585F", ".", "none", "nothing was measured"),
}


def tone(outcome: str) -> str:
    """Return "good", "coarse", "bad", or "open" for what is not known."""
    return LOOKS[outcome].tone if outcome in LOOKS else "open"


def css() -> str:
    """Return the style sheet of the outcomes: a variable for the colour of each."""
    names = {outcome.replace(", ", "-").replace(" ", "-"): LOOKS[outcome] for outcome in OUTCOMES}
    variables = "".join(f"  --{name}: light-dark({look.light}, {look.dark});\n" for name, look in names.items())
    return f":root {{\n{variables}}}\n"


def meanings(outcomes: set[str]) -> list[str]:
    """Return what each of these outcomes means."""
    return [f"{outcome}: {LOOKS[outcome].meaning}." for outcome in OUTCOMES if outcome in outcomes]


def counts(verdicts: Iterable[Verdict | CurveVerdict]) -> str:
    """Return how often each outcome occurs: "3 agree, 1 agrees coarsely, 2 differ", or "none"."""
    found = Counter(verdict.outcome for verdict in verdicts)
    return ", ".join(_counted(found[outcome], outcome) for outcome in OUTCOMES if found[outcome]) or "none"


def _counted(count: int, outcome: str) -> str:
    said = outcome.replace(",", "")
    return f"{count} {said if count == 1 else said.replace('agrees', 'agree').replace('differs', 'differ')}"
