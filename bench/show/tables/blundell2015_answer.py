"""Can the error of 1.32 % of Blundell et al. 2015 be reproduced? Our errors, verdicts, and sentences."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from bench.core.text import Digits, counted, listed
from bench.judge.comparison import ALPHA, CANNOT_TELL, CONFIRMED, CONTRADICTED, ENOUGH, Estimate, paired
from bench.judge.flatness import records_of
from bench.judge.results import Results
from bench.judge.samples import Samples
from bench.judge.stats.papers import (
    INTERPRETATIONS,
    PAPER,
    PaperClaim,
    PaperVerdict,
    load_papers,
    paper_claims,
    paper_verdicts,
)
from bench.measure.metrics.epochs import HELD_OUT, TEST
from bench.show.reasoning import p_text
from bench.show.tables.blundell2015_objective import in_short as objective_in_short
from bench.show.tables.blundell2015_objective import objective

PERCENT = Digits(decimals=2)
COMMANDS = "docs/blundell2015.md has the commands"
MIXTURE, GAUSSIAN = "the scale mixture", "one Gaussian"
OTHERS = {"sgd": "plain SGD", "dropout": "dropout", "bbb_gaussian": GAUSSIAN}


def claims_by_id() -> dict[str, PaperClaim]:
    """Return every number of the paper and of its public reproductions."""
    return {one.paper.id: one for one in paper_claims(load_papers())}


@lru_cache(maxsize=1)  # the table and three findings ask for it
def verdicts_on_paper(results: Results) -> list[PaperVerdict]:
    """Return the verdict on every number of the paper and of its public reproductions, under every interpretation."""
    return paper_verdicts(paper_claims(load_papers()), results)


def errors_by_seed(
    claim: PaperClaim, results: Results, split: str = TEST, epochs: int | None = None
) -> dict[int, float]:
    """Return the error of the network of the means after the last epoch, or after fewer, by seed."""
    recipe = claim.recipe if epochs is None else f"{claim.recipe}+epochs-{epochs}"
    records = records_of(results, claim.approach, recipe, "published")
    return {one.seed: error for one in records if (error := one.metrics.get(f"mnist/{split}/error")) is not None}


def in_percent(one: PaperVerdict) -> Samples:
    """Return the errors of all seeds in percent. The table and the sentences round this mean, so that they agree."""
    return one.verdict.sample.converted(lambda value: 100 * value)


def units_of(claim: PaperClaim) -> str:
    """Return the number of units of a hidden layer."""
    return claim.paper.network.split("-")[1]


def mean_text(errors: Sequence[float]) -> str:
    """Return the mean in percent."""
    return PERCENT.text(100 * statistics.fmean(errors))


def interval_text(found: Estimate) -> str:
    """Return the 95 % interval of a mean difference, in points."""
    return "[{:+.2f}, {:+.2f}]".format(*(100 * end for end in found.interval() or (0.0, 0.0)))


QUOTED = "blundell2015.t1.bbb_mixture.1200"  # the number that everybody quotes
SMALL = "blundell2015.t1.bbb_mixture.400"
LENGTHS = (100, 150, 300)  # epochs, beside the 600 of a whole fit
WAYS = {
    "means": "with the network of the means",
    "draws": "with 100 draws averaged",
    "held-out": "at the epoch that held-out images choose",
    "last-100": "on average over the last 100 epochs",
    "peek": "at the epoch that the test images choose",
}
OUTCOMES = (CONFIRMED, CONTRADICTED, CANNOT_TELL)


def can_it_be_reproduced(results: Results) -> list[str]:
    """Return whether the objective has converged and 1.32 % comes out, then sentences on epochs and other methods.

    Until 1200 units have a verdict, the first sentence says in full whether the paper's error with 400 units comes out.
    After that, a short sentence says so.
    """
    found = verdicts_on_paper(results)
    quoted, small = (
        [one for one in found if one.claim.paper.id == claim_id and one.verdict.sample.n]
        for claim_id in (QUOTED, SMALL)
    )
    if not (quoted or small):
        return [f"Not run yet: {COMMANDS}."]
    openings = [_opening(quoted) if quoted else "1.32 % is open: the network of 1200 units has not run yet."]
    if small and not _has_verdict(quoted):
        openings.append(_opening(small))
    also = [_short(small)] if small and _has_verdict(quoted) else []
    return [
        *objective(results),
        " ".join(openings),
        *also,
        *_more_epochs(results),
        *_other_methods(results),
        *_choosing_an_epoch(results),
    ]


def in_one_line(results: Results) -> str:
    """Say whether the paper's errors with 400 and 1200 units come out: with the network of the means, and otherwise."""
    verdicts = verdicts_on_paper(results)
    numbers = [_short([one for one in verdicts if one.claim.paper.id == name]) for name in (SMALL, QUOTED)]
    return " ".join(filter(None, [objective_in_short(results), *numbers]))


