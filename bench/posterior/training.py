"""Trains the methods of a task's column, each with the choice of held-out rows, and measures how they predict."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np
import torch
from torch import Tensor

import bench.interface as contract
from bench.core import environment
from bench.core.canonical import seal
from bench.core.errors import ConfigError, Diverged, MissingFramework, check_known
from bench.core.files import write_atomically
from bench.core.metric_table import N_CLASSES
from bench.core.project import RESULTS
from bench.core.text import one_line
from bench.interface import Approach, Posterior, Split
from bench.measure.measuring import block_rows, categorical, draws_of
from bench.measure.metrics.classification import accuracy
from bench.measure.metrics.ood import auroc
from bench.measure.metrics.uncertainty import entropy
from bench.plan.registry import load_class, manifests
from bench.posterior.columns import (
    ACCURACY,
    AUROC,
    HMC,
    NLL,
    SCHEMA,
    Column,
    Method,
    Tell,
    Trained,
    Value,
    method_named,
    methods,
)
from bench.posterior.compare import compared
from bench.posterior.distance import Floats, log_mean
from bench.posterior.reference import FOLDER, JOINT
from bench.posterior.tasks import DIGITS, TaskData
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
    found = column.stored(tell)
    check_known("method or approach", [*methods(), *manifests()], *names)
    if (HMC, 0) not in found:
        found[HMC, 0] = _line(column, None, HMC, {}, 0, partial(quality_of_reference, column))
        _write(column, found)
    for name in names or methods():
        method, missing = method_named(name), [seed for seed in seeds if (name, seed) not in found]
        if not missing:
            continue
        try:
            chosen = _chosen_before(found, name) or best_of(column, method)
            for seed in missing:
                train = partial(measured, column, method, chosen, seed)
                found[name, seed] = one = _line(column, method, name, chosen, seed, train)
                _write(column, found)
                tell(f"{method.title}, seed {seed}: {one.why or described(one.metrics)}")
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
    for name in names or methods():
        method, missing = method_named(name), sum((name, seed) not in found for seed in seeds)
        times = [one.seconds for source in (found, shipped) for (given, _), one in source.items() if given == name]
        n_choices = len(method.grid()) if _chosen_before(found, name) is None else 1
        if missing and times:
            total += sum(times) / len(times) * (missing + (n_choices if n_choices > 1 else 0))
        elif missing:
            unknown.append(method.title)
    return total, unknown


def _nothing(text: str) -> None:
    """Say nothing."""


def _chosen_before(found: Mapping[tuple[str, int], Trained], name: str) -> dict[str, Value] | None:
    return next((one.chosen for (given, _), one in found.items() if given == name), None)


def _line(
    column: Column,
    method: Method | None,
    name: str,
    chosen: dict[str, Value],
    seed: int,
    measure: Callable[[], dict[str, float]],
) -> Trained:
    start = time.process_time()
    try:
        metrics, why = measure(), ""
    except Diverged as error:
        metrics, why = {}, str(error)
    seconds = time.process_time() - start
    made = msgspec.structs.replace(environment.describe(torch.get_num_threads()), measured=environment.now())
    return Trained(SCHEMA, column.definition(method), name, seed, chosen, metrics, seconds, why, made)


def _write(column: Column, found: Mapping[tuple[str, int], Trained]) -> None:
    write_atomically(column.path, b"".join(map(seal, found.values())), column.path.parent)


def quality_of_reference(column: Column) -> dict[str, float]:
    """Return how well the reference predicts, as `quality`, and its joint log-loss."""
    tiny = np.finfo(np.float16).smallest_subnormal  # its probabilities are kept in half precision
    probs = {name: np.maximum(column.reference.predictive(name), tiny) for name in column.reference.sets}
    found = quality(column.data, {name: np.log(one)[None] for name, one in probs.items()})
    return found | {f"{DIGITS}/{JOINT}": column.reference.about.joint_log_loss}


def described(metrics: Mapping[str, float]) -> str:
    """Return the two numbers of a trained method that a watcher wants."""
    return f"total variation {metrics[f'{DIGITS}/total variation']:.4f} on digits, NLL {metrics[f'{DIGITS}/{NLL}']:.4f}"


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
    except (torch.linalg.LinAlgError, np.linalg.LinAlgError) as error:  # type: ignore[attr-defined]  # not in torch's types
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
    """Train with one seed and return SET/METRIC: distances, and what they are compared with."""
    posterior = fitted(column, method, chosen, seed, column.data.train)
    logs = {name: log_probabilities(posterior, method.draws, split) for name, split in column.data.sets.items()}
    rows = compared(column.reference, column.data, {name: np.exp(values) for name, values in logs.items()})
    found = {f"{row.set}/{row.metric}": row.value for row in rows}
    return found | quality(column.data, logs)


def quality(data: TaskData, logs: Mapping[str, Floats]) -> dict[str, float]:
    """Return NLL and accuracy of the digits, and how well the entropy tells each other set from them.

    logs: log-probabilities by set, [S, B, K].
    """
    means = {name: log_mean(values) for name, values in logs.items()}
    labels, doubts = data.sets[DIGITS].y.numpy(), {name: entropy(mean) for name, mean in means.items()}
    found = {
        f"{DIGITS}/{NLL}": float(-means[DIGITS][np.arange(len(labels)), labels].mean()),
        f"{DIGITS}/{ACCURACY}": accuracy(np.exp(means[DIGITS]), labels),
    }
    return found | {f"{name}/{AUROC}": auroc(doubts[DIGITS], doubts[name]) for name in means if name != DIGITS}


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
