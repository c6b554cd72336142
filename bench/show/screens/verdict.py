"""Shows verdicts on a terminal: all end results on one screen, curves, every single number, and a user's own number."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from bench.core.text import counted
from bench.judge.alternatives.own import JudgedNumber
from bench.judge.claims import print_interval
from bench.judge.comparison import CANNOT_TELL, CONFIRMED, ENOUGH
from bench.judge.stats.curves import SEEN_BEFORE, Curve
from bench.judge.stats.one_more_run import LIKE, SAME, UNLIKE, UNTOLD, Rerun
from bench.judge.stats.rule import Verdict
from bench.judge.stats.verdicts import Judgement
from bench.show.outcomes import counts, in_brief, seeds_that_settle, why
from bench.show.reasoning import CHOSEN_AFTER, NAME_WIDTH, digits_of, ours_text, outcome_text, p_text, pooling_text
from bench.show.tables.alternatives import against_json, against_lines
from bench.show.tables.verdicts import reported_text

NAME, REPORTED, OURS, P = 24, 8, 23, 5  # widths of the columns before the verdict
CURVE = 43  # width of a curve's name
STEP = NAME_WIDTH + 3  # characters before the text of a step
MEANING = (
    "Confirmed: 95 of 100 new runs of ours would land within the margin, the difference that matters. Contradicted: "
    "chance does not explain the difference, p < .05. No single run can tell: neither. "
)
OF_P = "p: how often one more run of ours lies at least as far from our mean as the report. "
MORE = "`verdict CLAIM` says why; `verdict --all` lists all."
OF_YOURS = (
    "p: how often one more shipped run lies at least as far as yours from the mean of the shipped seeds that you did "
    "not train (t rule; Holm over your numbers). Below .05, with !, yours is unlike them. Same: equal to the last bit "
    "to the shipped run of your seed."
)
WIDE = 120  # characters; a terminal of this width has room for reasons and percentiles
ROOM_FOR_P = 88  # a narrower one has no room for p
ROOM_FOR_BOTH = 96  # of the user's number and an interval


def ends_text(judgement: Judgement, names: Mapping[str, str], width: int, yours: Sequence[Rerun] = ()) -> str:
    """Return a line for each end result, grouped by document. From `WIDE` characters on, lines have percentiles.

    `names`: short names by the id of the claim; `yours`: the user's runs beside those that the verdicts are of.
    """
    names_of_columns = ("reported", "ours [95 % of runs]", "p", f"{'%ile' if width >= WIDE else ''} verdict".strip())
    lines, kept = [_line_of(width, "", *names_of_columns)], judgement.ends
    if yours:
        whose = "shipped" if all(one.own.n < ENOUGH for one in yours) else "seeds"
        lines = [_beside_line(width, "", "yours", "p", "reported", f"{whose} [95 % of runs]", "verdict")]
    own = {one.claim.id: one for one in yours}
    for document in dict.fromkeys(verdict.claim.source for verdict in kept):
        joint = judgement.joint.get(document)
        lines.append(document + (f": p = {p_text(joint)} for all its end results together" if joint else ""))
        mine = [one for one in kept if one.claim.source == document]
        lines += [
            _beside(one, own.get(one.claim.id), names, width) if yours else _line(one, names, width) for one in mine
        ]
    return "\n".join(lines)


def summary_text(judgement: Judgement, width: int, has_p: bool = True) -> str:
    """Return the counts of outcomes and the meaning of the words, in lines of at most `width` characters."""
    said = f"{counted(len(judgement.ends), 'end result')}: {counts(judgement.ends)}."
    n_pooled = sum(one.on_scale is not None and one.on_scale.is_pooled for one in judgement.ends)
    pooled = f" For {n_pooled}, the spread is pooled over recipes that scatter alike." if n_pooled else ""
    of_p = OF_P if width >= ROOM_FOR_P else f"Left out: p of each number; {ROOM_FOR_P} columns have room for it. "
    return f"{textwrap.fill(said + pooled, width)}\n{textwrap.fill(MEANING + of_p * has_p + MORE, width)}"


def all_text(judgement: Judgement, names: Mapping[str, str], width: int, yours: Sequence[Rerun] = ()) -> str:
    """Return end results, curves, computed numbers, and then every number by its id."""
    parts = [ends_text(judgement, names, width, yours), _curves_text(judgement, width)]
    if judgement.computed:
        n_computed = counted(len(judgement.computed), "computed number")
        parts.append(f"{n_computed}, not trained: {counts(judgement.computed)}")
    parts.append(
        "Every number by its name (a point of a curve gets the verdict of the curve)\n"
        + "\n".join(_every(judgement, width))
    )
    return "\n\n".join(parts)


def _curves_text(judgement: Judgement, width: int) -> str:
    if not judgement.curves:
        return "No curve was measured."
    lines = [f"{counted(len(judgement.curves), 'curve')}, each one claim: {counts(judgement.curves)}"]
    lines.append(f"{'':<{CURVE}} {'p':>{P}} {'before':>{P}} verdict")
    lines += [_curve_line(one, width) for one in judgement.curves]
    lines.append("before: the earlier statistic, the smallest p of the epochs times their number")
    for one in judgement.curves:
        if one.name == SEEN_BEFORE:
            lines.append(folded(f"{one.name}: {CHOSEN_AFTER.format(p=p_text(one.smallest_p))}", width))
    for document, joint in judgement.joint_with_curves.items():
        lines.append(f"{document}: p = {p_text(joint)} for end results and curves together")
    return "\n".join(lines)


def _curve_line(one: Curve, width: int) -> str:
    source, approach, metric, _, split = one.name.split("/")
    name = _cut(f"{source} {approach} {metric}, {split}", CURVE)
    p = p_text(one.on_scale.estimate.p if one.on_scale else None)
    before = p_text(one.smallest_p)
    return f"{name:<{CURVE}} {p:>{P}} {before:>{P}} {_words(one, width)}"


def _every(judgement: Judgement, width: int) -> Iterator[str]:
    ids = max((len(verdict.claim.id) for verdict in judgement.verdicts), default=0)
    for verdict in judgement.verdicts:
        on_scale = verdict.on_scale
        numbers = f"{p_text(on_scale.estimate.p if on_scale else None):>{P}} " * (width >= ROOM_FOR_P)
        if width >= WIDE:
            numbers = f"{reported_text(verdict):>{REPORTED}} {ours_text(verdict):<{OURS}} {numbers}"
        yield f"{verdict.claim.id:<{ids}} {numbers}{verdict.outcome}"


def _line(verdict: Verdict, names: Mapping[str, str], width: int) -> str:
    p = p_text(verdict.on_scale.estimate.p if verdict.on_scale else None)
    words = _words(verdict, width)
    if width >= WIDE:
        percentile = "-" if verdict.on_scale is None else f"{verdict.on_scale.percentile:.0f}"
        words = f"{percentile:>4} {words}"
    return _line_of(width, _name(verdict, names), reported_text(verdict), ours_text(verdict), p, words)


def _name(verdict: Verdict, names: Mapping[str, str]) -> str:
    name = verdict.claim.id.partition(".")[2].replace(".", " ").replace("_", " ")
    return f" {names.get(verdict.claim.id) or name}"


def _beside(verdict: Verdict, own: Rerun | None, names: Mapping[str, str], width: int) -> str:
    """Return the line of an end result with the user's number."""
    mean, p = (None, "-") if own is None else (own.own.mean, p_and_mark(own))
    yours = "-" if mean is None else digits_of(verdict).text(mean)
    texts = yours, p, reported_text(verdict), ours_text(verdict), verdict.outcome
    return _beside_line(width, _name(verdict, names), *texts)


