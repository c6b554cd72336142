"""The verdicts on Blundell et al. 2015 and its public reproductions."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from bench.core.text import Digits, counted, listed
from bench.judge.ladder.effects import Numbers
from bench.judge.ladder.rungs import MNIST, VARIANT
from bench.judge.ladder.selection import chosen
from bench.judge.results import Results
from bench.judge.samples import Sample
from bench.judge.shorter import records_of
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
from bench.judge.stats.rule import AGREES, ALPHA, COARSE, DIFFERS, ENOUGH
from bench.measure.metrics.epochs import HELD_OUT, TEST
from bench.show.cells import Entry, Measured, Table, make_table
from bench.show.reasoning import p_text

PERCENT = Digits(decimals=2)
QUOTED = "blundell2015.t1.bbb_mixture.1200"  # the number that everybody quotes
SMALL = "blundell2015.t1.bbb_mixture.400"
SHORT_FIT = "+epochs-150"  # the end of the recipe that each open choice changes
LENGTHS = (100, 150, 300)  # epochs, beside the 600 of a whole fit
SHARES = (50, 75, 95, 98)  # percent of the weights that are pruned
MIXTURE, GAUSSIAN = "the scale mixture", "one Gaussian"
OTHERS = {"sgd": "plain SGD", "dropout": "dropout", "bbb_gaussian": GAUSSIAN}
WAYS = {
    "means": "with the network of the means",
    "draws": "with 100 draws averaged",
    "held-out": "at the epoch that held-out images choose",
    "peek": "at the epoch that the test images choose",
}
OUTCOMES = {AGREES: "comes out", DIFFERS: "does not come out", COARSE: "cannot be excluded"}
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
        f"it used. {readings}. Of pruned networks, draws averages 10; so does noisy, which leaves noise of sigma 0.69 "
        "in each removed weight, a public mistake. Numbers of 300 epochs are compared with our fits of 600 after epoch "
        "300. Verdicts: the rule of all verdicts, with p adjusted over the numbers of a source under one reading. The "
        "CSV file has the p-values and names the fits behind each number."
    )
    columns = ["number", "reported", "reading", "ours", "verdict"]
    notes = [can_it_be_reproduced(results), noise_left(results), *_not_run(found)]
    title, lines = "Do the numbers of Blundell et al. 2015 come out?", [_line(one) for one in found]
    return make_table(PAPER, title, caption, columns, rows, notes, lines=lines).of(results, has_spread=False)


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
    """Say whether 1.32 % comes out, then what more epochs give, how methods rank, and what choosing an epoch gives.

    What 400 units say of the paper's number is there until 1200 units have a verdict.
    """
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
    return " ".join([*openings, *_patience(results), *_beside(results), *_gains(results)])


def in_one_line(results: Results) -> str:
    """Say what the network of the means makes of the paper's two best-known errors."""
    verdicts = paper_verdicts(paper_claims(load_papers()), results)
    found = {one.claim.paper.id: one for one in verdicts if one.reading == "means"}
    return " ".join(_short(found[name]) for name in (SMALL, QUOTED))


def _short(one: PaperVerdict) -> str:
    sample = _in_percent(one)
    what = f"{100 * one.claim.paper.value:.2f} % with {_units(one.claim)} units"
    if sample.mean is None:
        return f"{what}: not run yet."
    ours = f"{PERCENT.text(sample.mean)} % with the network of the means"
    if not _has_verdict([one]):
        return f"{what}: open, {_progress(sample.n)} ({ours})."
    near = f"; {_nearest(one)}" if one.verdict.outcome == COARSE else f", {counted(sample.n, 'seed')}"
    return f"{what}: {OUTCOMES[one.verdict.outcome]} ({ours}{near})."


def _has_verdict(mine: Sequence[PaperVerdict]) -> bool:
    return bool(mine) and all(one.verdict.outcome in OUTCOMES for one in mine)


def _progress(n: int) -> str:
    """Say why a number is open; with enough seeds it is so because a further fit has no number."""
    return f"{n} of {counted(ENOUGH, 'seed')} so far" if n < ENOUGH else f"{n} seeds finished, but not every fit did"


def _opening(mine: Sequence[PaperVerdict]) -> str:
    reported, units = f"{100 * mine[0].claim.paper.value:.2f} %", _units(mine[0].claim)
    if not _has_verdict(mine):
        few = min(one.verdict.sample.n for one in mine)
        lowest = [f"{PERCENT.text(min(_in_percent(one).values))} % {WAYS[one.reading]}" for one in mine]
        return f"{reported} with {units} units is open: {_progress(few)}; the lowest error is {', '.join(lowest)}."
    said = []
    for outcome, words in OUTCOMES.items():
        same = [one for one in mine if one.verdict.outcome == outcome]
        if len(same) == len(mine):
            how = "; ".join(f"{WAYS[one.reading]}, {_nearest(one)}" for one in same if outcome == COARSE)
            said.append(f"{words} however it is measured{f': {how}' if how else ''}")
        elif same:
            readings = [WAYS[one.reading] + (f" ({_nearest(one)})" if outcome == COARSE else "") for one in same]
            said.append(f"{words} {' or '.join(readings)}")
    return f"{reported} with {units} units {'; it '.join(said)}.{_alone(mine)}"


