"""The verdicts on Blundell et al. 2015, and sentences on its open choices and on pruning that keeps noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from bench.core.text import counted, listed
from bench.judge.ablation.definition import chosen
from bench.judge.ablation.effects import Numbers
from bench.judge.ablation.single_changes import MNIST, VARIANT
from bench.judge.comparison import Estimate
from bench.judge.results import Results
from bench.judge.stats.papers import INTERPRETATIONS, OBTAINED, PAPER, PaperVerdict
from bench.show.table import Entry, Measured, Table
from bench.show.tables.blundell2015_answer import (
    COMMANDS,
    PERCENT,
    can_it_be_reproduced,
    in_percent,
    interval_text,
    verdicts_on_paper,
)
from bench.show.tables.blundell2015_objective import FLAT, flatness_lines

MARKS = {"read": "", "secondary": " s", "unchecked": " m"}


def blundell_table(results: Results) -> Table:
    """Return a row for each measured number and interpretation. A note counts the numbers that were not measured."""
    found = verdicts_on_paper(results)
    rows = [_row(one) for one in found if one.verdict.sample.n]
    marks = "; ".join(f"{mark.strip()}: {OBTAINED[name]}" for name, mark in MARKS.items() if mark)
    interpretations = "; ".join(f"{name}: {text}" for name, (_, text) in INTERPRETATIONS.items())
    caption = (
        "Errors on the 10,000 test images in percent: the reported number and ours, mean +- standard deviation (number "
        f"of seeds). t1, t2: the paper's tables. {marks}. An interpretation is a way to measure; the paper does not "
        f"say which it used. {interpretations}. Of pruned networks, draws averages 10; so does noisy, which leaves "
        "noise of sigma 0.69 in each removed weight, a public mistake. Numbers of 300 epochs are compared with our "
        "fits of 600 after epoch 300. Verdicts: the rule of all verdicts, with p adjusted over the numbers that a "
        "source prints, under one interpretation, and a spread pooled over all recipes of an approach where Bartlett's "
        f"test allows. {FLAT} The CSV file has both p-values and names the fits behind each number."
    )
    columns = ["number", "reported", "interpretation", "ours", "verdict"]
    notes = [*can_it_be_reproduced(results), noise_left(results), *flatness_lines(results), *_not_run(found)]
    title, lines = "Do the numbers of Blundell et al. 2015 come out?", [_line(one) for one in found]
    table = Table(PAPER, title, caption, columns, rows, notes, lines=lines).of(results, has_spread=False)
    return replace(table, main=lambda row: row[2] == "means", main_says="with the network of the means")


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
    return [name, reported, one.interpretation, Measured(in_percent(one), PERCENT), one.verdict.outcome]


def _line(one: PaperVerdict) -> dict[str, str | float | None]:
    """Return a line of the CSV file: a number under an interpretation, and the fits that it is compared with."""
    verdict, found = one.verdict, one.verdict.on_scale
    low, high = verdict.interval or (None, None)
    sd, freedom = found.spread if found else (None, None)
    return {
        "number": one.claim.paper.id,
        "obtained": one.claim.paper.obtained,
        "approach": one.claim.approach,
        "recipe": one.claim.recipe,
        "interpretation": one.interpretation,
        "reported": one.claim.paper.value,
        "ours": verdict.sample.mean,
        "sd": verdict.sample.sd,
        "n": verdict.sample.n,
        "low": low,
        "high": high,
        "p": verdict.p_adjusted,
        "p alone": found.estimate.p if found else None,
        "own p": found.own_estimate.p if found else None,
        "pooled sd": sd,
        "degrees of freedom": freedom,
        "verdict": verdict.outcome,
    }


SHORT_FIT = "+epochs-150"  # the end of the recipe that each open choice changes
SHARES = (50, 75, 95, 98)  # percent of the weights that are pruned


def worth_of_choices(results: Results) -> str:
    """Say how choices that the paper leaves open change the error after 150 epochs, and which fits diverged."""
    (ablation,) = chosen(("blundell_bbb",))
    numbers = Numbers(results, ())
    changed: dict[str, Estimate] = {}
    diverged = []
    for single_change in ablation.single_changes:
        before, after = single_change.numbers[MNIST, "error"]
        if single_change.kind != VARIANT or not before.recipe.endswith(SHORT_FIT) or after.recipe.count("epochs-") > 1:
            continue
        finite, missing_values = numbers.by_seed(after)
        lost = sum(missing_value.code == "diverged" for missing_value in missing_values)
        found = numbers.effect(before, after).estimate
        if lost:
            diverged.append(f"{lost} of {lost + len(finite)} with {single_change.title}")
        elif found is not None and found.n > 1:
            changed[single_change.title] = found
    said = [*_changes(changed), *([f"Fits that diverged: {'; '.join(diverged)}."] if diverged else [])]
    return " ".join(said) or f"The choices that the paper leaves open have not run yet: {COMMANDS}."


def _changes(changed: Mapping[str, Estimate]) -> Iterator[str]:
    """Say how much each change alone adds to the error, the least first, and whether one lowers it."""
    counts = {one.n for one in changed.values()}
    each = [
        f"{title} {100 * one.difference:+.2f} {interval_text(one)}{'' if len(counts) == 1 else f' ({one.n} seeds)'}"
        for title, one in sorted(changed.items(), key=lambda item: item[1].difference)
    ]
    if each:
        n = f" ({counts.pop()} seeds each)" if len(counts) == 1 else ""
        yield f"Error on test images, in points, by one change at a time{n}: {'; '.join(each)}."
        if not any(one.excludes_zero and one.difference < 0 for one in changed.values()):
            yield "None of these changes lowers the error beyond chance."


def noise_left(results: Results) -> str:
    """Say what pruning costs if the removed weights keep their noise, as in a public reproduction."""
    found = {(one.claim.paper.id, one.interpretation): one for one in verdicts_on_paper(results)}
    clean, noisy = (
        [in_percent(found[f"{PAPER}.t2.pruned{share}", name]) for share in SHARES] for name in ("draws", "noisy")
    )
    if not all(sample.n for sample in (*clean, *noisy)):
        return f"Pruning has not run yet: {COMMANDS}."
    theirs = [f"{100 * found[f'saxena-mayur.pruned{share}', 'noisy'].claim.paper.value:.3g}" for share in SHARES]
    with_noise, without = (listed([f"{sample.mean:.{n}f}" for sample in ours]) for ours, n in ((noisy, 1), (clean, 2)))
    return (
        f"With {listed([*map(str, SHARES)])} % of the weights of 1200 units removed, mistakes are {without} %; where "
        f"the removed weights keep their noise, {with_noise} % ({counted(noisy[0].n, 'seed')}, 10 draws averaged). "
        f"saxena-mayur, whose code keeps this noise, reports {listed(theirs)} %."
    )
