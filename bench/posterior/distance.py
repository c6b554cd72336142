"""How far two predictive distributions are from each other, and have chains mixed, as plain functions of arrays.

Shapes: S draws, B rows, K classes, Q quantiles. Probabilities and densities of several draws are those of one mixture.
Of C chains with n draws each, values are [C, n, ...]; each number of a draw is judged by itself, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special
from torch import Tensor

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
    sums = _times(log_likelihoods[:, first], n_first) + _times(log_likelihoods[:, second], TAU - n_first)
    return float(-log_mean(sums).mean())


def _times(logs: Floats, counts: NDArray[np.int64]) -> Floats:
    """Return products [S, B] of logs [S, B] and counts [B]; a point that is not drawn counts nothing, though log 0."""
    return np.multiply(logs, counts, out=np.zeros_like(logs), where=counts > 0)


def log_mean(logs: Floats) -> Floats:
    """Return the logarithm of the mean over the first axis of what has these logarithms."""
    found: Floats = special.logsumexp(logs, axis=0) - np.log(len(logs))
    return found


def normal_log_density(mean: Floats, sd: Floats, y: Floats) -> Floats:
    """Return log densities [S, B] of normals at targets y [B], nats; mean [S, B], sd [S, 1] or [S, B]."""
    with np.errstate(over="ignore"):  # a density of 0
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


NUMBERS = 1024  # that are judged at a time: of 8 chains with 1,000 draws, 64 MB


def split_r_hat(values: Tensor) -> Tensor:
    """Return the split R-hat of values [C, n, ...] with n >= 4 (Gelman et al. 2013, section 11.4), [...].

    It is that of ranks neither (Vehtari et al. 2021) nor of weights: probabilities are bounded, so their variances
    exist, and Izmailov et al. 2021 judge predictions so too. Of an odd n the middle draw is left out. A number that
    never changes has 1; one that is constant in each half of a chain, but not the same, infinity.
    """
    return _by_numbers(values, _split_r_hat)


def effective_size(values: Tensor) -> Tensor:
    """Return how many independent draws values [C, n, ...], n >= 4, are worth, [...].

    Chains are split into halves. Autocorrelations of all halves together are summed up to the end of Geyer's initial
    monotone sequence (Geyer 1992; Gelman et al. 2013, section 11.5; Vehtari et al. 2021, equations 10 to 13). At most
    C n log10(C n), as in Stan; a number that never changes has C n. An odd n counts as n - 1: see `split_r_hat`.
    """
    return _by_numbers(values, _effective_size)


def _by_numbers(values: Tensor, judge: Callable[[Tensor], Tensor]) -> Tensor:
    """Return what `judge` says of the halves [2 C, n // 2, numbers] of a few numbers at a time, [...]."""
    half = values.shape[1] // 2
    if half < 2:
        raise ValueError(f"a chain has {values.shape[1]} draws; at least 4 are judged")
    flat = values.flatten(2) if values.ndim > 2 else values[..., None]
    found = []
    for start in range(0, flat.shape[2], NUMBERS):
        part = flat[:, :, start : start + NUMBERS]
        halves = torch.cat([part[:, :half], part[:, values.shape[1] - half :]]).double()
        found.append(judge(halves))
    return torch.cat(found).view(values.shape[2:])


def _variances(halves: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean variance within halves [2 C, m, D], and the variance that all together estimate, [D]."""
    m = halves.shape[1]
    within = halves.var(1).mean(0)
    return within, (m - 1) / m * within + halves.mean(1).var(0)


def _split_r_hat(halves: Tensor) -> Tensor:
    within, together = _variances(halves)
    return torch.where(together == 0, 1.0, (together / within).sqrt())


def _effective_size(halves: Tensor) -> Tensor:
    n_chains, m, _ = halves.shape
    size = n_chains * m
    within, together = _variances(halves)
    correlations = 1 - (within - _autocovariances(halves).mean(0) * m / (m - 1)) / together
    correlations[0] = 1
    pairs = correlations[: m // 2 * 2 : 2] + correlations[1 : m // 2 * 2 : 2]
    is_initial = (pairs > 0).cumprod(0) > 0
    total = torch.where(is_initial, pairs.cummin(0).values, 0.0).sum(0)
    time = (2 * total - 1).clamp(min=1 / math.log10(size))
    return torch.where(together == 0, float(size), size / time)


def _autocovariances(halves: Tensor) -> Tensor:
    """Return the sum over draws of products at each distance, divided by m, of halves [2 C, m, D]: [2 C, m, D]."""
    m = halves.shape[1]
    centred = halves - halves.mean(1, keepdim=True)
    spectrum: Tensor = torch.fft.rfft(centred, 2 * m, dim=1)
    products: Tensor = torch.fft.irfft(spectrum.abs().square(), 2 * m, dim=1)
    return products[:, :m] / m
