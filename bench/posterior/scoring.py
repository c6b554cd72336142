"""Numbers of a task's column for predictions from anywhere; `bench.score`, for a model that is trained already."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.core.errors import ConfigError
from bench.core.files import write_atomically
from bench.core.score_files import packed
from bench.measure.given import as_array, log_probabilities
from bench.measure.metrics.classification import accuracy
from bench.measure.metrics.ood import auroc
from bench.measure.metrics.uncertainty import entropy
from bench.posterior.columns import ACCURACY, AUROC, HMC, NLL, RMSE, Column, Lines, Tell, Trained, given_name
from bench.posterior.compare import MEAN, SD, Given, compared, normals
from bench.posterior.distance import Floats, log_mean
from bench.posterior.reference import JOINT, LOG_LIKELIHOOD
from bench.posterior.tasks import DIGITS, TEST, TRAIN, TaskData, load, task_named
from bench.run import scoring

Predict = Callable[[NDArray[np.float32]], object]


def score(
    predict: Predict,
    name: str = "mine",
    results: str | Path = "my-results",
    data_dir: str | Path | None = None,
    *,
    profile: str = "full",
    task: str | None = None,
) -> Path:
    """Measure a trained model as a run measures its own, and write its numbers, for rows in tables; return their file.

    `predict` gets all images of a set at once: MNIST's test digits, letters, clothes, noise, and digits turned and
    moved. Of S draws, draw s should be one network for all images of a set. One with noise of its own for each image,
    such as dropout, is found out, and has no spread of accuracies over draws.

    With a task of the reference posteriors, `predict` gets the rows of each of its sets (`bench.task_rows(task).sets`)
    and the row, `NAME (not retrained)`, stands in the table of `python -m bench posterior --methods TASK`.

    Args:
        predict: takes images, float32 [n, 28, 28] in [0, 1] (Gaussian noise: also outside), or a task's rows, float32
            [n, inputs]; returns the probabilities of the digits 0 to 9, [n, 10] of one draw or [S, n, 10] of S draws,
            as an array of NumPy, PyTorch or any library whose arrays NumPy reads; better their logs, which do not round
            to 0. For a regression, the dict of "mean" and "sd" of `bench.distance`.
        name: what tables call the model, no approach's name. A name that is scored again replaces its numbers, all
            at once: if this process is killed, either all are the old ones, or all the new ones.
        results: folder for the numbers; `python -m bench table choice --results FOLDER` has a row.
        data_dir: folder with the data sets, looked at first.
        profile: full, or smoke for the first 128 images of each set; a task has all its rows.
        task: None for MNIST, or a task of `python -m bench posterior`.

    Raises:
        ConfigError: a name, profile, task or predictions that cannot be used; the error says what is allowed.
        StoreError: the folder cannot be written.
    """
    if task is None:
        return scoring.score(predict, name, results, data_dir, profile=profile)
    scoring.check_name(name)
    scoring.check_profile(profile)
    column = Column.of(task, task_named(task), Path(results), None if data_dir is None else Path(data_dir))
    found = _predicted(column.data, predict)
    return _add(column, name, found, lambda text: warnings.warn(text, stacklevel=5))


def score_file(path: Path, name: str, column: Column, warn: Tell) -> Path:
    """Measure the predictions of a file for the rows of `export`; write, return and raise as `score` does.

    `warn` is told of lines of the file of numbers that cannot be used.
    """
    scoring.check_name(name)
    names = column.reference.sets or (MEAN, SD)
    found = scoring.stored_predictions(path, names, column.task.definition, f"data export --task {column.name}")
    return _add(column, name, found, warn)


def export(folder: Path, task: str, data_dir: Path | None) -> Path:
    """Write a task's rows by set, those to learn from with their targets, and their hash, as one .npz file.

    The targets of a regression, `train_y`, are in their own unit, as `score_file` takes mean and sd.
    """
    definition = task_named(task)
    data, path = load(definition, data_dir), folder / f"{task}.npz"
    arrays = {name: split.x.numpy() for name, split in data.sets.items()}
    is_regression = definition.kind == "regression"
    arrays |= {
        scoring.HASH: np.array(definition.definition),
        TRAIN: data.train.x.numpy(),
        "train_y": data.in_own_unit(data.train) if is_regression else data.train.y.numpy(),
    }
    write_atomically(path, packed(arrays))
    return path


def _predicted(data: TaskData, predict: Predict) -> object:
    """Return a model's predictions; it may change its input."""
    found = {name: predict(split.x.numpy().copy()) for name, split in data.sets.items()}
    return found.get(TEST, found)


