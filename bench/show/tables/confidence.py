"""Table `confidence`: how often a network is at least 99 % sure of digits and other pictures, and how often right."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bench.core.metric_table import EXPECTED_OF_SURE, RIGHT_OF_SURE, SHARE_SURE, SURE
from bench.core.records import Record
from bench.core.row_scores import Scores
from bench.core.text import Digits
from bench.data.manifest import OOD_LABELS
from bench.judge.samples import MissingValue, Samples, gather, metric
from bench.measure.metrics.arrays import BoolArray
from bench.plan.freshness import NOT_RETRAINED
from bench.show.inputs import Inputs
from bench.show.table import Entry, Measured, Table

PERCENT, CLOSE = Digits(decimals=1), Digits(decimals=2)  # of shares, and of shares near 100 %
RECIPES = ("published", "corrected", NOT_RETRAINED)

ROUNDING = 2.0**-12  # of a probability that is kept as float16, at most

NO_SUCH_SET = MissingValue("no data", "this data set was not there when the record was made")
NEVER = MissingValue("never", "it is that sure of no digit")


class RecipePlace(NamedTuple):
    """One recipe of an approach."""

    approach: str
    recipe: str


class ExpectedAccuracy(NamedTuple):
    """How many answers on digits are sure, how many of these are wrong, and how many wrong ones to expect."""

    answers: float  # of which the network is sure
    wrong: float
    expected: float  # wrong answers to expect at most: the sum of 1 - probability over the sure answers

    @property
    def right(self) -> float | MissingValue:
        """Return the percentage of right answers."""
        return 100 * (1 - self.wrong / self.answers) if self.answers else NEVER

    @property
    def expected_right(self) -> float | MissingValue:
        """Return the percentage of right answers that the network's own probabilities predict, at least."""
        return 100 * (1 - self.expected / self.answers) if self.answers else NEVER


@dataclass(frozen=True)
class Confidence:
    """How often one recipe is sure, in percent of images; one value for each seed that was measured."""

    digits: Samples
    right: Samples  # in percent of the digits that it is sure of
    expected: Samples  # in percent of the same digits, by the network's own probabilities, at least
    no_digits: Mapping[str, Samples]  # by data set
    records: Sequence[Record]  # those that are counted


class _Seed(NamedTuple):
    """How often the network of one record is sure."""

    shares: Mapping[str, float | MissingValue]  # percent of the images of a data set
    expected_accuracy: ExpectedAccuracy


@lru_cache(maxsize=1)  # the table, the figure and a finding ask for it
def confidence(inputs: Inputs) -> dict[RecipePlace, Confidence]:
    """Return how often classifiers are sure, for each published and corrected recipe whose records say it."""
    found = {}
    for approach in inputs.results.classifiers():
        for recipe in RECIPES:
            seeds = {
                record.key: (record, seed)
                for record in inputs.finished(approach, recipe)
                if (seed := _seed(inputs, record))
            }
            if seeds:
                found[RecipePlace(approach, recipe)] = _confidence(seeds)
    return found


def _confidence(seeds: Mapping[str, tuple[Record, _Seed]]) -> Confidence:
    records = [record for record, _ in seeds.values()]

    def sample(read: Callable[[_Seed], float | MissingValue]) -> Samples:
        return gather(records, lambda record: read(seeds[record.key][1]))

    def share(dataset: str) -> Samples:
        return sample(lambda seed: seed.shares[dataset])

    return Confidence(
        share("mnist"),
        sample(lambda seed: seed.expected_accuracy.right),
        sample(lambda seed: seed.expected_accuracy.expected_right),
        {name: share(name) for name in OOD_LABELS},
        records,
    )


def _seed(inputs: Inputs, record: Record) -> _Seed | None:
    """Read a record's metrics, or its scores if older code made it, which has no such metrics. None without either."""
    expected_accuracy = measured_expected_accuracy(record)
    if expected_accuracy:
        shares = {name: metric(record, f"{name}/{SHARE_SURE}") for name in ("mnist", *OOD_LABELS)}
        return _Seed(
            {name: one if isinstance(one, MissingValue) else 100 * one for name, one in shares.items()},
            expected_accuracy,
        )
    scores = inputs.scores(record)
    if not scores:
        return None
    return _Seed({name: percent_sure(scores, name) for name in ("mnist", *OOD_LABELS)}, expected_accuracy_of(scores))


