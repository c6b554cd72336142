"""Which method for uncertainty: all methods on one network with one budget, ranked only where seeds tell them apart."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.core.records import Record
from bench.core.text import FRACTION, THREE, Digits
from bench.judge.results import Results, described
from bench.judge.samples import Gap, metric
from bench.judge.stats.paired import pair
from bench.judge.stats.places import Place, places
from bench.measure.metrics.shifts import ROTATED, STEPS, area_key
from bench.plan.manifests import ApproachManifest
from bench.show.material import Material
from bench.show.tables.cells import Entry, Linked, Missing, Table, make_table
from bench.show.tables.choice import RISK, refused_for_risk

PLAIN, PLAIN_RECIPE = "mlp", "corrected"  # the network without a method, whose costs are the units
BYTES_OF_A_NUMBER = 4  # float32
SHORT = Digits(decimals=3)
REFUSED = "refused"


class Quality(NamedTuple):
    """A column: the metric of the records and of which protocol they are, and how it is shown."""

    key: str
    digits: Digits
    is_higher_better: bool = False
    protocol: str = "common"


QUALITIES: Mapping[str, Quality] = {
    "accuracy": Quality("mnist/accuracy", FRACTION, is_higher_better=True),
    "NLL": Quality("mnist/nll", FRACTION),
    "ECE": Quality("mnist/ece", FRACTION),
    REFUSED: Quality("", Digits(decimals=1)),
    "accuracy, turned": Quality(area_key(ROTATED, "accuracy"), SHORT, is_higher_better=True, protocol="shift"),
    "NLL, turned": Quality(area_key(ROTATED, "nll"), SHORT, protocol="shift"),
    "clothes": Quality("fashion_mnist/auroc_predictive_entropy", SHORT, is_higher_better=True),
    "letters": Quality("letters/auroc_predictive_entropy", SHORT, is_higher_better=True),
    "noise": Quality("noise_gaussian/auroc_predictive_entropy", SHORT, is_higher_better=True),
}
RANKED = "NLL"  # the quality that places methods: a proper score, which wrong confidence makes worse
COSTS = ("training", "answer", "MB")
NO_COST = Gap("-", "another network with another budget: its costs are in table speed")
NO_NUMBER = Gap("n/a", "no record has this number")
NO_SHIFT = Gap("-", "its answers to turned digits were not measured: run with --protocol shift")


@dataclass(frozen=True)
class Row:
    """One method with one recipe: the numbers of each seed, and its costs in units of the plain network."""

    name: str
    records: Sequence[Record]  # of protocol common
    shifted: Sequence[Record]  # of protocol shift
    numbers: Mapping[str, Mapping[int, float]]  # of each quality, by seed
    costs: Mapping[str, float]  # by name, empty for another network

    def mean(self, quality: str) -> float:
        """Return the mean over seeds of a quality that the row has."""
        return statistics.fmean(self.numbers[quality].values())


def rows(documents: Results, methods: Results) -> list[Row]:
    """Return the plain network, each recipe of each method, then the corrected recipes of the documents."""
    plain = _finished(documents, PLAIN, PLAIN_RECIPE)
    found = [_row(documents, PLAIN, PLAIN_RECIPE, plain)]
    for name in methods.classifiers():
        found += [_row(methods, name, recipe, plain) for recipe in methods.recipes(name)]
    others = [name for name in documents.classifiers() if name != PLAIN and documents.has_corrected(name)]
    found += [_row(documents, name, "corrected", ()) for name in others]
    return [row for row in found if row.numbers[RANKED]]


def _finished(results: Results, approach: str, recipe: str, protocol: str = "common") -> list[Record]:
    return [record for record in results.cell(approach, recipe, protocol) if record.outcome == "done"]


def _row(results: Results, approach: str, recipe: str, plain: Sequence[Record]) -> Row:
    by_protocol = {protocol: _finished(results, approach, recipe, protocol) for protocol in ("common", "shift")}
    numbers = {name: _by_seed(by_protocol[quality.protocol], quality) for name, quality in QUALITIES.items()}
    records = by_protocol["common"]
    label = approach if recipe == "published" else f"{approach} {recipe.removeprefix('published+')}"
    entry = results.manifests.get(approach)
    costs = _costs(entry, records[0], plain[0]) if entry is not None and records and plain and plain[0].epochs else {}
    return Row(label, records, by_protocol["shift"], numbers, costs)


def _by_seed(records: Sequence[Record], quality: Quality) -> dict[int, float]:
    key = quality.key
    found = {record.seed: metric(record, key) if key else refused_for_risk(record) for record in records}
    return {seed: value for seed, value in found.items() if not isinstance(value, Gap)}


def _costs(entry: ApproachManifest, record: Record, plain: Record) -> dict[str, float]:
    cost, size = entry.cost_of(record.corrections), plain.model.n_weights
    found = {
        "training": cost.training * len(record.epochs) / len(plain.epochs),
        "answer": cost.draw * (record.timings.predict_draws or 1),
    }
    return found if size is None else {**found, "MB": cost.stored * size * BYTES_OF_A_NUMBER / 1e6}


def methods_table(material: Material) -> Iterator[Table]:
    """Give a row for each method, the best mean first; its place says what the seeds can tell. None without records."""
    methods = material.of_other_group("methods").results
    if methods.records and methods.conditions is not None:
        yield _table(material.results, methods, methods.conditions)


def _table(documents: Results, methods: Results, conditions: tuple[str, str, str]) -> Table:
    found = sorted(rows(documents, methods), key=lambda row: row.mean(RANKED))
    ranked = places(
        {row.name: row.numbers[RANKED] for row in found}, is_higher_better=QUALITIES[RANKED].is_higher_better
    )
    seeds = {record.seed for row in found for record in row.records}
    caption = (
        "All methods learn the network 784-400-400-10 with the budget of mlp, unless they say ten-times; the rows "
        f"without costs have networks of their own. Place: by {RANKED}; methods that the seeds cannot tell apart share "
        "their places (paired by seed, Holm). Means over seeds with the 95 % interval of the mean. NLL: negative "
        "log-likelihood, nats a digit. ECE: expected calibration error. Refused: percent of the digits that it must "
        f"leave unanswered so that at most {100 * RISK:g} % of its answers are wrong. Turned: every tenth test image "
        f"rotated by {STEPS[ROTATED][0]} to {STEPS[ROTATED][-1]} degrees, mean over the angles. Clothes, letters, "
        "noise: AUROC of the entropy; 0.5 is chance, 1 is best. Training, answer: multiplications, in trainings and "
        "passes of the plain network. MB: what a fitted posterior keeps."
    )
    return make_table(
        "methods",
        "Which method for uncertainty should I take?",
        caption,
        ["method", "place", *QUALITIES, *COSTS, "seeds"],
        [_entries(row, ranked[row.name]) for row in found],
        conditions=described(conditions, seeds),
        origin=methods.origin(),
        lines=[_line(row, ranked[row.name]) for row in found],
    )


def _entries(row: Row, place: Place) -> list[Entry]:
    qualities = [_quality(row, name) for name in QUALITIES]
    sources = _sources(row.records)
    costs: list[Entry] = [
        Linked(THREE.text(row.costs[name]), sources) if name in row.costs else Missing(NO_COST) for name in COSTS
    ]
    return [row.name, str(place), *qualities, *costs, str(len(row.numbers[RANKED]))]


def _sources(records: Sequence[Record]) -> tuple[str, ...]:
    return tuple(record.key for record in records)


def _quality(row: Row, name: str) -> Entry:
    values, (_, digits, _, protocol) = row.numbers[name], QUALITIES[name]
    records = row.shifted if protocol == "shift" else row.records
    if not values:
        return Missing(NO_NUMBER if records else NO_SHIFT, _sources(records))
    sources, half = _sources(records), half_width(values)
    text = digits.text(row.mean(name))
    return Linked(text if half is None else f"{text} +- {digits.text(half)}", sources)


def half_width(values: Mapping[int, float]) -> float | None:
    """Return the half-width of the 95 % interval of the mean, which is that of the differences from zero."""
    paired = pair(dict.fromkeys(values, 0.0), values)
    return None if paired is None else paired.half_width


def _line(row: Row, place: Place) -> dict[str, str | float | None]:
    """Return means, half-widths, places and costs, for machines."""
    line: dict[str, str | float | None] = {"method": row.name, "best place": place.best, "worst place": place.worst}
    for quality in QUALITIES:
        values = row.numbers[quality]
        line[quality] = row.mean(quality) if values else None
        line[f"{quality} half-width"] = half_width(values)
        line[f"{quality} n"] = len(values)
    return line | {name: row.costs.get(name) for name in COSTS}
