"""Tables `methods` and `methods_fashion`: all methods on one network with one budget.

Two methods have different ranks only if their seeds tell them apart.
"""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scipy.stats import kendalltau

from bench.core.records import Record
from bench.core.text import FRACTION, THREE, Digits
from bench.data.manifest import FASHION
from bench.judge.results import Results, described
from bench.judge.samples import Gap, metric
from bench.judge.stats.paired import pair
from bench.judge.stats.places import Order, Rank, orders, places
from bench.measure.metrics.shifts import ROTATED, STEPS, TRANSLATED, area_key
from bench.plan.manifests import ApproachManifest
from bench.plan.recipes import profile_of_task
from bench.show.material import Material
from bench.show.table import Entry, Linked, Missing, Table
from bench.show.tables.choice import RISK, SHORT, refused_for_risk

PLAIN, PLAIN_RECIPE = "mlp", "corrected"  # the network without a method; costs are multiples of its costs
BYTES_OF_A_NUMBER = 4  # float32
REFUSED = "refused"


class Quality(NamedTuple):
    """A column: the metric of the records, how it is shown, and the protocol of the records."""

    key: str  # '': computed by `refused_for_risk`
    digits: Digits
    protocol: str = "common"
    is_shown: bool = True  # False: only in the CSV file


QUALITIES: Mapping[str, Quality] = {
    "accuracy": Quality("mnist/accuracy", FRACTION),
    "NLL": Quality("mnist/nll", FRACTION),
    "ECE": Quality("mnist/ece", FRACTION),
    REFUSED: Quality("", Digits(decimals=1)),
    "accuracy, turned": Quality(area_key(ROTATED, "accuracy"), SHORT, "shift", is_shown=False),
    "NLL, turned": Quality(area_key(ROTATED, "nll"), SHORT, "shift"),
    "accuracy, moved": Quality(area_key(TRANSLATED, "accuracy"), SHORT, "shift", is_shown=False),
    "NLL, moved": Quality(area_key(TRANSLATED, "nll"), SHORT, "shift"),
    "clothes": Quality("fashion_mnist/auroc_predictive_entropy", SHORT),
    "letters": Quality("letters/auroc_predictive_entropy", SHORT),
    "noise": Quality("noise_gaussian/auroc_predictive_entropy", SHORT),
}
CLOTHES: Mapping[str, Quality] = {
    "accuracy": Quality("fashion_mnist/accuracy", FRACTION),
    "NLL": Quality("fashion_mnist/nll", FRACTION),
    "ECE": Quality("fashion_mnist/ece", FRACTION),
    REFUSED: QUALITIES[REFUSED],
    "digits": Quality("mnist/auroc_predictive_entropy", SHORT),
    "letters": QUALITIES["letters"],
    "noise": QUALITIES["noise"],
}
"""The qualities of methods that learnt clothes."""
RANKED = "NLL"  # the quality that places methods: a proper score, which wrong confidence makes worse
OF_DIGITS = (
    f"Turned, moved: every tenth test image rotated by {STEPS[ROTATED][0]} to {STEPS[ROTATED][-1]} degrees, moved by "
    f"{STEPS[TRANSLATED][0]} to {STEPS[TRANSLATED][-1]} pixels; mean over the steps (the CSV file has accuracies too). "
    "Clothes, letters, noise: AUROC of the entropy; 0.5 is chance, 1 is best."
)
OF_CLOTHES = (
    "Trained on the 60,000 training images of Fashion-MNIST, tested on its 10,000 test images. Digits (MNIST's "
    "test images), letters, noise: AUROC of the entropy; 0.5 is chance, 1 is best. Hyper-parameters are those chosen "
    "for digits."
)
COSTS = ("training", "answer", "MB")
NO_COST = Gap("-", "another network with another budget: its costs are in table speed")
NO_NUMBER = Gap("n/a", "no record has this number")
NO_SHIFT = Gap("-", "its answers to turned and moved digits were not measured: run with --protocol shift")
ON_CLOTHES = "methods_fashion"  # the table of methods that learnt clothes
LONG = "ten-times"  # the variant of a method that has ten times the budget


@dataclass(frozen=True)
class Row:
    """One method with one recipe: the numbers of each seed, and its costs in units of the plain network."""

    name: str
    records: Sequence[Record]  # of protocol common
    shifted: Sequence[Record]  # of protocol shift
    numbers: Mapping[str, Mapping[int, float]]  # of each quality, by seed
    costs: Mapping[str, float]  # by name, empty for another network
    qualities: Mapping[str, Quality] = field(default_factory=lambda: QUALITIES)  # of the task that it learnt

    def mean(self, quality: str) -> float:
        """Return the mean over seeds of a quality that the row has."""
        return statistics.fmean(self.numbers[quality].values())


