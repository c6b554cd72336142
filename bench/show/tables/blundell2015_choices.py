"""Sentences on Blundell et al. 2015: choices that the paper leaves open, and pruning that keeps noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench.core.text import counted, listed
from bench.judge.ablation.effects import Numbers
from bench.judge.ablation.selection import chosen
from bench.judge.ablation.single_changes import MNIST, VARIANT
from bench.judge.comparison import Estimate
from bench.judge.results import Results
from bench.judge.stats.papers import PAPER
from bench.show.tables.blundell2015_errors import (
    COMMANDS,
    in_percent,
    interval_text,
    verdicts_on_paper,
)

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