def _short(mine: Sequence[PaperVerdict]) -> str:
    (one,) = (each for each in mine if each.interpretation == "means")
    sample = in_percent(one)
    what = f"{100 * one.claim.paper.value:.2f} % with {units_of(one.claim)} units"
    if sample.mean is None:
        return f"{what}: not run yet."
    ours = f"{PERCENT.text(sample.mean)} % with the network of the means"
    if not _has_verdict([one]):
        return f"{what}: open, {_progress(sample.n)} ({ours})."
    near = f"; {_nearest(one)}" if one.verdict.outcome == CANNOT_TELL else f", {counted(sample.n, 'seed')}"
    unlike = [each for each in mine if each.verdict.outcome != one.verdict.outcome and _has_verdict([each])]
    ways = [f"{WAYS[each.interpretation]}: {each.verdict.outcome}" for each in unlike]
    return f"{'; '.join([f'{what}: {one.verdict.outcome} ({ours}{near})', *ways])}."


def _has_verdict(mine: Sequence[PaperVerdict]) -> bool:
    return bool(mine) and all(one.verdict.outcome in OUTCOMES for one in mine)


def _progress(n: int) -> str:
    """Say why a number is open: too few seeds, or, with enough of them, a further fit without a number."""
    return f"{n} of {counted(ENOUGH, 'seed')} so far" if n < ENOUGH else f"{n} seeds finished, but not every fit did"


def _opening(mine: Sequence[PaperVerdict]) -> str:
    reported, units = f"{100 * mine[0].claim.paper.value:.2f} %", units_of(mine[0].claim)
    if not _has_verdict(mine):
        few = min(one.verdict.sample.n for one in mine)
        lowest = [f"{PERCENT.text(min(in_percent(one).values))} % {WAYS[one.interpretation]}" for one in mine]
        return f"{reported} with {units} units is open: {_progress(few)}; the lowest error is {', '.join(lowest)}."
    said, near = [], _how_near(mine)
    for outcome in OUTCOMES:
        ways = [one.interpretation for one in mine if one.verdict.outcome == outcome]
        if len(ways) == len(mine):
            how = "; ".join(f"{WAYS[way]}, {near[way]}" for way in ways if outcome == CANNOT_TELL)
            said.append(f"{outcome} however it is measured{f': {how}' if how else ''}")
        elif ways:
            how = " or ".join(WAYS[way] + (f" ({near[way]})" if outcome == CANNOT_TELL else "") for way in ways)
            said.append(f"{outcome} {how}")
    meaning = " Alone: as if it were the paper's only number; adjusted: for its other numbers."
    return f"{reported} with {units} units: {'; '.join(said)}.{meaning if _adjustment_decides(mine) else ''}"


def _how_near(mine: Sequence[PaperVerdict]) -> dict[str, str]:
    """Say for each interpretation how near our seeds came, with p if the adjustment decides under one or more."""
    alone = _alone(mine) if _adjustment_decides(mine) else {}
    near = {}
    for one in mine:
        p = alone.get(one.interpretation)
        said = "" if p is None else f", p {p_text(p)} alone and {p_text(one.verdict.p_adjusted)} adjusted"
        near[one.interpretation] = f"{_nearest(one)}{said}"
    return near


def _adjustment_decides(mine: Sequence[PaperVerdict]) -> bool:
    """Return whether the number, alone in its source, would be contradicted under some interpretation."""
    return min(_alone(mine).values(), default=1) < ALPHA


def _alone(mine: Sequence[PaperVerdict]) -> dict[str, float]:
    """Return the unadjusted p of each interpretation under which no single run can tell."""
    found = {one.interpretation: one.verdict.on_scale for one in mine if one.verdict.outcome == CANNOT_TELL}
    return {interpretation: one.estimate.p for interpretation, one in found.items() if one is not None}