def rows(documents: Results, methods: Results, qualities: Mapping[str, Quality] = QUALITIES) -> list[Row]:
    """Return the plain network, each recipe of each method, then the corrected recipes of the documents.

    Without a value of `RANKED`, a recipe has no row.
    """
    plain = _finished(documents, PLAIN, PLAIN_RECIPE)
    found = [_row(documents, PLAIN, PLAIN_RECIPE, plain, qualities)]
    for name in methods.classifiers():
        found += [_row(methods, name, recipe, plain, qualities) for recipe in methods.recipes(name)]
    others = [name for name in documents.classifiers() if name != PLAIN and documents.has_corrected(name)]
    found += [_row(documents, name, "corrected", (), qualities) for name in others]
    return [row for row in found if row.numbers[RANKED]]


def _finished(results: Results, approach: str, recipe: str, protocol: str = "common") -> list[Record]:
    return [record for record in results.cell(approach, recipe, protocol) if record.outcome == "done"]


def _row(
    results: Results, approach: str, recipe: str, plain: Sequence[Record], qualities: Mapping[str, Quality]
) -> Row:
    by_protocol = {protocol: _finished(results, approach, recipe, protocol) for protocol in ("common", "shift")}
    numbers = {name: _by_seed(by_protocol[quality.protocol], quality) for name, quality in qualities.items()}
    records = by_protocol["common"]
    entry = results.manifests.get(approach)
    costs = _costs(entry, records[0], plain[0]) if entry is not None and records and plain and plain[0].epochs else {}
    return Row(_label(approach, recipe), records, by_protocol["shift"], numbers, costs, qualities)


def _by_seed(records: Sequence[Record], quality: Quality) -> dict[int, float]:
    key = quality.key
    found = {record.seed: metric(record, key) if key else refused_for_risk(record) for record in records}
    return {seed: value for seed, value in found.items() if not isinstance(value, Gap)}


def _costs(entry: ApproachManifest, record: Record, plain: Record) -> dict[str, float]:
    cost, size = entry.cost_of(record.corrections), plain.model.n_weights
    found = {
        "training": cost.training * len(record.epochs) / len(plain.epochs),
        "answer": cost.answer(record.timings.predict_draws or 1),
    }
    return found if size is None else {**found, "MB": cost.stored * size * BYTES_OF_A_NUMBER / 1e6}


def methods_table(material: Material) -> Iterator[Table]:
    """Give the table with a row for each method, the best mean first; no table without records."""
    methods = material.of_other_group("methods").results
    if methods.records and methods.conditions is not None:
        yield _table(rows(material.results, methods), methods, methods.conditions, QUALITIES)


def clothes_table(material: Material) -> Iterator[Table]:
    """Give the same table of the methods that learnt clothes: profile `full_fashion` if the material's is `full`."""
    size = material.profile.partition("_")[0]
    profile, group = profile_of_task(size, FASHION), material.of_other_group("methods")
    methods = group.of_profile(profile)
    if methods.records and methods.conditions is not None:
        found = rows(material.of_profile(profile), methods, CLOTHES)
        digits = rows(material.of_profile(size), group.of_profile(size))
        yield _table(found, methods, methods.conditions, CLOTHES, [order_sentence(digits, found)])


def order_sentence(digits: Sequence[Row], clothes: Sequence[Row]) -> str:
    """Say whether the methods have the same order when they learn clothes as when they learn digits."""
    both = {row.name for row in digits} & {row.name for row in clothes}
    here, there = (
        orders({row.name: row.numbers[RANKED] for row in learnt if row.name in both}, is_higher_better=False)
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
        {row.name: row.numbers[RANKED] for row in learnt if row.name in names} for learnt in (digits, clothes)
    )
    seeds = sorted(set.intersection(*(set(numbers) for learnt in (here, there) for numbers in learnt.values())))

    def tau(of: Callable[[Mapping[int, float]], float]) -> float:
        return float(kendalltau([of(here[name]) for name in names], [of(there[name]) for name in names]).statistic)

    alone = [tau(operator.itemgetter(seed)) for seed in seeds]
    single = f"; with single seeds, {min(alone):.2f} to {max(alone):.2f} (n = {len(alone)})" if len(alone) > 1 else ""
    of_means = tau(lambda numbers: statistics.fmean(numbers.values()))
    return (
        f"Kendall's rank correlation of the two orders of means is {of_means:.2f}, where 1 is the same order and 0 no "
        f"relation{single}."
    )


