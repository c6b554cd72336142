"""Scores of predictions of one split's test rows, and the one table of all of them.

A prediction is a mixture of S Gaussians for each row: dropout passes with the noise of tau, the networks of an
ensemble, draws of a posterior. A single network or a closed form has S = 1. All numbers are in the target's own units.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from bench.core.errors import DataCorrupt
from bench.core.files import read_file
from bench.uci.data import facts_of

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]

LEVELS = (50, 90, 95)  # per cent, of central intervals
QUANTILES = np.arange(1, 20) / 20
NODES = 100  # Gaussians of a row's mixture from which its CRPS is computed
AT_ONCE = 1 << 21  # numbers of draws
LARGEST = 1 << 28  # bytes of a table

METRICS = {
    "rmse": "root of the mean squared error of the mean of all draws",
    "rmse_one_pass": "the same of the first draw alone",
    "ll_mixture": "mean log density of the equal mixture of Gaussians, nats a row",
    "ll_gaussian": "mean log density of the one Gaussian with the mixture's mean and variance, nats a row",
    "crps": "mean continuous ranked probability score of the mixture",
    **{f"coverage{level}": f"share of targets in the central {level} % interval of the mixture" for level in LEVELS},
    "calibration_error": "mean over q = .05 to .95 of |share of targets below the mixture's q quantile - q|",
}

FURTHER = {
    "rmse_no_dropout": "RMSE of the network without dropout",
    "drop_rate": "the drop rate that was used",
    "tau": "the precision of the noise that was used, in the inverse square of the target's unit",
    "prior_precision": "the precision of the last layer's prior, for standardised targets",
    "learning_rate": "the learning rate, chosen on the last fifth of the split's training part",
    "prior_scale": "the scale of the prior of `bench.uci.mean_field`, chosen likewise",
}
_OF_DROPOUT = (*METRICS, "rmse_no_dropout", "drop_rate", "tau")
METHODS = {  # what each measures of a split
    "mc_dropout_2018": _OF_DROPOUT,
    "mc_dropout_2016": _OF_DROPOUT,
    "network": _OF_DROPOUT,
    "last_layer_laplace": (*METRICS, "tau", "prior_precision"),
    "deep_ensemble": (*METRICS, "learning_rate"),
    "bayes_by_backprop": (*METRICS, "learning_rate", "prior_scale"),
    "ivon": (*METRICS, "learning_rate", "prior_scale"),
    "linear": tuple(METRICS),
}


class Fit(NamedTuple):
    """What was fitted: a row of the table is one score of it on its split's test rows."""

    set: str
    method: str
    recipe: str
    epochs: int
    split: int
    seed: int  # of the training


class Run(NamedTuple):
    """What was trained on every split of a set."""

    set: str
    method: str
    epochs: int


class RowScores(NamedTuple):
    """Scores of each row, [B]."""

    error: Floats  # mean of the draws minus target
    first_error: Floats  # first draw minus target
    ll_mixture: Floats
    ll_gaussian: Floats
    crps: Floats
    pit: Floats  # the mixture's distribution function at the target; uniform if the prediction is calibrated


