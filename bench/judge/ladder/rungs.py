"""What a ladder is made of.

A rung compares two numbers of the same seed. The two fits of a correction, a variant or a control are trained
separately and measured alike, by the common protocol unless `ladders.toml` names other numbers. A rung of measuring
compares two numbers of one fit.
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
"""Quantities of a ladder and their names in a record of the common protocol."""
Keys = Mapping[tuple[str, str], tuple[str, str]]
"""(data set, quantity) -> (source, key) as in `Place`: what is compared of two fits."""
INSIDE = ("accuracy", "nll", "ece", "entropy", "refusal")
OUTSIDE = ("entropy", "auroc", "refusal")
MNIST = "mnist"
SOURCES = ("published", "common", "reading")
ALONE, CUMULATIVE, CONTROL, VARIANT, MEASURING = "alone", "cumulative", "control", "variant", "measuring"


class Place(NamedTuple):
    """Where the number of a fit is stored, for every seed."""

    approach: str
    recipe: str
    source: str  # protocol of the record, or "reading"
    key: str

    def fit_text(self) -> str:
        """Return the fit's name for people."""
        return f"{self.approach} {self.recipe}"


@dataclass(frozen=True)
class Rung:
    """One change, and for each (data set, quantity) the numbers before and after it."""

    name: str
    kind: str
    title: str
    numbers: Mapping[tuple[str, str], tuple[Place, Place]]


class Step(NamedTuple):
    """A fit on the way from the baseline to a reported number, named after its change to the fit before."""

    name: str
    approach: str
    recipe: str


class Estimator(NamedTuple):
    """A way to measure the number of any fit: its name, and where it is stored."""

    name: str
    source: str  # as in `Place`
    key: str

    def of(self, step: Step) -> Place:
        """Return the place of this number of a step's fit."""
        return Place(step.approach, step.recipe, self.source, self.key)


@dataclass(frozen=True)
class Question:
    """A question about a reported number, answered from records."""

    question: str
    claim: str
    baseline: str  # the claim to compare with
    steps: tuple[Step, ...]  # from the baseline's fit to the number's own
    estimators: tuple[Estimator, ...]  # the document's first

    def places(self) -> Iterator[Place]:
        """Yield every number that the answer needs."""
        for estimator in self.estimators:
            yield from map(estimator.of, self.steps)


@dataclass(frozen=True)
class Ladder:
    """All rungs of an approach."""

    approach: str
    ood: tuple[str, ...]
    keys: Keys
    rungs: tuple[Rung, ...]
    question: Question | None = None

    def places(self) -> Iterator[Place]:
        """Yield every number that the ladder needs."""
        for rung in self.rungs:
            for pair in rung.numbers.values():
                yield from pair
        yield from self.start().values()
        if self.question is not None:
            yield from self.question.places()

    def start(self, recipe: str = "published") -> dict[tuple[str, str], Place]:
        """Return where the numbers of a recipe stand."""
        return places((self.approach, recipe), self.keys)


def between(before: tuple[str, str], after: tuple[str, str], keys: Keys) -> dict[tuple[str, str], tuple[Place, Place]]:
    """Return the numbers of two fits, each (approach, recipe)."""
    first, second = places(before, keys), places(after, keys)
    return {what: (first[what], second[what]) for what in first}


def places(fit: tuple[str, str], keys: Keys) -> dict[tuple[str, str], Place]:
    """Return where the numbers of a fit (approach, recipe) stand."""
    return {what: Place(*fit, *number) for what, number in keys.items()}


def common(ood: tuple[str, ...]) -> Keys:
    """Return what the common protocol has of every quantity."""
    wanted = [(MNIST, name) for name in INSIDE] + [(dataset, name) for dataset in ood for name in OUTSIDE]
    return {(dataset, name): ("common", f"{dataset}/{STORED[name]}") for dataset, name in wanted}