def _table(
    given: Sequence[Row],
    methods: Results,
    conditions: tuple[str, str, str],
    qualities: Mapping[str, Quality],
    notes: Sequence[str] = (),
) -> Table:
    found = sorted(given, key=lambda row: row.mean(RANKED))
    ranked = places({row.name: row.numbers[RANKED] for row in found}, is_higher_better=False)
    seeds = {record.seed for row in found for record in row.records}
    is_of_digits = qualities is QUALITIES
    caption = (
        f"Place: rank by {RANKED} on the test {'digits' if is_of_digits else 'clothes'}, by no other column; methods "
        "that the seeds cannot tell apart share places (paired by seed, Holm). All methods train the network "
        f"784-400-400-10 with the budget of mlp ({LONG}: ten times that); rows without costs have other networks and "
        "budgets. Means over seeds with the 95 % interval of the mean. NLL: negative log-likelihood, nats per image. "
        "ECE: expected calibration error. Refused: percent of the images that the method must leave unanswered to have "
        f"at most {100 * RISK:g} % wrong answers; a seed's number moves in steps of one percent. "
        f"{OF_DIGITS if is_of_digits else OF_CLOTHES} Training, answer: multiplications in matrix products; 1 is one "
        "training, or one image's pass, of the plain network (mlp corrected). Work that is done once for all images, "
        "such as drawing weights, is not counted. MB: size of a fitted posterior."
    )
    return Table(
        "methods" if is_of_digits else ON_CLOTHES,
        f"Which method for uncertainty should I take{'' if is_of_digits else ', if it learns clothes'}?",
        caption,
        ["method", "place", *_shown(qualities), *COSTS, "seeds"],
        [_entries(row, ranked[row.name]) for row in found],
        [*notes, *_long_budgets(found, methods, "" if is_of_digits else f" --task {FASHION}")],
        conditions=described(conditions, seeds),
        origin=methods.origin(),
        lines=[_line(row, ranked[row.name]) for row in found],
    )


def _long_budgets(found: Sequence[Row], methods: Results, task: str) -> list[str]:
    """Say which methods have a recipe with ten times the budget, and for which of them its row is missing."""
    able = {
        entry.name: "corrected" if methods.has_corrected(entry.name) else "published"
        for entry in methods.manifests.values()
        if LONG in entry.variants
    }
    shown = {row.name for row in found}
    missing = [
        f"Missing row: {label} (python -m bench run {name} --recipe {recipe}+{LONG}{task} makes its records)."
        for name, recipe in able.items()
        if (label := _label(name, f"{recipe}+{LONG}")) not in shown
    ]
    return [" ".join([f"Methods with a recipe of ten times the budget: {', '.join(able)}.", *missing])] if able else []


def _label(approach: str, recipe: str) -> str:
    return approach if recipe == "published" else f"{approach} {recipe.removeprefix('published+')}"


def _shown(qualities: Mapping[str, Quality]) -> list[str]:
    return [name for name, quality in qualities.items() if quality.is_shown]


def _entries(row: Row, place: Rank) -> list[Entry]:
    qualities = [_quality(row, name) for name in _shown(row.qualities)]
    sources = _sources(row.records)
    costs: list[Entry] = [
        Linked(THREE.text(row.costs[name]), sources) if name in row.costs else Missing(NO_COST) for name in COSTS
    ]
    return [row.name, str(place), *qualities, *costs, str(len(row.numbers[RANKED]))]


def _sources(records: Sequence[Record]) -> tuple[str, ...]:
    return tuple(record.key for record in records)


def _quality(row: Row, name: str) -> Entry:
    values, quality = row.numbers[name], row.qualities[name]
    records = row.shifted if quality.protocol == "shift" else row.records
    if not values:
        return Missing(NO_NUMBER if records else NO_SHIFT, _sources(records))
    sources, half = _sources(records), half_width(values)
    text = quality.digits.text(row.mean(name))
    return Linked(text if half is None else f"{text} +- {quality.digits.text(half)}", sources)


def half_width(values: Mapping[int, float]) -> float | None:
    """Return the half-width of the 95 % t interval of the mean over seeds, None for one seed."""
    paired = pair(dict.fromkeys(values, 0.0), values)
    return None if paired is None else paired.half_width()


def _line(row: Row, place: Rank) -> dict[str, str | float | None]:
    """Return means, half-widths, places and costs, for machines."""
    line: dict[str, str | float | None] = {"method": row.name, "best place": place.best, "worst place": place.worst}
    for quality in row.qualities:
        values = row.numbers[quality]
        line[quality] = row.mean(quality) if values else None
        line[f"{quality} half-width"] = half_width(values)
        line[f"{quality} n"] = len(values)
    return line | {name: row.costs.get(name) for name in COSTS}