def scores(mean: npt.ArrayLike, variance: npt.ArrayLike, y: npt.ArrayLike) -> dict[str, float]:
    """Return every metric of `METRICS`.

    Args:
        mean: means of S draws for B rows [S, B], in the target's units.
        variance: of the noise around them, positive: a number, or [S, 1], [1, B] or [S, B].
        y: targets [B].
    """
    means, targets = np.asarray(mean), np.asarray(y, dtype=np.float64)
    variances = np.broadcast_to(np.asarray(variance), means.shape)
    step = max(1, AT_ONCE // len(means))
    starts = range(0, len(targets), step)
    parts = [_row_scores(*(one[..., i : i + step] for one in (means, variances, targets))) for i in starts]
    rows = RowScores(*(np.concatenate(found) for found in zip(*parts, strict=True)))
    return {
        "rmse": math.sqrt(np.mean(rows.error**2)),
        "rmse_one_pass": math.sqrt(np.mean(rows.first_error**2)),
        "ll_mixture": float(rows.ll_mixture.mean()),
        "ll_gaussian": float(rows.ll_gaussian.mean()),
        "crps": float(rows.crps.mean()),
        **{f"coverage{level}": float(np.mean(np.abs(rows.pit - 0.5) <= level / 200)) for level in LEVELS},
        "calibration_error": float(np.mean([abs(np.mean(rows.pit <= q) - q) for q in QUANTILES])),
    }


def _row_scores(mean: Floats, variance: Floats, y: Floats) -> RowScores:
    from scipy.special import ndtr  # here: it imports slowly

    mean, variance = mean.astype(np.float64), variance.astype(np.float64)
    middle = mean.mean(axis=0)
    densities = _log_density(y, mean, variance)
    largest = densities.max(axis=0)
    return RowScores(
        error=middle - y,
        first_error=mean[0] - y,
        ll_mixture=largest + np.log(np.exp(densities - largest).mean(axis=0)),
        ll_gaussian=_log_density(y, middle, variance.mean(axis=0) + mean.var(axis=0)),
        crps=crps(*condensed(mean, variance), y),
        pit=ndtr((y - mean) / np.sqrt(variance)).mean(axis=0),
    )


def _log_density(y: Floats, mean: Floats, variance: Floats) -> Floats:
    density: Floats = -0.5 * ((y - mean) ** 2 / variance + np.log(2 * math.pi * variance))
    return density


def condensed(mean: Floats, variance: Floats, n: int = NODES) -> tuple[Floats, Floats]:
    """Return means and variances [n, B] of at most n Gaussians a row in the place of S: neighbours become their mean.

    With v the mean variance of the means inside a group and s the noise's standard deviation, the CRPS changes by at
    most .7 v / s. The groups count alike, so S should be a multiple of n.
    """
    if len(mean) <= n:
        return mean, variance
    order = np.argsort(mean, axis=0)
    edges = np.linspace(0, len(mean), n + 1).astype(int)
    sizes = np.diff(edges)[:, None]
    ordered = (np.take_along_axis(one, order, axis=0) for one in (mean, variance))
    means, variances = (np.add.reduceat(one, edges[:-1], axis=0) / sizes for one in ordered)
    return means, variances


def crps(mean: Floats, variance: Floats, y: Floats) -> Floats:
    """Return the continuous ranked probability score [B] of equal mixtures of Gaussians [S, B], in closed form.

    It is E|X - y| - E|X - X'| / 2 for independent X, X' of the mixture (Gneiting and Raftery 2007, JASA 102, eq. 21);
    each expectation is a mean of `_mean_size` (Grimit et al. 2006, Q. J. R. Meteorol. Soc. 132).
    """
    score: Floats = _mean_size(y - mean, variance).mean(axis=0)
    for one, its in zip(mean, variance, strict=True):
        score -= _mean_size(mean - one, variance + its).mean(axis=0) / (2 * len(mean))
    return score


def _mean_size(mean: Floats, variance: Floats) -> Floats:
    """Return E|Z| of Gaussians."""
    from scipy.special import ndtr

    sd = np.sqrt(variance)
    z = mean / sd
    size: Floats = sd * math.sqrt(2 / math.pi) * np.exp(-0.5 * z**2) + mean * (2 * ndtr(z) - 1)
    return size


def tidy(found: Iterable[tuple[Fit, Mapping[str, float]]]) -> pd.DataFrame:
    """Return the table: columns of `Fit`, metric and value; a row for each score."""
    import pandas as pd

    rows = [(*fit, metric, value) for fit, measured in found for metric, value in measured.items()]
    return pd.DataFrame(rows, columns=[*Fit._fields, "metric", "value"])


def read_table(path: Path, fits: Sequence[Fit], metrics: Sequence[str]) -> pd.DataFrame:
    """Return a stored table, which has the metrics of each fit, in their order, and finite numbers."""
    import pandas as pd

    content = io.BytesIO(read_file(path, LARGEST))
    try:
        table = pd.read_csv(content, keep_default_na=False, float_precision="round_trip")
        rows = list(table[[*Fit._fields, "metric"]].itertuples(index=False, name=None))
        is_whole = rows == [(*fit, metric) for fit in fits for metric in metrics]
        if is_whole and table["definition"].nunique() == 1 and np.isfinite(table["value"].to_numpy(np.float64)).all():
            return table
    except (KeyError, ValueError):  # pandas' own errors are of ValueError
        pass
    raise DataCorrupt(f"{path} is no table of {len(fits)} splits; remove it, and the same command makes it again")


def stored(root: Path) -> dict[Run, dict[str, dict[int, dict[int, float]]]]:
    """Return the runs of a results folder that have every split of their set, and all passes.

    By set, method and epochs; then, by metric and training seed, the number of each split.

    Raises:
        DataCorrupt: a file is no such table.
    """
    found: dict[Run, dict[str, dict[int, dict[int, float]]]] = {}
    for path in sorted((root / "uci").glob("*.csv")):
        try:
            for row in csv.DictReader(io.StringIO(read_file(path, LARGEST).decode())):
                if not row["recipe"]:
                    run = Run(row["set"], row["method"], int(row["epochs"]))
                    seeds = found.setdefault(run, {}).setdefault(row["metric"], {})
                    seeds.setdefault(int(row["seed"]), {})[int(row["split"])] = float(row["value"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataCorrupt(f"{path} is no table of scores; remove it, and `run` makes it again") from error
    whole = {run: {metric: _whole(run.set, seeds) for metric, seeds in its.items()} for run, its in found.items()}
    return {run: its for run, its in whole.items() if any(its.values())}


def _whole(name: str, seeds: Mapping[int, dict[int, float]]) -> dict[int, dict[int, float]]:
    every = set(range(facts_of(name).splits))
    return {seed: splits for seed, splits in sorted(seeds.items()) if set(splits) == every}
