"""How outcomes of verdicts are shown on the terminal, in tables, figures and the page: colours, markers and reasons.

Confirmed is blue, contradicted orange-red (Okabe & Ito 2008, "Color Universal Design"), an open outcome grey.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from bench.judge.comparison import CANNOT_TELL, CONFIRMED, CONTRADICTED, ENOUGH
from bench.judge.stats.curves import Curve
from bench.judge.stats.on_scale import OnScale
from bench.judge.stats.rule import EXACT, NOT_EXACT, NOT_RUN, OUTCOMES, TOO_FEW, Verdict, distance_from_print
from bench.judge.stats.scales import LOG, scale_of

LANDS = "95 of 100 new runs of ours would land within the margin"
CHANCE = "chance does not explain the difference, p < .05"
UNSETTLED = "neither confirmed nor contradicted"
PRINTED = "computed, not trained; the printed digits"


class VerdictLook(NamedTuple):
    """How an outcome is shown."""

    tone: str  # "good", "bad" or "open"
    light: str  # colour on white; 3 to 1 against it at least
    dark: str  # colour on near black
    marker: str  # in figures
    fill: str  # of the marker: "full" or "none"
    meaning: str


LOOKS = {
    EXACT: VerdictLook("good", "#004B75", "#9CD0F5", "*", "full", f"{PRINTED} come out"),
    CONFIRMED: VerdictLook("good", "#0072B2", "#56A8E0", "o", "full", f"{LANDS}, the difference that would matter"),
    CONTRADICTED: VerdictLook("bad", "#B84700", "#F08A4B", "X", "full", CHANCE),
    CANNOT_TELL: VerdictLook("open", "#6A727A", "#8E989F", "$?$", "full", UNSETTLED),
    NOT_EXACT: VerdictLook("bad", "#7A2E00", "#FFB184", "P", "full", f"{PRINTED} do not come out"),
    TOO_FEW: VerdictLook(
        "open", "#7F878E", "#79838C", "o", "none", f"fewer than {ENOUGH} seeds, equal seeds, or one without a number"
    ),
    NOT_RUN: VerdictLook("open", "#9AA1A7", "#4F585F", ".", "none", "nothing was measured"),
}


def tone(outcome: str) -> str:
    """Return "good", "bad" or "open"; a text that is no outcome is "open"."""
    return LOOKS[outcome].tone if outcome in LOOKS else "open"


def css() -> str:
    """Return the style sheet of the outcomes: a variable for the colour of each."""
    names = {outcome.replace(", ", "-").replace(" ", "-"): LOOKS[outcome] for outcome in OUTCOMES}
    variables = "".join(f"  --{name}: light-dark({look.light}, {look.dark});\n" for name, look in names.items())
    return f":root {{\n{variables}}}\n"


def counts(verdicts: Iterable[Verdict | Curve]) -> str:
    """Return how often each outcome occurs: "3 confirmed, 1 contradicted, 2: no single run can tell", or "none"."""
    found = Counter(verdict.outcome for verdict in verdicts)
    texts = {outcome: f"{found[outcome]}{':' * (outcome == CANNOT_TELL)} {outcome}" for outcome in OUTCOMES}
    return ", ".join(texts[outcome] for outcome in OUTCOMES if found[outcome]) or "none"


def why(one: Verdict | Curve) -> str:
    """Return the reason for an outcome."""
    return _why_claim(one) if isinstance(one, Verdict) else _why_curve(one)


def how_far(one: Verdict | Curve) -> str:
    """Return how far a contradicted report lies from our runs."""
    if one.on_scale is None:
        return CONTRADICTED
    return f"contradicted by {_distance(one, one.on_scale)}"


def _distance(one: Verdict | Curve, on_scale: OnScale) -> str:
    """Return D as text: in the claim's unit, on scale log as a factor, for a curve in margins."""
    if isinstance(one, Curve):
        return f"{on_scale.estimate.difference / on_scale.margin:.3g} margins" if on_scale.margin else "no margin"
    if one.scale == LOG:
        return one.in_words(on_scale.estimate.difference)
    return f"{on_scale.distance_in_unit:.2g}"


def seeds_that_settle(on_scale: OnScale) -> str:
    """Return the number of seeds with which one more run would land within the margin, as text."""
    n = on_scale.seeds_to_settle
    return "no number of seeds" if n is None else f"{n} seeds"


def in_brief(on_scale: OnScale) -> str:
    """Say in a few words why our runs neither confirm nor contradict a report."""
    if not on_scale.is_sharp:
        return f"{seeds_that_settle(on_scale)} can"
    return "near the edge"


def _unsettled(on_scale: OnScale) -> str:
    """Say why our runs neither confirm nor contradict a report."""
    if on_scale.is_sharp:
        return "near the edge: some numbers that print so lie beyond the margin of some runs of ours"
    why_not = "our runs scatter by more than the margin" if on_scale.scatters else "too few digits are printed"
    return f"{why_not}; {seeds_that_settle(on_scale)} can settle it"


def _why_claim(verdict: Verdict) -> str:
    sample, on_scale = verdict.sample, verdict.on_scale
    if verdict.is_point:
        return "a point of a curve, which is one claim"
    if verdict.outcome == NOT_RUN:
        return sample.missing_value.reason if sample.missing_value else "nothing was measured"
    if verdict.outcome in (EXACT, NOT_EXACT):
        worst = max(distance_from_print(verdict.claim, value) for value in sample.values)
        return f"{worst:.2g} outside the printed digits" if worst else "inside the printed digits"
    if verdict.outcome == TOO_FEW or on_scale is None:
        return _what_is_missing(verdict)
    if verdict.outcome == CONTRADICTED:
        return how_far(verdict) + _less(on_scale)
    if verdict.outcome == CONFIRMED:
        of_means = "the means of both groups of runs differ by less than the margin"
        return LANDS if on_scale.reported.sd is None else of_means
    return _unsettled(on_scale)


def _less(on_scale: OnScale) -> str:
    return ", less than the margin" if on_scale.is_within_margin else ""


def _what_is_missing(verdict: Verdict) -> str:
    sample = verdict.sample
    few = f"{sample.n} of the {ENOUGH} seeds that a verdict needs" if sample.n < ENOUGH else f"{sample.n} seeds"
    if sample.missing_value is not None:
        return f"{few}; {sample.missing_value.reason}"
    if verdict.on_scale is not None and not verdict.on_scale.estimate.has_spread:
        return f"{few}, all equal: without a spread no test can say how far one more run may lie"
    if sample.n >= ENOUGH:
        return f"{few}; the scale {scale_of(verdict.claim).name} cannot hold one of them"
    return few


def _why_curve(one: Curve) -> str:
    on_scale = one.on_scale
    if one.outcome == TOO_FEW or on_scale is None:
        fewest = min(row.sample.n for row in one.rows)
        missing_value = next((row.sample.missing_value.reason for row in one.rows if row.sample.missing_value), "")
        missing_value = missing_value or ("the scale of an epoch cannot hold one of them" if fewest >= ENOUGH else "")
        return f"{fewest} seeds in every epoch" + (f"; {missing_value}" if missing_value else "")
    if one.outcome == CONTRADICTED:
        return how_far(one) + _less(on_scale)
    if one.outcome == CONFIRMED:
        return LANDS
    return _unsettled(on_scale)
