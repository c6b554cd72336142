"""Rungs and questions of `results/reference/ladders.toml`, checked against the manifests."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.core.errors import ConfigError, unknown_name
from bench.core.project import REFERENCE
from bench.judge.ladder.rungs import (
    CONTROL,
    MEASURING,
    MNIST,
    OOD,
    SOURCES,
    STORED,
    Estimator,
    Place,
    Question,
    Rung,
    Step,
    between,
)
from bench.plan.recipes import resolve
from bench.plan.registry import manifest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LADDERS = REFERENCE / "ladders.toml"
EACH = "ood"  # in the place of a data set: a line for each that is off the training distribution
_FIELDS = {"ood", "control", "measuring", "answer"}


def read_file(path: Path = LADDERS) -> dict[str, Any]:
    """Return the file of ladders; raises ConfigError where it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"ladders {path} cannot be read: {error}") from error


def data_sets(raw: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Return the data sets off the training distribution of one approach's entry; raises ConfigError."""
    _check_keys(where, raw, set(), _FIELDS)
    names = tuple(raw.get("ood", OOD))
    for name in names:
        if name not in OOD:
            raise unknown_name(f"data set in {where}", name, OOD)
    return names


def controls(raw: Mapping[str, Any], where: str, ood: tuple[str, ...]) -> Iterator[Rung]:
    """Yield the comparisons of fits of any approaches; raises ConfigError."""
    for body in raw.get("control", ()):
        _check_keys(f"control of the {where}", body, {"name", "title", "before", "after"})
        fits = [_fit(body[end], where) for end in ("before", "after")]
        yield Rung(body["name"], CONTROL, body["title"], between(fits[0], fits[1], ood))


def measuring(raw: Mapping[str, Any], approach: str, ood: tuple[str, ...]) -> Iterator[Rung]:
    """Yield the comparisons of two numbers of one fit; raises ConfigError."""
    for body in raw.get("measuring", ()):
        where = f"rung '{body.get('name')}' of {approach}"
        _check_keys(where, body, {"name", "title", "numbers"})
        numbers: dict[tuple[str, str], tuple[Place, Place]] = {}
        for name, quantities in body["numbers"].items():
            if name not in (MNIST, EACH, *OOD):
                raise unknown_name(f"data set in {where}", name, (MNIST, EACH, *OOD))
            for quantity, ends in quantities.items():
                if quantity not in STORED:
                    raise unknown_name(f"quantity in {where}", quantity, STORED)
                if not isinstance(ends, list) or len(ends) != 2:
                    raise ConfigError(f"{where}: {name} {quantity} needs two numbers, before and after")
                for dataset in ood if name == EACH else (name,):
                    here = (end.replace(f"{EACH}/", f"{dataset}/") for end in ends)
                    first, second = (_place(f"{approach} published", end, where) for end in here)
                    numbers[dataset, quantity] = (first, second)
        yield Rung(body["name"], MEASURING, body["title"], numbers)


def question(body: Mapping[str, Any], where: str) -> Question:
    """Return the question that the ladder answers; raises ConfigError."""
    _check_keys(where, body, {"question", "claim", "baseline", "step", "estimator"})
    steps = []
    for step in body["step"]:
        _check_keys(f"step of the {where}", step, {"name", "fit"})
        steps.append(Step(step["name"], *_fit(step["fit"], where)))
    if len(steps) < 2:
        raise ConfigError(f"{where}: needs two steps or more, the baseline's fit first and the number's own last")
    estimators = []
    for estimator in body["estimator"]:
        _check_keys(f"estimator of the {where}", estimator, {"name", "number"})
        estimators.append(Estimator(estimator["name"], *_number(estimator["number"], where)))
    if not estimators:
        raise ConfigError(f"{where}: needs an estimator, the document's first")
    return Question(body["question"], body["claim"], body["baseline"], tuple(steps), tuple(estimators))


def _place(fit: str, number: str, where: str) -> Place:
    return Place(*_fit(fit, where), *_number(number, where))


def _number(text: str, where: str) -> tuple[str, str]:
    source, _, key = text.partition(" ")
    if source not in SOURCES or "/" not in key:
        raise ConfigError(f"{where}: '{text}' is no number; give 'SOURCE KEY', SOURCE one of {', '.join(SOURCES)}")
    return source, key


def _fit(text: str, where: str) -> tuple[str, str]:
    approach, _, recipe = text.partition(" ")
    if not recipe:
        raise ConfigError(f"{where}: '{text}' is no fit; give 'APPROACH RECIPE'")
    resolve(manifest(approach), recipe)
    return approach, recipe


def _check_keys(where: str, body: Mapping[str, Any], needed: set[str], optional: set[str] | None = None) -> None:
    missing, unknown = needed - set(body), set(body) - needed - (optional or set())
    if missing or unknown:
        raise ConfigError(f"{where}: unknown keys {sorted(unknown)}, missing keys {sorted(missing)}")
