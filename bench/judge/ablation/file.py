"""Reads single changes and questions from `results/reference/ablations.toml`, and checks them against the manifests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, get_args

from msgspec import Meta, field

from bench.core.errors import ConfigError
from bench.core.project import REFERENCE
from bench.core.toml import TomlTable, read_toml
from bench.data.manifest import OutsideSet
from bench.judge.ablation.single_changes import (
    CONTROL,
    MEASURING,
    MNIST,
    SOURCES,
    Estimator,
    Keys,
    MetricKey,
    Question,
    SingleChange,
    Step,
    between,
    common,
)
from bench.plan.recipes import resolve
from bench.plan.registry import manifest

ABLATIONS = REFERENCE / "ablations.toml"
EACH = "ood"  # stands for each out-of-distribution data set

Quantity = Literal["accuracy", "nll", "ece", "entropy", "auroc", "refusal", "error", "held_out_error"]


class _Control(TomlTable, frozen=True):
    name: str
    title: str
    before: str
    after: str


class _Measuring(TomlTable, frozen=True):
    name: str
    title: str
    numbers: dict[Literal["mnist", "ood", OutsideSet], dict[Quantity, tuple[str, str]]]


class _Step(TomlTable, frozen=True):
    name: str
    fit: str


class _Estimator(TomlTable, frozen=True):
    name: str
    number: str


class _Answer(TomlTable, frozen=True):
    question: str
    claim: str
    baseline: str
    step: Annotated[tuple[_Step, ...], Meta(min_length=2)]  # from the fit of the baseline to the fit of the claim
    estimator: Annotated[tuple[_Estimator, ...], Meta(min_length=1)]  # the document's own is the first


class SingleChangeEntry(TomlTable, frozen=True):
    """The entry of one approach; the head of the file explains the fields."""

    ood: tuple[OutsideSet, ...] = get_args(OutsideSet)
    fit: dict[Quantity, str] = field(default_factory=dict)  # numbers on mnist to compare; {}: of the common protocol
    base: str = "published"
    variants: tuple[str, ...] | None = None
    control: tuple[_Control, ...] = ()
    measuring: tuple[_Measuring, ...] = ()
    answer: _Answer | None = None


@lru_cache(maxsize=4)  # a page of all reported numbers asks for it hundreds of times
def read_entries(path: Path = ABLATIONS) -> dict[str, SingleChangeEntry]:
    """Return the entries by approach; raises ConfigError."""
    return read_toml(path, dict[str, SingleChangeEntry], "ablations")


def keys(entry: SingleChangeEntry, where: str) -> Keys:
    """Return which numbers of two fits are compared; raises ConfigError, which begins with `where`."""
    own: Keys = {(MNIST, quantity): _number(text, where) for quantity, text in entry.fit.items()}
    return own or common(entry.ood)


def controls(entry: SingleChangeEntry, compared: Keys, where: str) -> Iterator[SingleChange]:
    """Yield the single changes that compare fits of any approaches; raises ConfigError, which begins with `where`."""
    for body in entry.control:
        before, after = _fit(body.before, where), _fit(body.after, where)
        yield SingleChange(body.name, CONTROL, body.title, between(before, after, compared))


def measuring(entry: SingleChangeEntry, approach: str, where: str) -> Iterator[SingleChange]:
    """Yield the single changes that compare two numbers of one fit; raises ConfigError, which begins with `where`."""
    for body in entry.measuring:
        numbers: dict[tuple[str, str], tuple[MetricKey, MetricKey]] = {}
        for name, quantities in body.numbers.items():
            for quantity, (before, after) in quantities.items():
                for dataset in entry.ood if name == EACH else (name,):
                    here = (end.replace(f"{EACH}/", f"{dataset}/") for end in (before, after))
                    first, second = (MetricKey(approach, "published", *_number(end, where)) for end in here)
                    numbers[dataset, quantity] = (first, second)
        yield SingleChange(body.name, MEASURING, body.title, numbers)


def question(entry: SingleChangeEntry, where: str) -> Question | None:
    """Return the question that the ablation answers, if any; raises ConfigError, which begins with `where`."""
    asked = entry.answer
    if asked is None:
        return None
    steps = tuple(Step(step.name, *_fit(step.fit, where)) for step in asked.step)
    estimators = tuple(Estimator(each.name, *_number(each.number, where)) for each in asked.estimator)
    return Question(asked.question, asked.claim, asked.baseline, steps, estimators)


def _number(text: str, where: str) -> tuple[str, str]:
    source, _, key = text.partition(" ")
    if source not in SOURCES or "/" not in key:
        raise ConfigError(f"{where}: '{text}' is not a number; give 'SOURCE KEY', SOURCE one of {', '.join(SOURCES)}")
    return source, key


def _fit(text: str, where: str) -> tuple[str, str]:
    approach, _, recipe = text.partition(" ")
    if not recipe:
        raise ConfigError(f"{where}: '{text}' is not a fit; give 'APPROACH RECIPE'")
    resolve(manifest(approach), recipe)
    return approach, recipe