def _beside_line(width: int, name: str, yours: str, p: str, reported: str, shipped: str, words: str) -> str:
    """Return the columns of `_beside`; a screen narrower than `ROOM_FOR_BOTH` has no room for the interval."""
    size = OURS if width >= ROOM_FOR_BOTH else REPORTED - 1
    shipped = shipped if width >= ROOM_FOR_BOTH else shipped.partition(" [")[0]
    return (
        f"{_cut(name, NAME):<{NAME}} {yours:>{REPORTED}} {p:>{P + 1}} {reported:>{REPORTED}} {shipped:<{size}} {words}"
    )


def _line_of(width: int, name: str, reported: str, ours: str, p: str, words: str) -> str:
    shown = f"{p:>{P}} " * (width >= ROOM_FOR_P)
    return f"{_cut(name, NAME):<{NAME}} {reported:>{REPORTED}} {ours:<{OURS}} {shown}{words}".rstrip()


def _words(one: Verdict | Curve, width: int) -> str:
    if one.outcome == CONFIRMED or width < WIDE:
        return one.outcome  # its meaning is printed below
    if one.outcome == CANNOT_TELL and one.on_scale is not None:
        return f"{one.outcome}; {in_brief(one.on_scale)}"
    return outcome_text(one)


def folded(text: str, width: int) -> str:
    """Return lines of at most `width` characters. The rest of a folded line is indented to the text of its step."""
    lines = (
        textwrap.wrap(line, width, subsequent_indent=" " * STEP, break_on_hyphens=False) for line in text.split("\n")
    )
    return "\n".join("\n".join(line) for line in lines)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def in_short(found: Sequence[Rerun], names: Mapping[str, str]) -> str:
    """Return how many of the user's numbers are like the shipped seeds', and which are not; `names`: by claim."""
    n_like = sum(one.outcome in (SAME, LIKE) for one in found)
    parts = [f"{n_like} of {counted(len(found), 'end result')} like the shipped seeds"]
    for outcome in (UNLIKE, UNTOLD):
        listed = [one.claim for one in found if one.outcome == outcome]
        if listed:
            named = "; ".join(f"{names.get(claim.id, claim.id)} ({claim.source})" for claim in listed)
            parts.append(f"{outcome}: {named}")
    return "; ".join(parts)


