"""The verdicts on Blundell et al. 2015 and its public reproductions, and the sentence that sums them up."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from bench.core.text import Digits, counted
from bench.judge.results import Results
from bench.judge.samples import Sample
from bench.judge.stats.paired import Paired, pair
from bench.judge.stats.papers import (
    OBTAINED,
    PAPER,
    READINGS,
    PaperClaim,
    PaperVerdict,
    load_papers,
    paper_claims,
    paper_verdicts,
)
from bench.judge.stats.rule import AGREES, COARSE, DIFFERS, ENOUGH
from bench.show.cells import Entry, Measured, Table, make_table

PERCENT = Digits(decimals=2)
QUOTED = "blundell2015.t1.bbb_mixture.1200"  # the number that everybody quotes
SMALL = "blundell2015.t1.bbb_mixture.400"
PLACE = "mnist/test10k"
OTHERS = {"sgd": "plain SGD", "dropout": "dropout", "bbb_gaussian": "one Gaussian"}
WAYS = {
    "means": "with the network of the means",
    "draws": "with 100 draws averaged",
    "held-out": "at the epoch that held-out images choose",
    "peek": "at the epoch that the test images choose",
}
COMMANDS = "docs/blundell2015.md has the commands"
MARKS = {"read": "", "secondary": " s", "unchecked": " m"}


def blundell_table(results: Results) -> Table:
    """Return a row for each number and reading that was measured, and a note that counts the numbers that were not."""
    found = paper_verdicts(paper_claims(load_papers()), results)
    rows = [_row(one) for one in found if one.verdict.sample.n]
    marks = "; ".join(f"{mark.strip()}: {OBTAINED[name]}" for name, mark in MARKS.items() if mark)
    readings = "; ".join(f"{name}: {text}" for name, (_, text) in READINGS.items())
    caption = (
        "Errors on the 10,000 test images in percent: the reported number and ours, mean +- standard deviation (number "
        f"of seeds). t1, t2: the paper's tables. {marks}. A reading is a way to measure; the paper does not say which "
        f"it used. {readings}. Verdicts: the rule of all verdicts, with p adjusted over the numbers of a source under "
        "one reading. The CSV file has the p-values and names the fits behind each number."
    )
    columns = ["number", "reported", "reading", "ours", "verdict"]
    notes = [can_it_be_reproduced(results), *_not_run(found)]
    return make_table(
        PAPER,
        "Do the numbers of Blundell et al. 2015 come out?",
        caption,
        columns,
        rows,
        notes,
        conditions=results.describe(spread=False) if results.records else "No records.",
        origin=results.origin(),
        lines=[_line(one) for one in found],
    )


def _not_run(found: Sequence[PaperVerdict]) -> Iterator[str]:
    """Say of how many numbers of each source no fit was measured."""
    missing: dict[str, list[bool]] = {}
    for _, mine in groupby(found, key=lambda one: one.claim.paper.id):
        verdicts = list(mine)
        missing.setdefault(verdicts[0].claim.source, []).append(not any(one.verdict.sample.n for one in verdicts))
    counts = [f"{sum(flags)} of {len(flags)} of {source}" for source, flags in missing.items() if any(flags)]
    if counts:
        yield f"Numbers without a finished fit: {', '.join(counts)}. The CSV file names the fits; {COMMANDS}."


def _row(one: PaperVerdict) -> list[Entry]:
    paper = one.claim.paper
    reported = f"{PERCENT.text(100 * paper.value)}{MARKS[paper.obtained]}"
    name = paper.id.removeprefix(f"{PAPER}.")
    return [name, reported, one.reading, Measured(_in_percent(one), PERCENT), one.verdict.outcome]


def _in_percent(one: PaperVerdict) -> Sample:
    """Return the errors of all seeds in percent; table and sentence round the same mean."""
    sample = one.verdict.sample
    return replace(sample, values=tuple(100 * value for value in sample.values))


def _line(one: PaperVerdict) -> dict[str, str | float | None]:
    """Return what the CSV file has of a number under a reading: also the fits that it is compared with."""
    verdict = one.verdict
    low, high = verdict.interval or (None, None)
    return {
        "number": one.claim.paper.id,
        "obtained": one.claim.paper.obtained,
        "approach": one.claim.approach,
        "recipe": one.claim.recipe,
        "reading": one.reading,
        "reported": one.claim.paper.value,
        "ours": verdict.sample.mean,
        "sd": verdict.sample.sd,
        "n": verdict.sample.n,
        "low": low,
        "high": high,
        "p": verdict.p_adjusted,
        "verdict": verdict.outcome,
    }


def can_it_be_reproduced(results: Results) -> str:
    """Say whether 1.32 % comes out and under which readings; what 400 units say too, until 1200 have a verdict."""
    found = paper_verdicts(paper_claims(load_papers()), results)
    quoted, small = (
        [one for one in found if one.claim.paper.id == claim_id and one.verdict.sample.n]
        for claim_id in (QUOTED, SMALL)
    )
    if not (quoted or small):
        return f"Not run yet: {COMMANDS}."
    openings = [_opening(quoted) if quoted else "1.32 % is open: the network of 1200 units has not run yet."]
    if small and not _has_verdict(quoted):
        openings.append(_opening(small))
    return " ".join([*openings, *_beside(results), *_gains(results)])


def _has_verdict(mine: Sequence[PaperVerdict]) -> bool:
    return bool(mine) and all(one.verdict.sample.n >= ENOUGH for one in mine)


def _beside(results: Results) -> Iterator[str]:
    """Compare the scale mixture with the paper's other methods: errors with the network of the means, per seed."""
    claims = {one.paper.id: one for one in paper_claims(load_papers())}
    mixture = claims[SMALL]
    own = _errors(mixture, results)
    others = {name: claims[f"{PAPER}.t1.{method}.400"] for method, name in OTHERS.items()}
    paired = {name: pair(_errors(claim, results), own) for name, claim in others.items()}
    whole = {name: one for name, one in paired.items() if one is not None and one.n >= ENOUGH}
    if not whole:
        return
    reported = {name: mixture.paper.value - others[name].paper.value for name in whole}
    errors = [_both("the scale mixture", own.values(), mixture)]
    errors += [_both(name, one.before, others[name]) for name, one in whole.items()]
    yield f"Mistakes with the network of the means, ours and the paper's: {'; '.join(errors)}."
    changes = [
        f"{name} {100 * one.mean:+.2f} {_interval(one)} (in the paper {100 * reported[name]:+.2f})"
        for name, one in whole.items()
    ]
    yield f"The scale mixture minus each, paired by seed, with the 95 % interval, in points: {'; '.join(changes)}."
    turned = [name for name, one in whole.items() if one.excludes_zero and one.mean * reported[name] < 0]
    if turned:
        yield f"With {' and '.join(turned)}, the order is the opposite of the paper's."