def measured_expected_accuracy(record: Record) -> ExpectedAccuracy | None:
    """Return the expected accuracy by a record's metrics; None if older code made the record."""
    found = [metric(record, f"mnist/{name}") for name in (SHARE_SURE, RIGHT_OF_SURE, EXPECTED_OF_SURE)]
    shares = [one for one in found if not isinstance(one, MissingValue)]
    bins = record.arrays.reliability
    if bins is None or len(shares) < len(found):
        return None
    images, (sure, right, expected) = sum(bins.count), shares
    return ExpectedAccuracy(round(images * sure), round(images * (sure - right)), images * (sure - expected))


def percent_sure(scores: Scores, dataset: str) -> float | MissingValue:
    """Return the percentage of a data set's images of which a network is sure.

    Scores are kept as float16, whose neighbours of .99 are .98975 and .99023: what was .98999 counts as sure too.
    """
    sure = _is_sure(scores, dataset)
    return NO_SUCH_SET if sure is None else 100 * float(sure.mean())


def expected_accuracy_of(scores: Scores) -> ExpectedAccuracy:
    """Return the expected accuracy by per-row scores.

    Rounding to float16 may have raised each probability by up to `ROUNDING`. To stay an upper bound, `expected` adds
    this for each sure answer.
    """
    sure = _is_sure(scores, "mnist")
    if sure is None:
        return ExpectedAccuracy(0, 0, 0.0)
    wrong = np.asarray(scores["mnist/predicted"] != scores["mnist/label"])[sure]
    expected = 1 - scores["mnist/max_probability"].astype(np.float64)[sure] + ROUNDING
    return ExpectedAccuracy(int(sure.sum()), int(wrong.sum()), float(expected.sum()))


def _is_sure(scores: Scores, dataset: str) -> BoolArray | None:
    confidence = scores.get(f"{dataset}/max_probability")
    return None if confidence is None else np.asarray(confidence.astype(np.float64) >= SURE)


def confidence_table(inputs: Inputs) -> Table:
    """Return a row for each published and corrected recipe."""
    found = confidence(inputs)
    rows: list[list[Entry]] = [
        [
            *place,
            Measured(one.digits, PERCENT),
            Measured(one.right, CLOSE),
            Measured(one.expected, CLOSE),
            *(Measured(one.no_digits[name], PERCENT) for name in OOD_LABELS),
        ]
        for place, one in found.items()
    ]
    records = [record for one in found.values() for record in one.records]
    return Table(
        "confidence",
        "At least 99 % sure: how often, and how often right?",
        "Percent of images of which a network is at least 99 % sure: its largest probability, mean of 100 draws (one "
        "for a deterministic network), is at least .99. Of these right: percent of the sure answers on digits that are "
        "right. Expected: the least percent of right answers that the network's own probabilities predict. A network "
        "that gets less right than expected is overconfident. A picture that shows no digit has no right answer: "
        "there, to be sure is a mistake.",
        ["approach", "recipe", "digits", "of these right", "expected", *OOD_LABELS.values()],
        rows,
        [*_sampling_error(inputs, records), *_left_out(inputs, found)],
        conditions=inputs.conditions(records) if records else "No records.",
        origin=inputs.results.origin(),
    )


def _sampling_error(inputs: Inputs, records: Sequence[Record]) -> list[str]:
    """Return a note: how wide the binomial 95 % interval of a share can be (at 50 %), by the number of images."""
    scores = next((found for record in records if (found := inputs.scores(record))), None)
    if not scores:
        return []
    sizes = sorted({len(values) for name, values in scores.items() if name.endswith("/predicted")}, reverse=True)
    halves = [100 * 1.96 * math.sqrt(0.25 / size) for size in sizes]
    shown = ", ".join(
        f"\N{PLUS-MINUS SIGN}{half:.1f} of {size:,} images" for half, size in zip(halves, sizes, strict=True)
    )
    return [f"Images are a sample: the 95 % interval of a share of one seed is at most, in points, {shown}."]


def _left_out(inputs: Inputs, found: Mapping[RecipePlace, Confidence]) -> Iterator[str]:
    """Name the finished seeds that are left out, because older code did not record how often a network is sure."""
    missing = []
    for place, one in found.items():
        counted = {record.seed for record in one.records}
        seeds = [record.seed for record in inputs.finished(*place) if record.seed not in counted]
        if seeds:
            missing.append(f"{place.approach} {place.recipe} {', '.join(map(str, seeds))}")
    if missing:
        yield f"Seeds of older code, which did not record how often it is sure, are left out: {'; '.join(missing)}."