def _nearest(one: PaperVerdict) -> str:
    """Say how near our nearest seed came, so that an open number does not read as a reproduction."""
    reported, errors = 100 * one.claim.paper.value, in_percent(one).values
    if min(errors) <= reported <= max(errors):
        return f"our {len(errors)} seeds lie on both sides"
    side, nearest = ("below", min(errors)) if reported < min(errors) else ("above", max(errors))
    return f"none of {len(errors)} seeds came {side} {PERCENT.text(nearest)} %"


def _more_epochs(results: Results) -> Iterator[str]:
    """Say the error of the network of the means after `LENGTHS` and after all epochs of the same fits."""
    said = []
    for claim in map(claims_by_id().__getitem__, (QUOTED, SMALL)):
        errors = [
            *(errors_by_seed(claim, results, epochs=length) for length in LENGTHS),
            errors_by_seed(claim, results),
        ]
        change = paired(errors[0], errors[-1])
        if change is not None and all(errors):
            means = listed([mean_text([*one.values()]) for one in errors])
            by = f"last minus first {100 * change.difference:+.2f} points {interval_text(change)}"
            said.append(f"{means} % with {units_of(claim)} units ({counted(change.n, 'seed')}; {by})")
    if said:
        yield f"After {listed([*map(str, LENGTHS), '600'])} epochs, mistakes are {'; '.join(said)}."


def _other_methods(results: Results) -> Iterator[str]:
    """Compare the scale mixture with the paper's other methods: errors with the network of the means, per seed."""
    claims = {name: claims_by_id()[f"{PAPER}.t1.{method}.400"] for method, name in OTHERS.items()}
    mixture = claims_by_id()[SMALL]
    own = errors_by_seed(mixture, results)
    found = {name: paired(errors_by_seed(claim, results), own) for name, claim in claims.items()}
    whole = {name: one for name, one in found.items() if one is not None and one.n >= ENOUGH}
    if not whole:
        return
    values = {name: claims[name].paper.value for name in whole}
    errors = [f"{name} {mean_text(one.first.values)} and {100 * values[name]:.2f} %" for name, one in whole.items()]
    yield f"Mistakes of the other methods with 400 units, ours and the paper's: {'; '.join(errors)}."
    reported = {name: mixture.paper.value - value for name, value in values.items()}
    turned = [name for name, one in whole.items() if one.excludes_zero and one.difference * reported[name] < 0]
    if turned:
        yield (
            f"With {' and '.join(turned)}, beside the scale mixture, the order is the opposite of the paper's, beyond "
            "chance (paired by seed; the ablation has the intervals)."
        )
    yield from _held_out({MIXTURE: mixture, **{name: claims[name] for name in whole}}, results)


def _held_out(claims: Mapping[str, PaperClaim], results: Results) -> Iterator[str]:
    """Rank methods by the error on held-out images, and say which prior a choice by this error takes."""
    errors = {name: tuple(errors_by_seed(claim, results, HELD_OUT).values()) for name, claim in claims.items()}
    if not all(errors.values()):
        return
    order = sorted(errors, key=lambda name: statistics.fmean(errors[name]))
    first, *others = [name for name in order if name in (MIXTURE, GAUSSIAN)]
    best = f"; so a choice of the prior by this error takes {first} and not {others[0]}" if others else ""
    yield f"On held-out images the order is {', '.join(f'{name} {mean_text(errors[name])} %' for name in order)}{best}."


def _choosing_an_epoch(results: Results) -> Iterator[str]:
    """Say by how much choosing an epoch changes the error, over all finished fits of the paper's methods."""
    keys = [f"mnist/{TEST}/{INTERPRETATIONS[interpretation][0]}" for interpretation in ("means", "held-out", "peek")]
    found = [[record.metrics.get(key) for key in keys] for record in results.records]
    rows = [[error for error in errors if error is not None] for errors in found if None not in errors]
    if len(rows) > 1:
        last, *chosen = (dict(enumerate(errors)) for errors in zip(*rows, strict=True))
        changes = (paired(last, errors) for errors in chosen)
        held_out, peek = (f"{100 * one.difference:+.2f}{{}} {interval_text(one)}" for one in changes if one)
        yield (
            f"Choosing the epoch on held-out images changes the error by {held_out.format(' points')}, choosing it on "
            f"the test images by {peek.format('')} ({len(rows)} fits)."
        )
