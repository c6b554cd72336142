"""The functions of `import bench`, for notebooks. docs/your-approach.md has examples.

Nothing here writes a file (`bench.score` is in `bench.posterior.scoring`). `fit` trains one network to look at.
"""

from __future__ import annotations

import dataclasses
import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench.core.errors import ConfigError, ContractViolation, check_known
from bench.core.metric_table import N_CLASSES
from bench.core.precision import check_device
from bench.core.project import RESULTS, usual_results
from bench.core.reasons import in_words
from bench.core.text import one_line
from bench.data.splits import load_split, toy_split
from bench.interface import Noise, Posterior, Split, Task
from bench.measure.measuring import draws_of, first_rows, predict_split
from bench.measure.metrics.arrays import Labels, as_labels
from bench.measure.metrics.draws import draw_hits, reduce_draws
from bench.measure.metrics.evaluate import MetricArrays, MetricValues, MissingMetrics, evaluate_classification
from bench.plan import recipes
from bench.plan.registry import manifest
from bench.posterior.compare import distance as distance
from bench.posterior.compare import task_rows as task_rows
from bench.run.own import FitAlone, Tell
from bench.show.frame import folder_frame
from bench.show.predict import networks
from bench.show.predict.networks import PictureAnswer
from bench.show.predict.pictures import Given, normalise

if TYPE_CHECKING:
    from bench.show.figures.style import Drawing
    from bench.show.inputs import Inputs

NORMALISED = 1e-3  # largest allowed difference between 1 and the sum of a row's probabilities

Answers = Tensor | NDArray[np.generic]
"""Probabilities [N, K], or log-probabilities of S draws [S, N, K], nats."""


def fit(
    approach: str,
    recipe: str = "published",
    *,
    profile: str = "full",
    seed: int = 0,
    device: str = "cpu",
    data_dir: str | Path | None = None,
    tell: Tell | None = None,
    **changes: object,
) -> Posterior:
    """Train one network here and return its posterior.

    Args:
        approach: its name, see `python -m bench list`.
        recipe: published, corrected, or published+CHANGE.
        profile: smoke, epoch1 or full: how long it is trained.
        seed: run seed.
        device: cpu, cuda or cuda:N.
        data_dir: folder with the data sets, looked at first.
        tell: called after every epoch.
        changes: hyper-parameters of the approach by name, such as `epochs=1`; they override the recipe and the profile.

    Raises:
        ConfigError: unknown name or hyper-parameter.
        Diverged: the loss is not finite.
    """
    entry = manifest(approach)
    chosen = recipes.resolve(entry, recipe)
    budget = recipes.profile(profile)
    made = recipes.build(entry, chosen, budget)
    known = [field.name for field in dataclasses.fields(made)]
    check_known(f"hyper-parameter of {approach}", known, *changes)
    made = dataclasses.replace(made, **changes)  # type: ignore[arg-type]  # names are checked above
    train, task = _training(entry.task, chosen.split, seed, None if data_dir is None else Path(data_dir), budget.task)
    check_device(device)
    place = torch.device(device)
    train = dataclasses.replace(train, x=train.x.to(place), y=train.y.to(place))
    return made.fit(train, task, FitAlone(seed, place, budget.steps_per_epoch, tell))


def evaluate(
    answers: Posterior | Answers, labels: Labels | None = None, *, draws: int = 100, rows: int | None = None
) -> dict[str, float | str]:
    """Return accuracy, NLL, Brier score, calibration, refusal and more; `python -m bench table definitions` has units.

    A metric that these answers do not define has the reason in place of a number.

    Args:
        answers: a posterior, which predicts MNIST's official test images; or probabilities [N, K]; or the
            log-probabilities of S draws [S, N, K] in nats. Arrays may be of NumPy or of PyTorch.
        labels: int [N], the classes of the arrays' rows; not used with a posterior.
        draws: number of draws from a posterior.
        rows: number of test images that a posterior predicts, from the first; None for all 10,000.

    Raises:
        ConfigError: labels are missing or do not match the answers, the numbers are not probabilities, `draws` or
            `rows` is below 1, or the posterior does not take MNIST's images.
        ContractViolation: the log-probabilities are not normalised.
    """
    if isinstance(answers, Posterior):
        if draws < 1 or (rows is not None and rows < 1):
            raise ConfigError(f"draws={draws} and rows={rows} were given; give at least 1 of each")
        test = first_rows(load_split("test10k", 0), rows)
        asked = draws_of(answers, draws)
        try:
            predicted = predict_split(answers, test, asked)
        except RuntimeError as error:  # of PyTorch: shapes that do not fit
            raise ConfigError(f"this posterior cannot predict MNIST's images: {one_line(str(error))}") from error
        return _with_reasons(evaluate_classification(predicted.summary, test.y.numpy(), predicted.hits, answers.noise))
    if labels is None:
        raise ConfigError("answers were given without labels; give labels of shape [N], one class for each row")
    if not len(labels):
        raise ConfigError("answers without rows were given; give at least one row")
    log_probs = _log_probabilities(_tensor(answers))
    truth = torch.from_numpy(as_labels(_array(labels), *log_probs.shape[1:]))
    noise: Noise = "none" if len(log_probs) == 1 else "weights"
    return _with_reasons(evaluate_classification(reduce_draws(log_probs), truth, draw_hits(log_probs, truth), noise))


def _with_reasons(found: tuple[MetricValues, MissingMetrics, MetricArrays]) -> dict[str, float | str]:
    values, missing, _ = found
    return {**values, **{name: in_words(reason) for name, reason in missing.items()}}


