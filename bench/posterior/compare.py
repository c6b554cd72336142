"""The distance of anyone's predictions to a reference posterior: `bench.distance`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bench.core.errors import ConfigError, check_known
from bench.interface import Split
from bench.measure.given import as_array, log_probabilities
from bench.posterior.distance import (
    Floats,
    joint_log_loss,
    mixture_log_density,
    mixture_quantiles,
    normal_log_density,
    wasserstein,
)
from bench.posterior.reference import (
    AGREEMENT,
    JOINT,
    LOG_LIKELIHOOD,
    TOTAL_VARIATION,
    WASSERSTEIN,
    Reference,
    between,
    find,
    refusals,
)
from bench.posterior.tasks import DIGITS, TEST, TaskData, load, task_named

TIMES_FLOOR = 2.0
NOT_RANKED = "within twice the floor: not ranked"
NO_FLOOR = "no floor: not ranked"
REFUSED = "the reference is refused: not ranked"
MEAN, SD = "mean", "sd"
PERFECT = {TOTAL_VARIATION: 0.0, AGREEMENT: 1.0, WASSERSTEIN: 0.0}  # what the reference has to itself

Given = Mapping[str, ArrayLike]


class Row(NamedTuple):
    """A row of `distance`."""

    set: str
    metric: str
    value: float
    reference: float
    distance: float
    floor: float
    note: str


def distance(
    predictions: Given | ArrayLike,
    task: str,
    results: str | Path | None = None,
    data_dir: str | Path | None = None,
) -> pd.DataFrame:
    """Return how far predictions are from a task's reference posterior, a row for each set and metric.

    `bench.task_rows` has the rows to train on and to predict. A distance is the difference between a value and
    the reference's; its floor is that between the reference's two sets of chains. Methods within twice the floor are
    as near as can be told: they are not ranked. The joint log-loss has no floor (NaN): it depends on the number of
    draws, and the reference's is not kept by chain.

    Args:
        predictions: probabilities of the classes [B, K], or of S draws [S, B, K], or their logs, for the digits; or a
            dict with such arrays by set: digits, letters, clothes, noise, turned. For a regression, a dict of "mean"
            and "sd" of the target's normal in its own unit, [B], or [S, B] of S draws.
        task: its name; `python -m bench posterior` lists them.
        results: folder with the references, by default ./results; what it lacks comes with the suite.
        data_dir: folder with the data sets, looked at first.

    Raises:
        ConfigError: an unknown task or set, arrays of another shape, or no reference.
        StoreError: the reference cannot be read.
    """
    definition = task_named(task)
    reference = find(task, definition, None if results is None else Path(results))
    data = load(definition, None if data_dir is None else Path(data_dir))
    return pd.DataFrame(compared(reference, data, predictions), columns=Row._fields)


def task_rows(task: str, data_dir: str | Path | None = None) -> TaskData:
    """Return the rows of a task: `train` to learn from, and `sets` to predict, by name.

    Raises:
        ConfigError: an unknown task.
        DataMissing, DataCorrupt, MissingFramework: see `tasks.load`.
    """
    return load(task_named(task), None if data_dir is None else Path(data_dir))


def compared(reference: Reference, data: TaskData, predictions: Given | ArrayLike) -> list[Row]:
    """Return the rows of `distance`; raises ConfigError for arrays that cannot be used."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    if not reference.sets:
        found[TEST] = _regression(reference, data, predictions)
    else:
        given = predictions if isinstance(predictions, Mapping) else {DIGITS: predictions}
        check_known("set", reference.sets, *given)
        for name, array in given.items():
            found[name] = _classification(reference, data.sets[name], array)
    is_refused, rows = bool(refusals(reference)), []
    for name, values in found.items():
        for metric, (value, known) in values.items():
            apart, floor = abs(value - known), reference.floor[name].get(metric, math.nan)
            rows.append(Row(name, metric, value, known, apart, floor, _note(apart, floor, is_refused)))
    return rows


def _note(apart: float, floor: float, is_refused: bool) -> str:
    if is_refused:
        return REFUSED
    if math.isnan(floor):
        return NO_FLOOR
    return NOT_RANKED if apart <= TIMES_FLOOR * floor else ""


def _classification(reference: Reference, split: Split, given: ArrayLike) -> dict[str, tuple[float, float]]:
    """Return a set's values, and those of the reference."""
    logs = log_probabilities(split.name, as_array(split.name, given), len(split)).double().numpy()
    near = between(np.exp(logs).mean(axis=0), reference.predictive(split.name))
    found = {metric: (value, PERFECT[metric]) for metric, value in near.items()}
    if split.name == DIGITS:
        chosen = logs[:, np.arange(len(split)), split.y.numpy()]
        found[JOINT] = (joint_log_loss(chosen), reference.about.joint_log_loss)
    return found


def normals(given: object, n: int) -> dict[str, Floats]:
    """Return "mean" and "sd" of a regression's n rows, float64 [S, n]; raises ConfigError if they cannot be used."""
    if not isinstance(given, Mapping) or given.keys() != {MEAN, SD}:
        raise ConfigError(
            f'a regression needs a dict of "{MEAN}" and "{SD}" of each draw, [B] or [S, B], and nothing else'
        )
    wanted = f"[{n}], or [S, {n}] of S draws, at least one"
    mean, sd = (np.atleast_2d(as_array(key, given[key], wanted).astype(np.float64)) for key in (MEAN, SD))
    if mean.ndim != 2 or not len(mean) or mean.shape[1] != n or sd.shape != mean.shape:
        raise ConfigError(f'"{MEAN}" {mean.shape} and "{SD}" {sd.shape} were given; both must be {wanted}')
    if not (np.isfinite(mean).all() and np.isfinite(sd).all() and (sd > 0).all()):
        raise ConfigError(f'"{MEAN}" must be finite, and "{SD}" finite and above 0')
    return {MEAN: mean, SD: sd}


def _regression(reference: Reference, data: TaskData, given: Given | ArrayLike) -> dict[str, tuple[float, float]]:
    found, y = normals(given, len(data.sets[TEST])), data.targets()
    mean, sd = found[MEAN], found[SD]
    moved = wasserstein(mixture_quantiles(mean, sd), reference.quantiles())
    return {
        WASSERSTEIN: (moved, PERFECT[WASSERSTEIN]),
        LOG_LIKELIHOOD: (float(mixture_log_density(mean, sd, y).mean()), reference.log_likelihood()),
        JOINT: (joint_log_loss(normal_log_density(mean, sd, y)), reference.about.joint_log_loss),
    }
