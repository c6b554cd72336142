"""The parts of an ablation.

Here a fit is an approach and a recipe, with all its seeds. A single change compares two numbers seed by seed. A
correction, a variant or a control compares two fits that are measured in the same way: by the common protocol, unless
`ablations.toml` names other numbers. A measuring single change compares two numbers of one fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

STORED = {
    "accuracy": "accuracy",
    "nll": "nll",
    "ece": "ece",
    "entropy": "predictive_entropy",
    "auroc": "auroc_predictive_entropy",
    "refusal": "refusal_rate",
}
"""Quantity of an ablation -> its name in a record of the common protocol."""
Keys = Mapping[tuple[str, str], tuple[str, str]]
"""(data set, quantity) -> (source, key) of `MetricKey`: the numbers of two fits that are compared."""
INSIDE = ("accuracy", "nll", "ece", "entropy", "refusal")  # quantities on mnist
OUTSIDE = ("entropy", "auroc", "refusal")  # quantities on the other data sets
MNIST = "mnist"
SOURCES = ("published", "common", "derived")
ALONE, CUMULATIVE, CONTROL, VARIANT, MEASURING = "alone", "cumulative", "control", "variant", "measuring"


class MetricKey(NamedTuple):
    """Where a number of a fit is stored, the same for every seed."""

    approach: str
    recipe: str
    source: str  # protocol of the record, or "derived"
    key: str

    def fit_text(self) -> str:
        """Return the name of the fit."""
        return f"{self.approach} {self.recipe}"


@dataclass(frozen=True)
class SingleChange:
    """One change, and for each (data set, quantity) the numbers before and after it."""

    name: str
    kind: str
    title: str
    numbers: Mapping[tuple[str, str], tuple[MetricKey, MetricKey]]


class Step(NamedTuple):
    """A fit between the baseline and a reported number, named after what it changes of the fit before."""

    name: str
    approach: str
    recipe: str


class Estimator(NamedTuple):
    """A way to measure a number: its name, and where records or derived metrics have the number."""

    name: str
    source: str  # as in `MetricKey`
    key: str

    def of(self, step: Step) -> MetricKey:
        """Return where the number of a step's fit is stored."""
        return MetricKey(step.approach, step.recipe, self.source, self.key)


@dataclass(frozen=True)
class Question:
    """A question about a reported number, which records answer."""

    question: str
    claim: str
    baseline: str  # the claim to compare with
    steps: tuple[Step, ...]  # from the fit of the baseline to the fit of the claim
    estimators: tuple[Estimator, ...]  # the document's own is the first

    def places(self) -> Iterator[MetricKey]:
        """Yield every number that the answer needs."""
        for estimator in self.estimators:
            yield from map(estimator.of, self.steps)


@dataclass(frozen=True)
class Ablation:
    """All single changes of an approach."""

    approach: str
    ood: tuple[str, ...]
    keys: Keys
    single_changes: tuple[SingleChange, ...]
    question: Question | None = None

    def places(self) -> Iterator[MetricKey]:
        """Yield every number that the ablation needs."""
        for single_change in self.single_changes:
            for pair in single_change.numbers.values():
                yield from pair
        yield from self.start().values()
        if self.question is not None:
            yield from self.question.places()

    def start(self, recipe: str = "published") -> dict[tuple[str, str], MetricKey]:
        """Return where the compared numbers of a recipe are stored."""
        return places((self.approach, recipe), self.keys)


def between(
    before: tuple[str, str], after: tuple[str, str], keys: Keys
) -> dict[tuple[str, str], tuple[MetricKey, MetricKey]]:
    """Return where the compared numbers of two fits, each (approach, recipe), are stored."""
    first, second = places(before, keys), places(after, keys)
    return {what: (first[what], second[what]) for what in first}


def places(fit: tuple[str, str], keys: Keys) -> dict[tuple[str, str], MetricKey]:
    """Return where the compared numbers of a fit (approach, recipe) are stored."""
    return {what: MetricKey(*fit, *number) for what, number in keys.items()}


def common(ood: tuple[str, ...]) -> Keys:
    """Return the numbers to compare by default: all quantities of the common protocol."""
    wanted = [(MNIST, name) for name in INSIDE] + [(dataset, name) for dataset in ood for name in OUTSIDE]
    return {(dataset, name): ("common", f"{dataset}/{STORED[name]}") for dataset, name in wanted}