def _alone(mine: Sequence[PaperVerdict]) -> str:
    """Say what the adjustment for several numbers decides: a number that would differ if it were the only one."""
    coarse = [one for one in mine if one.verdict.outcome == COARSE]
    alone = [one.verdict.evidence.p for one in coarse if one.verdict.evidence is not None]
    if not alone or min(alone) >= ALPHA:
        return ""
    each = [f"{p_text(p)} {WAYS[one.reading]}" for p, one in zip(alone, coarse, strict=True)]
    adjusted = listed([p_text(one.verdict.p_adjusted) for one in coarse])
    return f" Tested alone, p is {', '.join(each)}. The rule adjusts p for the source's other numbers: {adjusted}."


def _nearest(one: PaperVerdict) -> str:
    """Say how near our nearest seed came, so that a coarse agreement does not read as a reproduction."""
    reported, errors = 100 * one.claim.paper.value, _in_percent(one).values
    if min(errors) <= reported <= max(errors):
        return f"our {len(errors)} seeds lie on both sides"
    side, nearest = ("below", min(errors)) if reported < min(errors) else ("above", max(errors))
    return f"none of {len(errors)} seeds came {side} {PERCENT.text(nearest)} %"


def _patience(results: Results) -> Iterator[str]:
    """Say what the network of the means errs after fewer epochs of the same fits."""
    said = []
    for claim in map(_claims().__getitem__, (QUOTED, SMALL)):
        errors = [*(_errors(claim, results, epochs=length) for length in LENGTHS), _errors(claim, results)]
        change = pair(errors[0], errors[-1])
        if change is not None:
            means = listed([_mean([*one.values()]) for one in errors])
            by = f"last minus first {100 * change.mean:+.2f} points {_interval(change)}"
            said.append(f"{means} % with {_units(claim)} units ({counted(change.n, 'seed')}; {by})")
    if said:
        yield f"After {listed([*map(str, LENGTHS), '600'])} epochs, mistakes are {'; '.join(said)}."


def _beside(results: Results) -> Iterator[str]:
    """Compare the scale mixture with the paper's other methods: errors with the network of the means, per seed."""
    claims = {name: _claims()[f"{PAPER}.t1.{method}.400"] for method, name in OTHERS.items()}
    mixture = _claims()[SMALL]
    own = _errors(mixture, results)
    paired = {name: pair(_errors(claim, results), own) for name, claim in claims.items()}
    whole = {name: one for name, one in paired.items() if one is not None and one.n >= ENOUGH}
    if not whole:
        return
    values = {name: claims[name].paper.value for name in whole}
    errors = [f"{name} {_mean(one.before)} and {100 * values[name]:.2f} %" for name, one in whole.items()]
    yield f"Mistakes of the other methods with 400 units, ours and the paper's: {'; '.join(errors)}."
    reported = {name: mixture.paper.value - value for name, value in values.items()}
    turned = [name for name, one in whole.items() if one.excludes_zero and one.mean * reported[name] < 0]
    if turned:
        yield (
            f"With {' and '.join(turned)}, beside the scale mixture, the order is the opposite of the paper's, beyond "
            "chance (paired by seed; the ladder has the intervals)."
        )
    yield from _held_out({MIXTURE: mixture, **{name: claims[name] for name in whole}}, results)


def _held_out(claims: Mapping[str, PaperClaim], results: Results) -> Iterator[str]:
    """Rank methods by the error on held-out images, and say which prior a choice by this error takes."""
    errors = {name: tuple(_errors(claim, results, HELD_OUT).values()) for name, claim in claims.items()}
    if not all(errors.values()):
        return
    order = sorted(errors, key=lambda name: statistics.fmean(errors[name]))
    first, *others = [name for name in order if name in (MIXTURE, GAUSSIAN)]
    best = f"; so the best reading by this error takes {first} and not {others[0]}" if others else ""
    yield f"On held-out images the order is {', '.join(f'{name} {_mean(errors[name])} %' for name in order)}{best}."


def _gains(results: Results) -> Iterator[str]:
    """Say what choosing an epoch changes, over all finished fits of the paper's methods."""
    keys = [f"mnist/{TEST}/{READINGS[reading][0]}" for reading in ("means", "held-out", "peek")]
    found = [[record.metrics.get(key) for key in keys] for record in results.records]
    rows = [[error for error in errors if error is not None] for errors in found if None not in errors]
    if len(rows) > 1:
        last, *chosen = zip(*rows, strict=True)
        held_out, peek = (Paired(tuple(range(len(rows))), last, errors) for errors in chosen)
        yield (
            f"Choosing the epoch on held-out images changes the error by {100 * held_out.mean:+.2f} points "
            f"{_interval(held_out)}, choosing it on the test images by {100 * peek.mean:+.2f} {_interval(peek)} "
            f"({len(rows)} fits)."
        )