def _add(column: Column, name: str, given: object, warn: Tell) -> Path:
    """Write the line of a model's predictions; raises ConfigError if they cannot be used."""
    line = column.line(given_name(name), {}, 0, lambda: _finite(column, numbers(column, _checked(column, given))))
    column.add(*of_reference(column, column.stored(warn)), line)
    return column.path


def _checked(column: Column, given: object) -> Given:
    """Return log-probabilities float64 [S, B, K] by set, or a regression's mean and sd, float64 [S, B]."""
    if not column.reference.sets:
        return normals(given, len(column.data.sets[TEST]))
    assert isinstance(given, Mapping)
    return {
        name: log_probabilities(name, as_array(name, given[name]), len(split)).double().numpy()
        for name, split in column.data.sets.items()
    }


def _finite(column: Column, found: dict[str, float]) -> dict[str, float]:
    why = "a label has the probability 0; give log-probabilities"
    if not column.reference.sets:
        why = (
            f'a target has the density 0, or a number is too large; give a larger "{SD}", or a "{MEAN}" that is nearer'
        )
    for name, value in found.items():
        if not math.isfinite(value):
            raise ConfigError(f"{name} would be {value}: {why}")
    return found


def of_reference(column: Column, found: Lines) -> list[Trained]:
    """Return the line of the reference itself, how well it predicts; none if the lines have it."""
    return [] if (HMC, 0) in found else [column.line(HMC, {}, 0, partial(_numbers_of_reference, column))]


def _numbers_of_reference(column: Column) -> dict[str, float]:
    reference = column.reference
    if not reference.sets:
        error = reference.quantiles().mean(axis=1) - column.data.targets()
        known = {LOG_LIKELIHOOD: reference.log_likelihood(), JOINT: reference.about.joint_log_loss, RMSE: _root(error)}
        return {f"{TEST}/{name}": value for name, value in known.items()}
    tiny = np.finfo(np.float16).smallest_subnormal  # its probabilities are kept in half precision
    probs = {name: np.maximum(reference.predictive(name), tiny) for name in reference.sets}
    found = quality(column.data, {name: np.log(one)[None] for name, one in probs.items()})
    return found | {f"{DIGITS}/{JOINT}": reference.about.joint_log_loss}


def numbers(column: Column, given: Given) -> dict[str, float]:
    """Return SET/METRIC of predictions for all sets: distances, and what they are compared with.

    given: log-probabilities by set, float64 [S, B, K], or the dict of `bench.distance` for a regression.
    """
    found = {f"{row.set}/{row.metric}": row.value for row in compared(column.reference, column.data, given)}
    return found | quality(column.data, given)


def quality(data: TaskData, given: Given) -> dict[str, float]:
    """Return NLL and accuracy of the digits, and how well the entropy tells each other set from them; or the RMSE."""
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in given.items()}
    if TEST in data.sets:
        return {f"{TEST}/{RMSE}": _root(np.atleast_2d(arrays[MEAN]).mean(axis=0) - data.targets())}
    means = {name: log_mean(values) for name, values in arrays.items()}
    labels, doubts = data.sets[DIGITS].y.numpy(), {name: entropy(mean) for name, mean in means.items()}
    found = {
        f"{DIGITS}/{NLL}": float(-means[DIGITS][np.arange(len(labels)), labels].mean()),
        f"{DIGITS}/{ACCURACY}": accuracy(np.exp(means[DIGITS]), labels),
    }
    return found | {f"{name}/{AUROC}": auroc(doubts[DIGITS], doubts[name]) for name in means if name != DIGITS}


def _root(error: Floats) -> float:
    return float(np.sqrt(np.square(error).mean()))