def _both(name: str, errors: Iterable[float], claim: PaperClaim) -> str:
    return f"{name} {100 * statistics.fmean(errors):.2f} and {100 * claim.paper.value:.2f} %"


def _interval(paired: Paired) -> str:
    """Return the 95 % interval in points."""
    return "[{:+.2f}, {:+.2f}]".format(*(100 * end for end in paired.interval or (0.0, 0.0)))


def _errors(claim: PaperClaim, results: Results) -> dict[int, float]:
    """Return the error of the network of the means after the last epoch, by seed."""
    key = f"{PLACE}/{READINGS['means'][0]}"
    records = results.cell(claim.approach, claim.recipe, "published")
    return {one.seed: error for one in records if (error := one.metrics.get(key)) is not None}


def _gains(results: Results) -> Iterator[str]:
    """Say what choosing an epoch changes, over all finished fits of the paper's methods."""
    last = READINGS["means"][0]
    for reading, choice in (("held-out", "on held-out images"), ("peek", "on the test images")):
        pairs = [
            (before, after)
            for record in results.records
            if (before := record.metrics.get(f"{PLACE}/{last}")) is not None
            and (after := record.metrics.get(f"{PLACE}/{READINGS[reading][0]}")) is not None
        ]
        if len(pairs) > 1:
            paired = Paired(tuple(range(len(pairs))), *map(tuple, zip(*pairs, strict=True)))
            yield (
                f"Choosing the epoch {choice} changes the error by {100 * paired.mean:+.2f} points "
                f"{_interval(paired)} ({len(pairs)} fits)."
            )


def _opening(mine: Sequence[PaperVerdict]) -> str:
    reported, units = f"{100 * mine[0].claim.paper.value:.2f} %", mine[0].claim.paper.network.split("-")[1]
    if not _has_verdict(mine):
        few = min(one.verdict.sample.n for one in mine)
        means = {one.reading: _in_percent(one).mean or 0 for one in mine}
        errors = [f"{PERCENT.text(mean)} % {WAYS[reading]}" for reading, mean in means.items()]
        return (
            f"{reported} with {units} units is open: it needs {counted(ENOUGH, 'seed')}, and {few} "
            f"{'has' if few == 1 else 'have'} finished. So far, mistakes are {', '.join(errors)}."
        )
    said = []
    for outcome, words in (
        (AGREES, "comes out"),
        (COARSE, "could be one of our runs"),
        (DIFFERS, "does not come out"),
    ):
        readings = [WAYS[one.reading] for one in mine if one.verdict.outcome == outcome]
        if readings:
            said.append(f"{words} {' or '.join(readings) if len(readings) < len(mine) else 'however it is measured'}")
    return f"{reported} with {units} units {'; it '.join(said)}."
