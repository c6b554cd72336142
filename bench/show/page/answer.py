"""The answer in short: how many reported numbers reproduce, the headline ones drawn, what the uncertainty is worth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.core.text import FRACTION, SIX, THREE, Digits
from bench.judge.claims import Claim, metrics_of
from bench.judge.results import Results
from bench.judge.stats.prediction import half_width
from bench.judge.stats.verdicts import ENOUGH, OUTCOMES, Verdict, is_exact
from bench.show.page.grid import HUES
from bench.show.page.links import anchor
from bench.show.tables.accuracy import headline
from bench.show.tables.cells import Cell, Linked, Number, Table, make_table, of_claim
from bench.show.tables.verdicts import counts_text

MARGINS = Digits(decimals=2, signed=True)
DRAWING = "difference in margins"
REACH = 3.0  # margins to either side that a strip shows
BRIEF = {
    "accuracy": ("mnist/accuracy", FRACTION),
    "ECE": ("mnist/ece", FRACTION),
    "entropy on MNIST": ("mnist/predictive_entropy", THREE),
    "on noise": ("noise_uniform/predictive_entropy", THREE),
    "on letters": ("letters/predictive_entropy", THREE),
    "AUROC, clothes": ("fashion_mnist/auroc_predictive_entropy", FRACTION),
    "AUROC, letters": ("letters/auroc_predictive_entropy", FRACTION),
    "noise refused": ("noise_uniform/refusal_rate", FRACTION),
    "digits refused": ("mnist/refusal_rate", FRACTION),
}


@dataclass(frozen=True)
class Part:
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
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Strip:
    """One line of the forest plot, in percent of its width: reported in the middle, the margin to both sides."""

    band: tuple[float, float]  # start and width of the margin
    interval: tuple[float, float] | None  # start and width of the 95 % prediction interval for one more run
    mean: float
    outside: str  # "below" or "above" where the mean is beyond the reach, else ''
    text: str  # the same in words


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
                parts.append(Part(outcome, HUES[outcome], count, round(start, 2), round(width, 2)))
            start += width
        found.append(Bar(document, f"#{anchor('document', document)}", len(mine), _span(_seeds(mine)), tuple(parts)))
    return found


def headlines(claims: Sequence[Claim], verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the verdicts on what the documents report at their end: final numbers, and each approach's accuracy."""
    at_end = {claim.id for claim in claims if claim.stage == "final"}
    for approach in dict.fromkeys(claim.approach for claim in claims):
        claim = headline(claims, approach, "accuracy", "mnist")
        at_end |= {claim.id} if claim else set()
    return [verdict for verdict in verdicts if verdict.claim.id in at_end]


def forest_table(results: Results, verdicts: Sequence[Verdict]) -> Table:
    """One line a headline number; the page draws the column `DRAWING`, see `strip`."""
    lines = []
    for verdict in verdicts:
        claim, here = verdict.claim, (of_claim(verdict.claim.id),)
        digits = FRACTION if claim.unit == "fraction" else SIX
        place = ", ".join(part for part in (claim.metric.replace("_", " "), claim.dataset, claim.split) if part)
        lines.append(
            [
                claim.source,
                Linked(place, here),
                Linked(claim.printed, here),
                Cell(verdict.sample, digits),
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
        f"before the runs with five seeds. It ends {REACH:.0f} margins away; a triangle is further out. "
        f"{results.describe(spread=False)}"
    )
    return make_table("headlines", "The headline numbers, drawn", caption, columns, lines, [])


def _in_margins(verdict: Verdict) -> Number | str:
    if verdict.difference is None or verdict.claim.margin == 0:
        return "-"
    return Number(verdict.difference / verdict.claim.margin, MARGINS, verdict.sample.sources)


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


def brief_table(results: Results) -> Table:
    """What the uncertainty of each approach is worth, in a few numbers of the common protocol."""
    rows = [
        [approach, recipe, *(Cell(metrics_of(records, key), digits) for key, digits in BRIEF.values())]
        for approach in results.classifiers()
        for recipe in ("published", *(["corrected"] if results.has_corrected(approach) else []))
        if (records := results.cell(approach, recipe, "common"))
    ]
    caption = (
        "Common protocol: official test set, 100 draws, mean of probabilities. ECE: expected calibration error, 0 is "
        "best. Entropy: of the predicted probabilities, mean over images, nats (at most 2.303); what is no digit "
        "should have much more of it than MNIST. AUROC: how well it tells clothes or letters from digits, 0.5 is "
        "chance, 1 is best. Refused: share of images answered with 'I don't know' by the median rule. "
        f"{results.describe()}"
    )
    title = "Can the uncertainty be believed?"
    return make_table("brief", title, caption, ["approach", "recipe", *BRIEF], rows, [])