def processors(found: Sequence[Rerun]) -> str:
    """Say whether the user's processor made shipped seeds too; '' if it is not known."""
    mine, theirs = (frozenset[str]().union(*(one.processors[side] for one in found)) for side in (0, 1))
    which = "made some of these seeds too" if mine <= theirs else f"is none of theirs ({', '.join(sorted(theirs))})"
    return f"Your processor ({', '.join(sorted(mine))}) {which}." if mine else ""


def like_shipped(one: Rerun) -> str:
    """Return a sentence on one of the user's numbers."""
    values = ", ".join(f"{value:.7g} (seed {seed})" for seed, value in one.own.by_seed.items())
    p = f"{one.outcome}, adjusted p {p_text(one.p_adjusted)}"
    return f"yours: {values}; beside the shipped seeds: {p}. {processors([one])}".rstrip()


def rerun_json(one: Rerun) -> dict[str, object]:
    """Return the comparison as plain values."""
    names = [sorted(made_on) for made_on in one.processors]
    p = one.estimate and one.estimate.p
    found = {"outcome": one.outcome, "p": p, "p_adjusted": one.p_adjusted, "processors": names}
    return {**found, "values": dict(one.own.by_seed), "shipped": dict(one.shipped.by_seed)}


def p_and_mark(one: Rerun) -> str:
    """Return the adjusted p, or that both are the same; "!" marks a number unlike the shipped ones."""
    return "same" if one.outcome == SAME else p_text(one.p_adjusted) + "!" * (one.outcome == UNLIKE)


LABEL = 14  # width of the labels before the text


def own_text(judged: JudgedNumber, width: int) -> str:
    """Return the verdict, then the answers to the rule's questions, in lines of at most `width` characters."""
    longest, indent = max(width, 2 * LABEL), " " * LABEL
    return "\n".join(
        textwrap.fill(text, longest, initial_indent=f"{name:<{LABEL}}", subsequent_indent=indent)
        for name, text in _parts(judged)
    )


def _parts(judged: JudgedNumber) -> list[tuple[str, str]]:
    own, verdict, claim = judged.own, judged.verdict, judged.verdict.claim
    interval, sample, on_scale = print_interval(claim), verdict.sample, verdict.on_scale
    where = f"{judged.key} of {own.approach} {own.recipe}, protocol {own.protocol}"
    parts = [
        ("verdict", outcome_text(verdict)),
        ("your number", f"{claim.printed} {claim.unit}".strip() + f", {claim.precision_kind}: {where}"),
        ("printed alike", f"every number from {interval.low:.8g} to {interval.high:.8g}"),
    ]
    if sample.mean is not None and sample.sd is not None:
        parts.append(("measured", f"{sample.mean:.5g} +- {sample.sd:.2g} ({sample.n} seeds)"))
    if on_scale is not None and on_scale.estimate.has_spread:
        assert verdict.interval is not None, "a verdict on a scale has an interval"
        low, high = verdict.interval
        below, n = (
            on_scale.percentile * on_scale.ours.n / 100,
            on_scale.ours.n,
        )  # a run that prints like the report counts half
        above = f"all {n} of our runs" if below == n else f"{below:.3g} of our {n} runs"
        parts += [
            (
                "one of ours?",
                f"p {on_scale.estimate.p:.2g} that one more run of ours lies at least as far from our mean; "
                f"above {above}",
            ),
            (
                "how sharply?",
                f"one more run of ours: {low:.4g} to {high:.4g} in 95 of 100 cases; shifts below "
                f"{verdict.in_words(on_scale.estimate.resolution(verdict.level))} might not have shown; the margin, "
                f"{claim.margin:.3g}, is {claim.margin_reason}",
            ),
            *([("pooled?", pooling_text(on_scale))] if on_scale.pooled is not None else []),
            (
                "settled by?",
                f"{seeds_that_settle(on_scale)} can settle it: then a run lands within the margin",
            ),
        ]
    lines = against_lines(judged.against) or [f"no alternative to {own.recipe} is known"]
    return [*parts, *(("against what?" if place == 0 else "", line) for place, line in enumerate(lines))]


def own_json(judged: JudgedNumber) -> dict[str, object]:
    """Return the verdict and its numbers as plain values for JSON."""
    verdict, found = judged.verdict, judged.verdict.on_scale
    on_scale = found if found is not None and found.estimate.has_spread else None
    return {
        **dataclasses.asdict(judged.own),
        "key": judged.key,
        "margin": verdict.claim.margin,
        "margin_reason": verdict.claim.margin_reason,
        "values": list(verdict.sample.values),
        "verdict": verdict.outcome,
        "reason": why(verdict),
        "p": on_scale and on_scale.estimate.p,
        "percentile": on_scale and on_scale.percentile,
        "interval": on_scale and verdict.interval,
        "resolution": on_scale and on_scale.estimate.resolution(verdict.level),
        "seeds_to_settle": on_scale and on_scale.seeds_to_settle,
        "own_p": on_scale and on_scale.own_estimate.p,
        "pooled": on_scale and on_scale.pooled and on_scale.pooled._asdict() | {"counts": on_scale.pooled.is_allowed},
        "alternatives": against_json(judged.against),
    }