def worth_of_choices(results: Results) -> str:
    """Say how choices that the paper leaves open change the error after 150 epochs, and which fits diverged."""
    (ladder,) = chosen(("blundell_bbb",))
    numbers = Numbers(results, ())
    changed: dict[str, Paired] = {}
    diverged = []
    for rung in ladder.rungs:
        before, after = rung.numbers[MNIST, "error"]
        if rung.kind != VARIANT or not before.recipe.endswith(SHORT_FIT) or after.recipe.count("epochs-") > 1:
            continue
        finite, gaps = numbers.by_seed(after)
        lost = sum(gap.code == "diverged" for gap in gaps)
        paired = numbers.effect(before, after).paired
        if lost:
            diverged.append(f"{lost} of {lost + len(finite)} with {rung.title}")
        elif paired is not None and paired.interval is not None:
            changed[rung.title] = paired
    said = [*_changes(changed), *([f"Fits that diverged: {'; '.join(diverged)}."] if diverged else [])]
    return " ".join(said) or f"The choices that the paper leaves open have not run yet: {COMMANDS}."


def _changes(changed: Mapping[str, Paired]) -> Iterator[str]:
    """Say how much each change alone adds to the error, the least first, and whether one lowers it."""
    counts = {one.n for one in changed.values()}
    each = [
        f"{title} {100 * one.mean:+.2f} {_interval(one)}{'' if len(counts) == 1 else f' ({one.n} seeds)'}"
        for title, one in sorted(changed.items(), key=lambda item: item[1].mean)
    ]
    if each:
        n = f" ({counts.pop()} seeds each)" if len(counts) == 1 else ""
        yield f"Error on test images, in points, by one change at a time{n}: {'; '.join(each)}."
        if not any(one.excludes_zero and one.mean < 0 for one in changed.values()):
            yield "None of these changes lowers the error beyond chance."


def noise_left(results: Results) -> str:
    """Say what pruning costs if the removed weights keep their noise, as in a public attempt."""
    found = {(one.claim.paper.id, one.reading): one for one in paper_verdicts([*_claims().values()], results)}
    clean, noisy = (
        [_in_percent(found[f"{PAPER}.t2.pruned{share}", reading]) for share in SHARES] for reading in ("draws", "noisy")
    )
    if not all(sample.n for sample in (*clean, *noisy)):
        return f"Pruning has not run yet: {COMMANDS}."
    theirs = [f"{100 * found[f'saxena-mayur.pruned{share}', 'noisy'].claim.paper.value:.3g}" for share in SHARES]
    with_noise, without = (listed([f"{sample.mean:.{n}f}" for sample in ours]) for ours, n in ((noisy, 1), (clean, 2)))
    return (
        f"With {listed([*map(str, SHARES)])} % of the weights of 1200 units removed, mistakes are {without} %; where "
        f"the removed weights keep their noise, {with_noise} % ({counted(noisy[0].n, 'seed')}, 10 draws averaged). "
        f"saxena-mayur, whose code leaves it, reports {listed(theirs)} %."
    )


def hours(results: Results) -> str:
    """Say how long whole fits took, on machines that often had other work."""
    said = []
    for method, name in {**OTHERS, "bbb_mixture": MIXTURE}.items():
        for units in (400, 1200):
            claim = _claims()[f"{PAPER}.t1.{method}.{units}"]
            records = records_of(results, claim.approach, claim.recipe, "published")
            taken = [one.timings.fit_s / 3600 for one in records if one.outcome == "done" and one.timings.fit_s]
            if taken:
                said.append(f"{name} with {units} units {statistics.median(taken):.1f} ({counted(len(taken), 'fit')})")
    return f"Median hours of a whole fit: {'; '.join(said)}." if said else f"Not timed yet: {COMMANDS}."


def _claims() -> dict[str, PaperClaim]:
    return {one.paper.id: one for one in paper_claims(load_papers())}


def _errors(claim: PaperClaim, results: Results, split: str = TEST, epochs: int | None = None) -> dict[int, float]:
    """Return the error of the network of the means after the last epoch, or after fewer, by seed."""
    recipe = claim.recipe if epochs is None else f"{claim.recipe}+epochs-{epochs}"
    records = records_of(results, claim.approach, recipe, "published")
    return {one.seed: error for one in records if (error := one.metrics.get(f"mnist/{split}/error")) is not None}


def _units(claim: PaperClaim) -> str:
    return claim.paper.network.split("-")[1]


def _mean(errors: Sequence[float]) -> str:
    return PERCENT.text(100 * statistics.fmean(errors))


def _interval(paired: Paired) -> str:
    return "[{:+.2f}, {:+.2f}]".format(*(100 * end for end in paired.interval or (0.0, 0.0)))
