"""What the methods are worth: which beat the plain network, and whether their order holds on another task."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from bench.core.text import listed
from bench.judge.comparison import ALPHA, holm_over, paired
from bench.judge.stats.places import Order, orders, rank_correlation
from bench.show.inputs import Inputs
from bench.show.tables.methods_rows import PLAIN, PLAIN_RECIPE, RANKED, Row, label, rows

WORDS: Mapping[str, tuple[str, bool]] = {
    RANKED: (RANKED, False),
    "accuracy": ("accuracy", True),
    "ECE": ("ECE", False),
    "NLL, turned": ("NLL on turned digits", False),
    "clothes": ("AUROC on clothes", True),
    "digits": ("AUROC on digits", True),
    "letters": ("AUROC on letters", True),
    "noise": ("AUROC on noise", True),
}
"""The qualities that are compared with the plain network's: in words, and whether more is better."""
NAMED = 3  # methods that a sentence names; it counts the others
NOT_MEASURED = "No method is measured yet: `python -m bench run --group methods` makes the records."


@dataclass(frozen=True)
class Beyond:
    """The methods whose difference from the plain network, in one quality, chance does not explain."""

    quality: str
    n_methods: int
    better: Mapping[str, float]  # mean difference over paired seeds; the largest first
    worse: Mapping[str, float]

    @property
    def n_unclear(self) -> int:
        """Return for how many methods chance can explain the difference."""
        return self.n_methods - len(self.better) - len(self.worse)

    def __str__(self) -> str:
        """Return the differences as a line."""
        better, worse = _named(self.better), _named(self.worse)
        words, _ = WORDS[self.quality]
        return f"{words}: better with {better}; worse with {worse}; {self.n_unclear} cannot be told from it."


def methods_answer(inputs: Inputs) -> list[str]:
    """Say which methods are better and worse than the plain network on digits: an opening, then each quality."""
    return sentences(rows(inputs)) or [NOT_MEASURED]


def sentences(found: Sequence[Row]) -> list[str]:
    """Return the lines of `beyond_plain` after an opening; nothing without lines."""
    lines = beyond_plain(found)
    if not lines:
        return []
    opening = (
        f"Which of the {lines[0].n_methods} methods and recipes beat the plain network ({PLAIN} {PLAIN_RECIPE}) beyond "
        "chance? In brackets: the mean difference over paired seeds. Holm's correction is over the methods of a line."
    )
    return [opening, *map(str, lines)]


def beyond_plain(found: Sequence[Row]) -> list[Beyond]:
    """Compare the methods with the plain network, quality by quality.

    Only methods that train the plain network's architecture are compared: paired t tests over seeds, with Holm's
    correction over the methods of one quality. The list is empty without the plain network or without a method.
    """
    plain = next((row for row in found if row.name == label(PLAIN, PLAIN_RECIPE)), None)
    others = [row for row in found if row.costs and row is not plain]
    if plain is None or not others:
        return []
    return [_compared(name, plain, others) for name in WORDS if name in plain.numbers and plain.numbers[name].n]


def _compared(quality: str, plain: Row, others: Sequence[Row]) -> Beyond:
    _, is_higher_better = WORDS[quality]
    found = {row.name: paired(plain.by_seed(quality), row.by_seed(quality)) for row in others}
    adjusted = holm_over(found)
    clear = {name: one.difference for name, one in found.items() if one and adjusted.get(name, 1.0) < ALPHA}
    ordered = sorted(clear, key=lambda name: abs(clear[name]), reverse=True)
    better = {name: clear[name] for name in ordered if (clear[name] > 0) == is_higher_better}
    worse = {name: clear[name] for name in ordered if name not in better}
    return Beyond(quality, len(others), better, worse)


def _named(differences: Mapping[str, float]) -> str:
    """Name the methods with the largest differences, and count the others."""
    if not differences:
        return "none"
    named = [f"{name} ({mean:+#.3g})" for name, mean in [*differences.items()][:NAMED]]
    more = len(differences) - len(named)
    return listed([*named, *([f"{more} more"] if more else [])])


def order_sentence(digits: Sequence[Row], clothes: Sequence[Row]) -> str:
    """Say whether the methods have the same order when they learn clothes as when they learn digits."""
    both = {row.name for row in digits} & {row.name for row in clothes}
    here, there = (
        orders({row.name: row.by_seed(RANKED) for row in learnt if row.name in both}, is_higher_better=False)
        for learnt in (digits, clothes)
    )
    if len(both) < 2:
        return f"Does the order by {RANKED} hold? Fewer than two methods have records of both digits and clothes."
    same = len(set(here) & set(there))
    opposite = len(set(here) & {Order(one.worse, one.better) for one in there})
    n_pairs = len(both) * (len(both) - 1) // 2
    return (
        f"Does the order by {RANKED} hold? {len(both)} methods learnt digits and clothes: {n_pairs} pairs. The seeds "
        f"tell {same + opposite} of them apart on both: {same} in the same order, {opposite} in the opposite one. They "
        f"tell {len(here) - same - opposite} more apart on digits alone and {len(there) - same - opposite} more on "
        f"clothes alone (each task paired by seed, Holm). {_rank_correlation(digits, clothes, both)}"
    )


def _rank_correlation(digits: Sequence[Row], clothes: Sequence[Row], names: Collection[str]) -> str:
    """Say how alike the two orders are, without asking whether seeds tell the methods apart."""
    here, there = (
        {row.name: row.by_seed(RANKED) for row in learnt if row.name in names} for learnt in (digits, clothes)
    )
    seeds = sorted(set.intersection(*(set(numbers) for learnt in (here, there) for numbers in learnt.values())))

    def tau(of: Callable[[Mapping[int, float]], float]) -> float:
        return rank_correlation(*([of(learnt[name]) for name in names] for learnt in (here, there)))

    alone = [tau(operator.itemgetter(seed)) for seed in seeds]
    single = f"; with single seeds, {min(alone):.2f} to {max(alone):.2f} (n = {len(alone)})" if len(alone) > 1 else ""
    of_means = tau(lambda numbers: statistics.fmean(numbers.values()))
    return (
        f"Kendall's rank correlation of the two orders of means is {of_means:.2f}, where 1 is the same order and 0 no "
        f"relation{single}."
    )
