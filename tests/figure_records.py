"""A results folder with made-up records of every approach, as large as figures need and no larger."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np

from bench.core.canonical import digest
from bench.core.store import Store
from bench.judge.claims import CLOSED_FORM, NATS_PER_BIT, load_claims, measured_key
from bench.show.figures.catalogue import render, survey
from bench.show.figures.figure import LECTURE, Figure
from bench.show.figures.lecture import SLIDE
from bench.show.figures.style import NARROW, WIDTH
from bench.show.inputs import Inputs
from tests.synthetic import record

ROWS, KEPT, DRAWS = 40, 3, 5  # of each set of pictures; pictures with all draws
SETS = ("mnist", "noise_gaussian", "noise_uniform", "fashion_mnist", "letters")
CLASSIFIERS = ("dropout_fcn", "pyro_hidden_layer", "pyro_random_module", "mlp", "linear_bbb", "mxnet_bbb")
STEPS = {
    "dropout_fcn": "published+cross-entropy",
    "pyro_hidden_layer": "published+kl-sign",
}  # single changes of ablations
SCORED = ("pyro_random_module", "mlp", "linear_bbb")  # with the answers to each picture


def fill(root: Path, seeds: tuple[int, ...] = (0,), profile: str = "full") -> None:
    """Write records of every approach under a folder."""
    store = Store(root)
    for seed in seeds:
        for approach in (*CLASSIFIERS, "toy_mlp", "toy_bbb"):
            store.write(_published(approach, seed, profile))
        for approach in CLASSIFIERS:
            for recipe in ("published", "corrected"):
                scores = _answers(approach, seed) if approach in SCORED and recipe == "corrected" else None
                store.write(_common(approach, recipe, seed, profile), scores)
        for approach, recipe in STEPS.items():
            store.write(_common(approach, recipe, seed, profile))


def _named(approach: str, recipe: str, protocol: str, seed: int, profile: str, **more: Any) -> dict[str, Any]:
    keys = {"key": digest([approach, recipe, protocol, seed]), "fit_key": _fit_key(approach, recipe, seed)}
    return record(approach, recipe, protocol, seed=seed, profile=profile, **keys, **more)


def _fit_key(approach: str, recipe: str, seed: int) -> str:
    return digest([approach, recipe, seed])


def _published(approach: str, seed: int, profile: str) -> dict[str, Any]:
    """Return a record that holds each reported number, a little off."""
    metrics: dict[str, float] = {}
    epochs: dict[int, dict[str, Any]] = {}
    for claim in load_claims():
        if claim.approach != approach or measured_key(claim)[0] == CLOSED_FORM:
            continue
        stage, key = measured_key(claim)
        value = claim.value + (0.3 + 0.1 * seed) * claim.margin
        value = min(value, 1.0) if claim.unit == "fraction" else value
        value *= NATS_PER_BIT if claim.unit == "bits" else 1
        if stage == "final":
            metrics[key] = value
        else:
            epochs.setdefault(int(stage.partition(":")[2]), {})[key] = value
    last = max(epochs)
    log = [{"epoch": number, "seconds": 1.0, **epochs.get(number, {})} for number in range(1, last + 1)]
    return _named(approach, "published", "published", seed, profile, metrics=metrics, epochs=log)


def _common(approach: str, recipe: str, seed: int, profile: str) -> dict[str, Any]:
    """Return a record of the common protocol whose curves and metrics go together."""
    shift = 0.01 * seed + (0.02 if recipe == "corrected" else 0.0)
    wrong = 0.1 - shift  # share of the test images
    edges = np.linspace(0, 1, 16)
    count = [0] * 7 + [10, 30, 40, 60, 90, 200, 300, 800]
    middle = ((edges[1:] + edges[:-1]) / 2).tolist()
    known = [value if n else None for value, n in zip(middle, count, strict=True)]
    doubt = 1 - float(
        np.average(middle, weights=count)
    )  # the mean over images; of each bin, wrong / doubt of it is wrong
    right = [None if value is None else 1 - (1 - value) * wrong / doubt for value in known]
    metrics = {"mnist/accuracy": 1 - wrong, "mnist/ece": abs(wrong - doubt)}
    coverage = np.linspace(0.01, 1, 30)
    risk = wrong * np.maximum(0, coverage - 0.4) / 0.6
    arrays = {
        "mnist/reliability": {
            "accuracy": right,
            "confidence": known,
            "count": count,
            "lower": edges[:-1].tolist(),
            "upper": edges[1:].tolist(),
        },
        "mnist/risk_coverage": {"coverage": coverage.tolist(), "risk": risk.tolist()},
    }
    return _named(approach, recipe, "common", seed, profile, metrics=metrics, arrays=arrays)


def _answers(approach: str, seed: int) -> dict[str, Any]:
    """Return the answers to each picture, as archives keep them; letters as many as the data set has."""
    noise = np.random.default_rng([seed, len(approach), 1])
    found: dict[str, Any] = {}
    for name in SETS:
        rows = 1000 if name == "letters" else ROWS
        found[f"{name}/log_others"] = noise.uniform(-12, -1, rows).astype(np.float32)
        found[f"{name}/predictive_entropy"] = noise.uniform(0, 2.3, rows).astype(np.float32)
        found[f"{name}/predicted"] = np.zeros(rows, np.int8)
        found[f"{name}/label"] = np.full(rows, 0 if name == "mnist" else -1, np.int8)
        votes = noise.multinomial(DRAWS, np.full(10, 0.1), rows)
        found[f"{name}/votes"] = votes.astype(np.uint8)
        found[f"{name}/max_probability"] = (votes.max(1) / DRAWS).astype(np.float16)
        logits = noise.normal(0, 4, (DRAWS, KEPT, 10))
        found[f"{name}/draws"] = (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float16)
    return found


def assert_drawn(figure: Figure) -> None:
    """Draw a figure as SVG and check its size; warnings (empty axes, logarithm of zero) are errors in all tests."""
    content = render(figure, "svg").decode()
    found = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', content)
    assert found is not None
    width, height = map(float, found.groups())
    assert width <= 72 * (SLIDE if figure.group == LECTURE else WIDTH) + 1, figure.name
    assert height <= 72 * 11, figure.name
    assert len(content) < 1_000_000, figure.name
    assert "<text" in content, figure.name  # text stays text
    if figure.narrow is not None:
        narrow = render(dataclasses.replace(figure, draw=figure.narrow), "svg").decode()
        assert float(re.findall(r'width="([\d.]+)pt"', narrow)[0]) <= 72 * NARROW + 1, figure.name


def filled(root: Path) -> Path:
    """Write what every figure needs under a folder, and return the folder.

    Records of every approach; test errors of two epochs of two approaches after Blundell et al. 2015.
    """
    fill(root)
    store = Store(root)
    for approach in ("blundell_sgd", "blundell_bbb"):
        epochs = [{"epoch": epoch, "seconds": 1.0, "mnist/test10k/error": 0.02 + 0.01 / epoch} for epoch in (1, 2)]
        store.write(_named(approach, "published", "published", 0, "full", epochs=epochs))
    return root


def figures(root: Path) -> list[Figure]:
    """Return the figures that a results folder makes."""
    return survey(Inputs(root))[0]


def missing(root: Path, profile: str = "full") -> dict[str, str]:
    """Return why other figures cannot be made, by name."""
    return {item.name: item.reason for item in survey(Inputs(root, profile))[1]}
