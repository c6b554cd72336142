"""The rows of the tables of methods: the numbers of each method and seed, and its costs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from bench.core.records import Record
from bench.core.text import FRACTION, Digits
from bench.judge.comparison import paired
from bench.judge.samples import Samples
from bench.measure.metrics.shifts import ROTATED, TRANSLATED, area_key
from bench.plan.freshness import NOT_RETRAINED
from bench.plan.manifests import ApproachManifest
from bench.show.inputs import Inputs
from bench.show.numbers import REFUSED_FOR_RISK
from bench.show.tables.choice import SHORT

PLAIN, PLAIN_RECIPE = "mlp", "corrected"  # the network without a method; costs are multiples of its costs
BYTES_OF_A_NUMBER = 4  # float32
REFUSED = "refused"


class Quality(NamedTuple):
    """A column: the metric of the records, how it is shown, and the protocol of the records."""

    key: str
    digits: Digits
    protocol: str = "common"
    is_shown: bool = True  # False: only in the CSV file


QUALITIES: Mapping[str, Quality] = {
    "accuracy": Quality("mnist/accuracy", FRACTION),
    "NLL": Quality("mnist/nll", FRACTION),
    "ECE": Quality("mnist/ece", FRACTION),
    REFUSED: Quality(REFUSED_FOR_RISK, Digits(decimals=1)),
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


@dataclass(frozen=True)
class Row:
    """One method with one recipe: its qualities, and its costs in units of the plain network."""

    name: str
    numbers: Mapping[str, Samples]  # of each quality
    costs: Mapping[str, float]  # by name, empty for another network
    qualities: Mapping[str, Quality] = field(default_factory=lambda: QUALITIES)  # of the task that it learnt
    sample: Callable[[str, str], Samples] = lambda _protocol, _metric: Samples()  # any metric of a protocol
    is_ranked: bool = True  # not a model that was not retrained

    def by_seed(self, quality: str) -> Mapping[int, float]:
        """Return the numbers of a quality, by seed."""
        return self.numbers[quality].by_seed

    def mean(self, quality: str) -> float:
        """Return the mean over seeds of a quality that the row has."""
        return statistics.fmean(self.numbers[quality].values)


def rows(inputs: Inputs, qualities: Mapping[str, Quality] = QUALITIES) -> list[Row]:
    """Return the plain network, each recipe of each method, the documents' corrected recipes, models not retrained.

    Without a value of `RANKED`, a recipe has no row, but a model that was not retrained has.
    """
    methods, plain = inputs.of("methods"), inputs.finished(PLAIN, PLAIN_RECIPE)
    known = inputs.results
    found = [_row(inputs, PLAIN, PLAIN_RECIPE, plain, qualities)]
    for name in methods.results.classifiers():
        found += [_row(methods, name, recipe, plain, qualities) for recipe in methods.results.recipes(name)]
    others = [name for name in known.classifiers() if name != PLAIN and known.row_recipe(name) != "published"]
    found += [_row(inputs, name, known.row_recipe(name), (), qualities) for name in others]
    return [row for row in found if row.numbers[RANKED].n or (not row.is_ranked and row.numbers["accuracy"].n)]


def _row(inputs: Inputs, approach: str, recipe: str, plain: Sequence[Record], qualities: Mapping[str, Quality]) -> Row:
    sample = partial(inputs.sample, approach, recipe)
    numbers = {name: sample(quality.protocol, quality.key) for name, quality in qualities.items()}
    records, entry = inputs.finished(approach, recipe), inputs.results.manifests.get(approach)
    costs = _costs(entry, records[0], plain[0]) if entry is not None and records and plain and plain[0].epochs else {}
    return Row(label(approach, recipe), numbers, costs, qualities, sample, recipe != NOT_RETRAINED)


def _costs(entry: ApproachManifest, record: Record, plain: Record) -> dict[str, float]:
    cost, size = entry.cost_of(record.corrections), plain.model.n_weights
    if cost is None:
        return {}
    found = {
        "training": cost.training * len(record.epochs) / len(plain.epochs),
        "answer": cost.answer(record.timings.predict_draws or 1),
    }
    return found if size is None else {**found, "MB": cost.stored * size * BYTES_OF_A_NUMBER / 1e6}


def label(approach: str, recipe: str) -> str:
    """Return the name of the row of an approach's recipe."""
    is_named = recipe in ("published", NOT_RETRAINED)  # by its approach alone
    return approach if is_named else f"{approach} {recipe.removeprefix('published+')}"


def half_width(values: Mapping[int, float]) -> float | None:
    """Return the half-width of the 95 % t interval of the mean over seeds, None for one seed."""
    found = paired(dict.fromkeys(values, 0.0), values)
    return None if found is None else found.half_width()
