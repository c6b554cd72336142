"""How far two predictive distributions are from each other, as plain functions of arrays.

Shapes: S draws, B rows, K classes, Q quantiles. Probabilities and densities of several draws are those of one mixture.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special

from bench.core.streams import generator

Floats = NDArray[np.float64]

N_QUANTILES = 200
TAU, BATCHES = 10, 2_000
HALVINGS = 24  # of the interval that holds a quantile: to 6e-8 of its width, as float32, in which it is kept


def agreement(first: Floats, second: Floats) -> float:
    """Return the share of rows in which two predictives [B, K] name the same class.

    Source: Izmailov et al. 2021, "What Are Bayesian Neural Network Posteriors Really Like?", section 6.
    """
    return float((first.argmax(-1) == second.argmax(-1)).mean())


def total_variation(first: Floats, second: Floats) -> float:
    """Return the mean over the rows of the total variation between two predictives [B, K], from 0 to 1.

    It is half the sum of the differences of probabilities; the source is that of `agreement`.
    """
    return float(np.abs(first - second).sum(-1).mean() / 2)


def wasserstein(first: Floats, second: Floats) -> float:
    """Return the mean over the rows of Wasserstein-1 between two samples, [B, Q] and [B, R], in their unit.

    In one dimension it is the area between the two distribution functions. 200 quantiles at the levels (i + .5) / 200
    stand for a distribution as an equally weighted sample.
    """
    values = np.concatenate([first, second], axis=1)
    order = values.argsort(axis=1, kind="stable")
    steps = np.concatenate(
        [np.full(first.shape[1], 1 / first.shape[1]), np.full(second.shape[1], -1 / second.shape[1])]
    )
    heights = np.abs(steps[order].cumsum(axis=1)[:, :-1])
    return float((heights * np.diff(np.take_along_axis(values, order, axis=1), axis=1)).sum(axis=1).mean())


def joint_log_loss(log_likelihoods: Floats) -> float:
    """Return the joint log-loss over `TAU` = 10 points, nats for ten labels; lower is better.

    It is the mean over 2,000 fixed batches of -log(mean over the draws of the product of the ten labels' likelihoods).
    A batch has ten points, drawn with replacement from two random test rows, so that only draws that are right about
    all ten at once count. Definition: Osband et al. 2022, "The Neural Testbed: Evaluating Joint Predictions" (its
    `calculate_joint_ll`, with the points of `make_local_sampler`, kappa = 2).

    Args:
        log_likelihoods: of the rows' labels, by draw, [S, B], nats.
    """
    source = generator(0, "joint-log-loss")
    first, second = torch.randint(log_likelihoods.shape[1], (2, BATCHES), generator=source).numpy()
    n_first = torch.randint(2, (BATCHES, TAU), generator=source).sum(1).numpy()
    sums = log_likelihoods[:, first] * n_first + log_likelihoods[:, second] * (TAU - n_first)
    return float(-log_mean(sums).mean())


def log_mean(logs: Floats) -> Floats:
    """Return the logarithm of the mean over the first axis of what has these logarithms."""
    found: Floats = special.logsumexp(logs, axis=0) - np.log(len(logs))
    return found


def normal_log_density(mean: Floats, sd: Floats, y: Floats) -> Floats:
    """Return log densities [S, B] of normals at targets y [B], nats; mean [S, B], sd [S, 1] or [S, B]."""
    return np.asarray(-np.square((y - mean) / sd) / 2 - np.log(sd) - np.log(2 * np.pi) / 2)


def mixture_log_density(mean: Floats, sd: Floats, y: Floats) -> Floats:
    """Return the log density [B] of the mixture of the draws' normals; as `normal_log_density`."""
    return log_mean(normal_log_density(mean, sd, y))


def mixture_quantiles(mean: Floats, sd: Floats, n: int = N_QUANTILES) -> Floats:
    """Return n quantiles [B, n], at the levels (i + .5) / n, of mixtures of normals; mean [S, B], sd [S, 1] or [S, B].

    They are found by bisection; a row's quantiles lie between those of its outermost normals.
    """
    levels, sds = (np.arange(n) + 0.5) / n, np.broadcast_to(sd, mean.shape)
    return np.stack([_quantiles(*normals, levels) for normals in zip(mean.T, sds.T, strict=True)])


def _quantiles(mean: Floats, sd: Floats, levels: Floats) -> Floats:
    """Return the quantiles of one mixture, mean and sd [S]."""
    mean, sd = mean[:, None], sd[:, None]
    own = mean + sd * special.ndtri(levels)
    low, high = own.min(axis=0), own.max(axis=0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_low = special.ndtr((middle - mean) / sd).mean(axis=0) < levels
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return np.asarray((low + high) / 2)
