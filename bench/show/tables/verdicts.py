"""Verdicts as tables: on quoted numbers, on end results, on every reported number, on curves, and by document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from bench.core.text import FRACTION, FRACTION_DIFFERENCE, SIX, THREE_DIFFERENCE, Digits, counted
from bench.core.toml import TomlTable, read_toml
from bench.judge.claims import PUBLISHED
from bench.judge.comparison import ENOUGH, leaves_unit_interval
from bench.judge.results import Results
from bench.judge.stats.curves import SEEN_BEFORE, Curve
from bench.judge.stats.rule import OUTCOMES, Verdict
from bench.judge.stats.scales import IDENTITY
from bench.judge.stats.verdicts import Judgement
from bench.show.inputs import Inputs
from bench.show.outcomes import LOOKS, counts, why
from bench.show.reasoning import CHOSEN_AFTER, digits_of, ours_text, p_text
from bench.show.table import Entry, Linked, Measured, Number, Table, of_claim, of_document
from bench.show.tables.reported import truncations

RULE = (
    "p: probability that one more run of ours lies at least as far from our mean as the report (t rule; the spread "
    "is pooled over recipes where Bartlett's test allows). Own p: by the seeds of this recipe alone. Adjusted p: Holm, "
    "over the document's claims and curves. 95 %: interval for one more run of ours. R: shift of the mean that "
    "one reported run reveals with 80 % power. Seeds: how many settle the claim, so that one more run would land "
    "within the margin. Contradicted: adjusted p < .05. Confirmed: 95 of 100 new runs of ours would land within the "
    "margin of every number that prints as the report. No single run can tell: neither. Fewer than "
    f"{ENOUGH} seeds are too few."
)
CURVE_RULE = (
    "A curve over epochs is one claim. Take the report and our seeds together: in each epoch, standardise every run by "
    "their mean and standard deviation; a run's statistic is its mean over the epochs. The t rule compares the "
    "report's statistic with our seeds'. h: half-width of the 95 % interval for one more run; M: "
    "margin; both in units of the statistic."
)
JOINT = (
    "Joint p: could one run of ours have given all end results of the document? Fisher's statistic, calibrated by "
    "simulation with our seeds' correlations."
)
HEADLINE = PUBLISHED.parent / "headline.toml"
DRAWING = "difference in margins"
REACH = 3.0  # margins to either side that a drawing of the page shows
MARGINS = Digits(decimals=2, signed=True)
LONGEST_PRINT = 8  # characters; means over batches are printed with sixteen digits


def verdicts_table(results: Results, judgement: Judgement) -> Table:
    """Return a row for each claim."""
    columns = ["claim", "reported", "unit", "margin", "measured", "difference", "95 %", "percentile", "p", "own p"]
    columns += ["adjusted p", "R", "seeds", "verdict", "why"]
    lines = [_line(verdict) for verdict in judgement.verdicts]
    caption = (
        f"{kinds_text(judgement)} Published recipe and published protocol. {RULE} A point of a curve gets the verdict "
        "of the curve."
    )
    ends = frozenset(verdict.claim.id for verdict in judgement.ends)
    table = Table("verdicts", "Which reported numbers reproduce", caption, columns, lines).of(results)
    return replace(table, main=lambda row: str(row[0]) in ends, main_says="end results; `verdict CLAIM` says why")


def _line(verdict: Verdict) -> list[Entry]:
    claim, on_scale, here = verdict.claim, verdict.on_scale, (of_claim(verdict.claim.id),)
    is_fraction, digits = claim.unit == "fraction", digits_of(verdict)
    difference = FRACTION_DIFFERENCE if is_fraction else THREE_DIFFERENCE
    ends, sources = verdict.interval, verdict.sample.sources
    return [
        Linked(claim.id, here),
        Linked(claim.printed, here),
        claim.unit or None,
        f"{claim.margin:g}" if claim.margin else "digits",
        Measured(verdict.sample, FRACTION if is_fraction else SIX) if verdict.sample.n else None,
        None if verdict.difference is None else Number(verdict.difference, difference, sources),
        None if ends is None else Linked(f"{digits.text(ends[0])} to {digits.text(ends[1])}", here),
        None if on_scale is None else Linked(f"{on_scale.percentile:.0f}", here),
        None if on_scale is None else Linked(p_text(on_scale.estimate.p), here),
        None if on_scale is None else Linked(p_text(on_scale.own_estimate.p), here),
        _p(verdict.p_adjusted, here),
        None if on_scale is None else Linked(verdict.in_words(on_scale.estimate.resolution(verdict.level)), here),
        None if on_scale is None else Linked(str(on_scale.seeds_to_settle or "none"), here),
        Linked(verdict.outcome, here),
        why(verdict),
    ]


def curve_verdicts_table(results: Results, judgement: Judgement) -> Table:
    """Return a row for each curve."""
    columns = ["document", "curve", "epochs", "seeds", "percentile", "h", "M", "p", "smallest p x epochs"]
    columns += ["adjusted p", "verdict", "why"]
    lines = [_curve_line(one) for one in judgement.curves]
    caption = f"{_kind('curve', judgement.curves)} {CURVE_RULE}".strip()
    notes = [
        f"{one.name}: {CHOSEN_AFTER.format(p=p_text(one.smallest_p))}"
        for one in judgement.curves
        if one.name == SEEN_BEFORE
    ]
    title = "Do the training curves come out?"
    return Table("verdict_curves", title, caption, columns, lines, notes).of(results, False, _keys(judgement.verdicts))


def _keys(verdicts: Iterable[Verdict]) -> Iterator[str]:
    return (key for verdict in verdicts for key in verdict.sample.sources)


def _curve_line(curve: Curve) -> list[Entry]:
    on_scale = curve.on_scale
    here = (of_claim(curve.first.id),)
    document, _, name = curve.name.partition("/")
    numbers: list[Entry] = [None] * 4
    if on_scale is not None:
        sizes = f"{on_scale.percentile:.0f}", f"{on_scale.half_width:.2g}", f"{on_scale.margin:.2g}"
        numbers = [Linked(text, here) for text in (*sizes, p_text(on_scale.estimate.p))]
    start = (name, str(len(curve.rows)), str(min(row.sample.n for row in curve.rows)))
    numbers += [_p(curve.smallest_p, here), _p(curve.p_adjusted, here)]
    return [document, *(Linked(text, here) for text in start), *numbers, Linked(curve.outcome, here), why(curve)]


def _p(p: float | None, sources: tuple[str, ...]) -> Linked | None:
    return None if p is None else Linked(p_text(p), sources)


def summary_table(results: Results, judgement: Judgement) -> Table:
    """Return a row for each document. End results, curves and computed numbers are counted apart: see `kinds_text`."""
    lines: list[list[Entry]] = []
    for source in dict.fromkeys(verdict.claim.source for verdict in judgement.verdicts):
        mine = judgement.of_documents([source])
        here, texts = (of_document(source),), [counts(mine.ends), counts(mine.curves), counts(mine.computed)]
        together = [_p(joint.get(source), here) for joint in (judgement.joint, judgement.joint_with_curves)]
        lines.append([*(Linked(text, here) for text in (source, *texts)), *together])
    caption = f"{kinds_text(judgement)} {JOINT}"
    columns = ["document", "end results", "curves over epochs", "computed", "joint p", "joint p with curves"]
    return Table("verdict_summary", "Verdicts by document", caption, columns, lines).of(
        results, False, _keys(judgement.verdicts)
    )


def kinds_text(judgement: Judgement) -> str:
    """Return the outcomes of end results, of curves and of computed numbers, counted apart.

    They are never added up: points of a curve have one verdict, and a computed number only tests arithmetic.
    """
    n_points = sum(len(one.rows) for one in judgement.curves)
    parts = [
        _kind("end result", judgement.ends),
        _kind("curve", judgement.curves, f" with {counted(n_points, 'point')}"),
        _kind("computed number", judgement.computed),
    ]
    return " ".join(part for part in parts if part)


def _kind(name: str, found: Sequence[Verdict] | Sequence[Curve], more: str = "") -> str:
    return f"{counted(len(found), name)}{more}: {counts(found)}." if found else ""


class _Headline(TomlTable, frozen=True):
    short: Mapping[str, str]


def load_short_names() -> Mapping[str, str]:
    """Read the short names of end results by claim; raises ConfigError that names the file."""
    return read_toml(HEADLINE, _Headline, "quoted numbers").short


def headline_table(results: Results, judgement: Judgement) -> Table:
    """Return a row for each end result."""
    names = load_short_names()
    lines = [_headline_line(verdict, names) for verdict in judgement.ends]
    caption = (
        f"{counted(len(lines), 'end result')} of the documents: {counts(judgement.ends)}. Ours: mean of our seeds, "
        "each trained and measured as published; in brackets the 95 % interval for one more run, because a reported "
        "number is of a single run."
    )
    columns = ["document", "what is reported", "reported", "ours [95 %]", "verdict"]
    title = "Do the numbers that everybody quotes hold?"
    notes = _notes(judgement.ends, judgement)
    return Table("headline", title, caption, columns, lines, notes).of(results, False, _keys(judgement.ends))


def _notes(verdicts: Sequence[Verdict], judgement: Judgement) -> list[str]:
    """Return notes: what the outcomes mean, each document's seeds and joint p, truncated prints, cut intervals."""
    outcomes = {verdict.outcome for verdict in verdicts}
    notes = [f"{outcome}: {LOOKS[outcome].meaning}." for outcome in OUTCOMES if outcome in outcomes]
    for document in dict.fromkeys(verdict.claim.source for verdict in verdicts):
        mine = [verdict for verdict in verdicts if verdict.claim.source == document]
        seeds = dict.fromkeys(f"{counted(verdict.sample.n, 'seed')} of {verdict.claim.approach}" for verdict in mine)
        joint = judgement.joint.get(document)
        together = f"; all its end results together: p = {p_text(joint)}" if joint else ""
        notes.append(f"{document}: {', '.join(seeds)}{together}.")
    if pooled := pooled_text(verdicts):
        notes.append(pooled)
    notes += truncations(verdict.claim for verdict in verdicts)
    if any(_is_rough(verdict) for verdict in verdicts):
        notes.append("An interval that ends at 0 or 1 is cut there; near 0 and 1 the t rule is rough.")
    return notes


