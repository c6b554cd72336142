"""Tables `methods` and `methods_fashion`: all methods on one network with one budget.

Two methods have different ranks only if their seeds tell them apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from bench.core.text import THREE
from bench.data.manifest import FASHION
from bench.judge.results import Results
from bench.judge.samples import MissingValue
from bench.judge.stats.places import Rank, places
from bench.measure.metrics.shifts import ROTATED, STEPS, TRANSLATED
from bench.plan.recipes import profile_of_task
from bench.show.inputs import Inputs
from bench.show.numbers import RISK
from bench.show.table import Entry, Linked, Missing, Table
from bench.show.tables.methods_answer import order_sentence, sentences
from bench.show.tables.methods_rows import CLOTHES, QUALITIES, RANKED, Quality, Row, half_width, label, rows

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
NO_COST = MissingValue("-", "another network with another budget: its costs are in table speed")
NO_PLACE = MissingValue("unranked", "a model that was not retrained has no place among trained methods")
NO_NUMBER = MissingValue("n/a", "no record has this number")
NO_SHIFT = MissingValue("-", "its answers to turned and moved digits were not measured: run with --protocol shift")
ON_CLOTHES = "methods_fashion"  # the table of methods that learnt clothes
LONG = "ten-times"  # the variant of a method that has ten times the budget


def methods_table(inputs: Inputs) -> Iterator[Table]:
    """Give the table with a row for each method, the best mean first; no table without records."""
    if inputs.of("methods").results.records:
        yield _table(inputs, QUALITIES)


def clothes_table(inputs: Inputs) -> Iterator[Table]:
    """Give the same table of the methods that learnt clothes: profile `full_fashion` if the inputs's is `full`."""
    size = inputs.profile.partition("_")[0]
    clothes = inputs.of(profile=profile_of_task(size, FASHION))
    if clothes.of("methods").results.records:
        yield _table(clothes, CLOTHES, rows(inputs.of(profile=size)))


def _table(inputs: Inputs, qualities: Mapping[str, Quality], digits: Sequence[Row] | None = None) -> Table:
    """Return the table of the methods that learnt digits, or of those that learnt clothes, beside `digits`."""
    given, methods = rows(inputs, qualities), inputs.of("methods").results
    notes = [] if digits is None else [order_sentence(digits, given)]
    found = sorted(given, key=lambda row: row.mean(RANKED) if row.numbers[RANKED].n else math.inf)
    ranked = places({row.name: row.by_seed(RANKED) for row in found if row.is_ranked}, is_higher_better=False)
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
        [_entries(row, ranked.get(row.name)) for row in found],
        [*sentences(found), *notes, *_long_budgets(found, methods, "" if is_of_digits else f" --task {FASHION}")],
        conditions=inputs.conditions(row.numbers[RANKED] for row in found),
        origin=methods.origin(),
        lines=[_line(row, ranked.get(row.name)) for row in found],
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
        f"Missing row: {long} (python -m bench run {name} --recipe {recipe}+{LONG}{task} makes its records)."
        for name, recipe in able.items()
        if (long := label(name, f"{recipe}+{LONG}")) not in shown
    ]
    return [" ".join([f"Methods with a recipe of ten times the budget: {', '.join(able)}.", *missing])] if able else []


def _shown(qualities: Mapping[str, Quality]) -> list[str]:
    return [name for name, quality in qualities.items() if quality.is_shown]


def _entries(row: Row, place: Rank | None) -> list[Entry]:
    qualities = [_quality(row, name) for name in _shown(row.qualities)]
    sources = row.numbers[RANKED].sources
    costs: list[Entry] = [
        Linked(THREE.text(row.costs[name]), sources) if name in row.costs else Missing(NO_COST) for name in COSTS
    ]
    rank = Missing(NO_PLACE, sources) if place is None else str(place)
    return [row.name, rank, *qualities, *costs, str(row.numbers["accuracy"].n)]


def _quality(row: Row, name: str) -> Entry:
    sample, digits = row.numbers[name], row.qualities[name].digits
    if not sample.n:
        return Missing((sample.missing_value or NO_NUMBER) if sample.sources else NO_SHIFT, sample.sources)
    text, half = digits.text(row.mean(name)), half_width(sample.by_seed)
    return Linked(text if half is None else f"{text} +- {digits.text(half)}", sample.sources)


def _line(row: Row, place: Rank | None) -> dict[str, str | float | None]:
    """Return means, half-widths, places and costs, for machines."""
    best, worst = place or (None, None)
    line: dict[str, str | float | None] = {"method": row.name, "best place": best, "worst place": worst}
    for quality in row.qualities:
        sample = row.numbers[quality]
        line[quality] = sample.mean
        line[f"{quality} half-width"] = half_width(sample.by_seed)
        line[f"{quality} n"] = sample.n
    return line | {name: row.costs.get(name) for name in COSTS}
