"""How likely each end result is under the published recipe and under other recipes: as a table and in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bench.core.text import FRACTION, SIX, counted
from bench.judge.alternatives.named import CORRECTED, CORRECTION
from bench.judge.alternatives.weighing import (
    COMMON,
    FAR,
    FAR_OUTSIDE,
    FEW_SEEDS,
    HALF,
    NOT_MEASURED,
    OVERWHELMING,
    Against,
    Weighed,
    against,
)
from bench.judge.claims import Claim
from bench.judge.comparison import ENOUGH
from bench.judge.results import Results
from bench.judge.samples import MissingValue
from bench.judge.stats.rule import Verdict
from bench.judge.stats.verdicts import Judgement, end_results
from bench.show.reasoning import NAME_WIDTH, explain
from bench.show.table import Entry, Linked, Measured, Missing, Table, of_claim
from bench.show.tables.verdicts import LONGEST_PRINT

COLUMNS = ("claim", "reported", "alternative", "protocol", "as published", "as alternative", "shared", "ratio")
CAPTION = (
    "Each end result, beside other recipes that it could have come from. +NAME: the published "
    "recipe with that change. Two columns of our seeds, by the same protocol: as published, and as the "
    "alternative. If column protocol says common, the document measured its number by another protocol. Shared: "
    "overlap of the two t distributions for one more run; 1 if they are the same. Ratio: how many times likelier the "
    f"reported number is under the published recipe. Far outside: more than {FAR:g} standard deviations from the "
    f"alternative's mean, too far for a ratio from so few seeds. Few seeds: fewer than {ENOUGH}."
)


def end_results_against(results: Results, claims: Iterable[Claim]) -> list[Against]:
    """Return the alternatives to each end result."""
    return [against(claim, results) for claim in end_results(claims)]


def alternatives_table(results: Results, found: Sequence[Against]) -> Table:
    """Return a row for each claim and alternative."""
    lines = [_line(mine, one) for mine in found for one in mine.found]
    remarks = [f"{mine.claim.id}: {said}" for mine in found for said in sentences(mine)]
    title = "Against what: which recipes a reported number tells apart"
    return Table("alternatives", title, CAPTION, COLUMNS, lines, remarks).of(results)


def _line(mine: Against, one: Weighed) -> list[Entry]:
    claim, here = mine.claim, (of_claim(mine.claim.id),)
    digits = FRACTION if claim.unit == "fraction" else SIX
    missing_value = Missing(MissingValue("not measured", one.reason))
    is_known = one.finding != NOT_MEASURED
    return [
        Linked(claim.id, here),
        Linked(claim.printed if len(claim.printed) <= LONGEST_PRINT else SIX.text(claim.value), here),
        _recipe(mine, one),
        one.protocol if is_known else None,
        Measured(one.published, digits) if is_known else None,
        Measured(one.measured, digits) if is_known else missing_value,
        None if one.shared is None else f"{one.shared:.2f}",
        ratio_text(one) if is_known else None,
    ]


def _recipe(mine: Against, one: Weighed) -> str:
    """Return an alternative's recipe in short, after its approach if that is not the claim's."""
    recipe = one.alternative.recipe
    short = recipe.removeprefix("published") or recipe
    return short if one.alternative.approach == mine.claim.approach else f"{one.alternative.approach} {short}"


def ratio_text(one: Weighed) -> str:
    """Return a ratio with two digits. Of one beyond `OVERWHELMING`, return the bound: the seeds do not tell more."""
    if one.finding in (FAR_OUTSIDE, FEW_SEEDS) or one.ratio is None:
        return one.finding
    if one.ratio > OVERWHELMING:
        return f">{OVERWHELMING:.0f}"
    if one.ratio < 1 / OVERWHELMING:
        return f"<1/{OVERWHELMING:.0f}"
    if one.ratio < 0.1:
        return f"1/{1 / one.ratio:.2g}"
    return f"{one.ratio:.2g}" if one.ratio < 100 else f"{one.ratio:.0f}"


def sentences(mine: Against) -> list[str]:
    """Return from which recipes a claim can hardly come, or that it tests nothing."""
    if mine.tests_nothing:
        return [
            "this number tests nothing: its recipe and every alternative that was measured would give much the same "
            f"numbers (they share more than {HALF:.0%})"
        ]
    return [_hardly(mine, one) for one in mine.hardly_from]


def _hardly(mine: Against, one: Weighed) -> str:
    kind = one.alternative.kind
    recipe = "our corrected recipe" if kind == CORRECTED else _recipe(mine, one)
    so = {CORRECTED: "a run without the mistake", CORRECTION: "a run with this correction"}.get(kind, "it")
    seeds = counted(one.measured.n, "seed")
    caution = "; both recipes are measured by the common protocol here, the report was not" * (one.protocol == COMMON)
    return (
        f"{mine.claim.printed} is over {OVERWHELMING:.0f} times less likely under {recipe} ({seeds}): "
        f"the report can hardly have come from {so}{caution}"
    )


def in_brief(found: Iterable[Against], names: Mapping[str, str]) -> list[str]:
    """Return two lines for many claims: which can hardly come from the corrected recipe, and which test nothing.

    `names`: short names by the id of the claim.
    """
    hardly, nothing = [], []
    for mine in found:
        name = names.get(mine.claim.id, mine.claim.id)
        corrected = [one for one in mine.hardly_from if one.alternative.kind == CORRECTED]
        hardly += [f"{name} (common protocol)" if one.protocol == COMMON else name for one in corrected]
        if mine.tests_nothing:
            nothing.append(name)
    parts = [
        (f"Over {OVERWHELMING:.0f} times less likely under our corrected recipe", hardly),
        ("Every alternative gives these numbers about as often, so they test nothing", nothing),
    ]
    return [f"{said}: {'; '.join(some)}." for said, some in parts if some]


def explained(judgement: Judgement, results: Results, verdict: Verdict, with_curve: bool = True) -> str:
    """Return how one claim came to its verdict, then its alternatives; for a point of a curve, no alternatives.

    `with_curve`: see `explain`.
    """
    lines = [] if verdict.is_point else against_lines(against(verdict.claim, results))
    return "\n".join(
        [explain(judgement, verdict, with_curve), *(f"  {'against':<{NAME_WIDTH}} {line}" for line in lines)]
    )


def against_lines(mine: Against) -> list[str]:
    """Return the alternatives of one claim as lines to print below its verdict."""
    lines = [f"{_recipe(mine, one)}: {_in_words(one)}" for one in mine.found]
    meaning = (
        "ratio: how many times likelier the number is under its own recipe than under the alternative; shared: overlap "
        "of the two distributions, 1 if they are the same"
    )
    return [*([meaning] if lines else []), *lines, *sentences(mine)]


def _in_words(one: Weighed) -> str:
    if one.finding == NOT_MEASURED:
        return f"not measured ({one.reason})"
    in_words = {FAR_OUTSIDE: FAR_OUTSIDE, FEW_SEEDS: f"{one.measured.n} seeds are too few for a ratio"}
    said = in_words.get(one.finding, f"ratio {ratio_text(one)}")
    mean, sd = one.measured.mean, one.measured.sd
    gives = f"it gives {mean:.4g} +- {sd:.2g} ({one.measured.n}) by protocol {one.protocol}"
    return f"{said}; {gives}, shared {one.shared:.2f}"


def against_json(mine: Against) -> list[dict[str, object]]:
    """Return the alternatives of one claim for machines."""
    return [
        {
            "alternative": one.alternative.name,
            "kind": one.alternative.kind,
            "protocol": one.protocol,
            "finding": one.finding,
            "ratio": one.ratio,
            "shared": one.shared,
            "published": list(one.published.values),
            "values": list(one.measured.values),
            "reason": one.reason,
        }
        for one in mine.found
    ]