def pooled_text(verdicts: Sequence[Verdict]) -> str:
    """Say where the spread is pooled over recipes; '' if nowhere."""
    names, found = load_short_names(), dict[str, list[str]]()
    for verdict in verdicts:
        if verdict.on_scale is not None and verdict.on_scale.is_pooled:
            claim = verdict.claim
            found.setdefault(claim.source, []).append(names.get(claim.id, claim.metric))
    where = "; ".join(f"{source} ({', '.join(mine)})" for source, mine in found.items())
    return f"Spread pooled over recipes that scatter alike: {where}." if where else ""


def _is_rough(verdict: Verdict) -> bool:
    if verdict.on_scale is None or verdict.claim.unit != "fraction" or verdict.scale != IDENTITY:
        return False
    mean, half = verdict.on_scale.ours.mean or 0.0, verdict.on_scale.half_width
    return leaves_unit_interval(mean - half, mean + half)


def _headline_line(verdict: Verdict, names: Mapping[str, str]) -> list[Entry]:
    claim = verdict.claim
    here = (of_claim(claim.id),)
    ours = None if verdict.centre is None else Linked(ours_text(verdict), here)
    name = names.get(claim.id, claim.metric)
    return [claim.source, name, Linked(reported_text(verdict), here), ours, Linked(verdict.outcome, here)]


def reported_text(verdict: Verdict) -> str:
    """Return the reported number as the document prints it, rounded if that has many digits."""
    printed = verdict.claim.printed
    return printed if len(printed) <= LONGEST_PRINT else digits_of(verdict).text(verdict.claim.value)


def final_numbers_table(inputs: Inputs) -> Table:
    """Return a row for each number that a document reports at its end; the page draws the column `DRAWING`."""
    lines: list[list[Entry]] = []
    for verdict in inputs.judgement.ends:
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
        f"{counted(len(inputs.judgement.ends), 'end result')} of the documents: {counts(inputs.judgement.ends)}. The "
        "drawing: our mean (dot) and the 95 % prediction interval for one more run of ours (line, drawn from the "
        "farthest number that prints as the report; none below two seeds). Middle stroke: the reported number. Band, "
        "unit: the margin, the difference that would matter, declared before the runs with five seeds. The drawing "
        f"ends {REACH:.0f} margins away; a triangle lies further out."
    )
    title = "The headline numbers, drawn"
    return Table("headlines", title, caption, columns, lines).of(inputs.judged, has_spread=False)
