"""Trains the methods of a task's column, each with the choice of held-out rows, and measures how they predict."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

import bench.interface as contract
from bench.core.errors import ConfigError, Diverged, MissingFramework, check_known
from bench.core.metric_table import N_CLASSES
from bench.core.project import RESULTS
from bench.core.text import one_line
from bench.interface import Approach, Posterior, Split
from bench.measure.measuring import block_rows, categorical, draws_of
from bench.plan.registry import load_class, manifests
from bench.posterior import regression
from bench.posterior.columns import NLL, Column, Method, Tell, Trained, Value
from bench.posterior.distance import Floats, log_mean
from bench.posterior.reference import FOLDER, LOG_LIKELIHOOD
from bench.posterior.scoring import numbers, of_reference
from bench.posterior.tasks import DIGITS
from bench.run.own import FitAlone

CHOICE_SEED, HELD_OUT = 1000, 5  # the run seed of the choice; one training row in HELD_OUT is held out for it


def train_all(column: Column, names: list[str], tell: Tell, seeds: Sequence[int]) -> dict[tuple[str, int], Trained]:
    """Train what is missing, and return all trained methods by name and seed.

    Args:
        column: the task.
        names: of the methods, or of approaches; [] for all methods.
        tell: is told of each training, of what could not be trained, and of what could not be read.
        seeds: to train each method with.

    Raises:
        ConfigError: an unknown name, or a weight of the KL that the rows do not allow.
        StoreError: the file cannot be written.
    """
    approaches = manifests() if column.task.kind == "classification" else {}
    check_known("method or approach", [*column.methods, *approaches], *names)
    found = column.add(*of_reference(column, column.stored(tell)))
    for name in names or column.methods:
        method, missing = column.method(name), [seed for seed in seeds if (name, seed) not in found]
        if not missing:
            continue
        try:
            chosen = _chosen_before(found, name) or best_of(column, method)
            for seed in missing:
                train = partial(measured, column, method, chosen, seed)
                one = column.line(name, chosen, seed, train)
                found = column.add(one)  # others may have trained meanwhile
                tell(f"{method.title}, seed {seed}: {one.why or _described(column, one.metrics)}")
        except (Diverged, MissingFramework) as error:
            tell(f"{method.title} is not trained: {error}")
    return found


def expected(column: Column, names: list[str], seeds: Sequence[int]) -> tuple[float, list[str]]:
    """Return the CPU seconds of what is missing, by the shipped trainings, and the titles of methods without one.

    A method whose choices are not made yet trains once more for each.
    """
    found = column.stored(_nothing)
    shipped = dataclasses.replace(column, path=RESULTS / FOLDER / column.path.name).stored(_nothing)
    total, unknown = 0.0, []
    for name in names or column.methods:
        method, missing = column.method(name), sum((name, seed) not in found for seed in seeds)
        times = [one.seconds for source in (found, shipped) for (given, _), one in source.items() if given == name]
        n_choices = len(method.grid()) if _chosen_before(found, name) is None else 1
        if missing and times:
            total += sum(times) / len(times) * (missing + (n_choices if n_choices > 1 else 0))
        elif missing:
            unknown.append(method.title)
    return total, unknown


def _nothing(text: str) -> None:
    """Say nothing."""


def _described(column: Column, metrics: Mapping[str, float]) -> str:
    """Return the two numbers of a trained method that a watcher wants."""
    rows, metric = column.reference.main
    quality = NLL if rows == DIGITS else LOG_LIKELIHOOD
    return f"{metric} {metrics[f'{rows}/{metric}']:.4f} on {rows}, {quality} {metrics[f'{rows}/{quality}']:.4f}"


def _chosen_before(found: Mapping[tuple[str, int], Trained], name: str) -> dict[str, Value] | None:
    return next((one.chosen for (given, _), one in found.items() if given == name), None)


def best_of(column: Column, method: Method) -> dict[str, Value]:
    """Return the choices with the least NLL of held-out training rows; those that diverge are not taken.

    Raises:
        Diverged: all choices diverge.
    """
    grid = method.grid()
    if len(grid) == 1:
        return grid[0]
    train = column.data.train
    held = torch.arange(len(train)) % HELD_OUT == 0
    kept, left_out = train.select(~held), train.select(held)
    found = [_held_out_nll(column, method, chosen, kept, left_out) for chosen in grid]
    if min(found) == math.inf:
        raise Diverged(f"all {len(grid)} choices diverged on held-out rows")
    return grid[found.index(min(found))]


def _held_out_nll(column: Column, method: Method, chosen: dict[str, Value], kept: Split, left_out: Split) -> float:
    """Return infinity where the fit diverges."""
    try:
        if column.task.kind == "regression":
            return regression.nll(column, method, chosen, CHOICE_SEED, kept, left_out)
        return _nll(fitted(column, method, chosen, CHOICE_SEED, kept), method, left_out)
    except Diverged:
        return math.inf


def _nll(posterior: Posterior, method: Method, split: Split) -> float:
    logs = log_probabilities(posterior, method.draws, split)
    return float(-log_mean(logs[:, np.arange(len(split)), split.y.numpy()]).mean())


def fitted(column: Column, method: Method, chosen: Mapping[str, Value], seed: int, train: Split) -> Posterior:
    """Train a method on rows of a task.

    Raises:
        Diverged: the loss or a matrix is no longer finite.
        ConfigError: see `built` and `Method.rows_for_kl`; or a user's approach cannot train on the task's rows.
        MissingFramework: see `built`.
    """
    approach = built(method, column.prior_sd, chosen)
    has_prior = any(field.name == "prior_std" for field in dataclasses.fields(approach))
    decay = 0.0 if has_prior else 1 / (len(train) * column.prior_sd**2)
    hidden, n_rows = (column.task.n_hidden,), method.rows_for_kl(len(train))
    task = contract.Task("classification", N_CLASSES, n_rows, train.x.shape[1], hidden, decay)
    try:
        return approach.fit(train, task, FitAlone(seed, torch.device("cpu"), None, None))
    except regression.SINGULAR as error:
        raise Diverged(f"linear algebra: {error}") from error
    except (RuntimeError, ValueError, TypeError) as error:
        if method.title != method.approach:  # one of methods.toml
            raise
        raise ConfigError(
            f"{method.approach} does not fit rows of {task.n_inputs} numbers: {one_line(str(error))}; its `fit` must "
            "make the network that the task asks for: n_inputs, hidden, n_outputs, weight_decay"
        ) from error


def built(method: Method, prior_sd: float, chosen: Mapping[str, Value]) -> Approach:
    """Return the approach of a method with its hyper-parameters and the task's prior.

    Raises:
        MissingFramework: a package that it needs is not installed.
        ConfigError: the approach lacks a hyper-parameter.
    """
    made = load_class(method.approach)
    names = [field.name for field in dataclasses.fields(made)]
    values = {**method.values, **chosen}
    check_known(f"hyper-parameter of {method.approach}", names, *values)
    if "prior_std" in names and not method.own_prior:
        values["prior_std"] = prior_sd
    return made(**values)  # type: ignore[arg-type]  # names are checked above


def measured(column: Column, method: Method, chosen: Mapping[str, Value], seed: int) -> dict[str, float]:
    """Train with one seed and return SET/METRIC, see `scoring.numbers`."""
    if column.task.kind == "regression":
        return numbers(column, regression.predictions(column, method, chosen, seed))
    posterior = fitted(column, method, chosen, seed, column.data.train)
    return numbers(
        column, {name: log_probabilities(posterior, method.draws, split) for name, split in column.data.sets.items()}
    )


def log_probabilities(posterior: Posterior, n_draws: int, split: Split) -> Floats:
    """Return the log-probabilities of a split's rows by draw, float64 [S, B, K]; n_draws 0: all that it keeps.

    Raises:
        Diverged: one is not a number.
    """
    draws = draws_of(posterior, n_draws or posterior.n_draws or 1)
    found: Floats = np.concatenate([block.double().numpy() for block in _blocks(posterior, draws, split)], axis=1)
    if np.isnan(found).any():
        raise Diverged(f"a prediction of {split.name} is not a number")
    return found


def _blocks(posterior: Posterior, draws: range, split: Split) -> Iterator[Tensor]:
    for part in torch.split(torch.arange(len(split)), block_rows(posterior, len(draws))):
        yield categorical(posterior, split.x[part], draws, split.rows[part])