def records(results: str | Path | None = None, profile: str | None = None) -> pd.DataFrame:
    """Return the results of a folder as a tidy frame: a row for each number of each record, and for each missing one.

    docs/your-approach.md lists the columns; all tables are made from such a frame. The default is ./results, or if it
    has no records, those that come with the suite.
    """
    return folder_frame(usual_results() if results is None else results, profile)


def table(name: str = "choice", results: str | Path | None = None, profile: str = "full") -> pd.DataFrame:
    """Return a table with unrounded numbers, as `python -m bench table NAME --format csv` prints it.

    Beside a measured column `X` there are `X sd`, over seeds, and `X n`, their number; NaN where a cell has none. A
    number that is missing is its reason. `attrs` of the frame has the table's title, caption and notes.

    Args:
        name: of `python -m bench table --list`.
        results: folder of the records; the shipped ones stand beside them. By default ./results, or if it has no
            records, the shipped ones alone.
        profile: which records count.

    Raises:
        ConfigError: an unknown name, no such folder, or a table that these records do not make.
    """
    from bench.show.tables.registry import one_table  # here and below: the other functions need no tables
    from bench.show.tables.render import comma_separated

    made = one_table(_inputs(results, profile), name)
    frame = pd.read_csv(
        io.StringIO(comma_separated(made)), keep_default_na=False, na_values=["", "nan"], float_precision="round_trip"
    )
    frame.attrs |= {"title": made.title, "caption": made.caption, "notes": list(made.notes)}
    return frame


def figure(name: str, results: str | Path | None = None, profile: str = "full") -> Drawing:
    """Return a figure of matplotlib, as `python -m bench figures NAME` draws it; a notebook shows it.

    The arguments are those of `table`; `python -m bench figures --list` has the names.

    Raises:
        ConfigError: an unknown name, no such folder, or a figure that these records do not make.
    """
    from bench.show.figures.catalogue import for_notebook, survey

    found, absent = survey(_inputs(results, profile))
    check_known("figure", [*(one.name for one in found), *(item.name for item in absent)], name)
    for item in absent:
        if item.name == name:
            raise ConfigError(f"figure '{name}' cannot be drawn: {item.reason}")
    return for_notebook(next(one for one in found if one.name == name))


def _inputs(results: str | Path | None, profile: str) -> Inputs:
    from bench.show.inputs import Inputs

    recipes.profile(profile)  # raises for an unknown one
    root = usual_results() if results is None else Path(results)
    if not root.is_dir():
        raise ConfigError(f"{root} is not a folder; give one that `run` has filled")
    inputs = Inputs(root, profile, baseline=RESULTS)
    for problem in inputs.problems:
        warnings.warn(str(problem), stacklevel=3)
    return inputs


def predict(
    *images: Given,
    approach: str = "pyro_random_module",
    recipe: str | None = None,
    results: str | Path | None = None,
    draws: int = 100,
) -> list[PictureAnswer]:
    """Return the answers of a trained network to pictures of digits.

    Args:
        images: paths of PNG or JPEG files, images of Pillow, or arrays [H, W], [H, W, 3] or [H, W, 4] of bytes or of
            floats in [0, 1].
        approach: the network that answers.
        recipe: how it was trained; by default corrected, or where that was not trained, published.
        results: folder with its fit; by default ./results. If it was not trained there, the shipped network answers.
        draws: number of draws from the posterior.

    Raises:
        ConfigError: unknown name, or no such fit.
        UnusableImage: a picture does not show a digit on a plain background.
    """
    place = usual_results("fits", networks.SHIPPED) if results is None else Path(results)
    ((store, fit),) = networks.choose((place, RESULTS), (approach,), recipe)
    seen = [normalise(image, f"picture {place}") for place, image in enumerate(images, start=1)]
    return networks.ask(store, fit, seen, draws)


def _training(kind: str, split: str, seed: int, data_dir: Path | None, learnt: str) -> tuple[Split, Task]:
    if kind == "toy":
        train = toy_split()
        return train, Task("regression", n_outputs=1, n_train=len(train), n_inputs=1)
    train = load_split(split, seed, data_dir, learnt)
    return train, Task("classification", n_outputs=N_CLASSES, n_train=len(train), n_inputs=train.x.shape[1])


def _tensor(values: Answers) -> Tensor:
    return values if isinstance(values, Tensor) else torch.as_tensor(np.ascontiguousarray(values))


def _array(values: Labels) -> Labels:
    return values if isinstance(values, Tensor) else np.asarray(values)


def _log_probabilities(answers: Tensor) -> Tensor:
    """Return log-probabilities [S, N, K]."""
    if answers.dim() == 3:
        if not bool(answers.double().logsumexp(2).abs().max() <= NORMALISED):  # e^x - 1 is about x
            raise ContractViolation("log-probabilities [S, N, K] must be normalised: in each draw, rows with the sum 1")
        return answers
    if answers.dim() != 2:
        raise ConfigError(
            f"answers of shape {tuple(answers.shape)} were given; give probabilities [N, K] or log-probabilities of S "
            "draws [S, N, K]"
        )
    probs = answers.double()
    if not bool((probs >= 0).all()) or not bool((probs.sum(1) - 1).abs().max() <= NORMALISED):
        raise ConfigError("answers [N, K] must be probabilities: none negative, each row with the sum 1")
    return (probs / probs.sum(1, keepdim=True)).log().unsqueeze(0)
