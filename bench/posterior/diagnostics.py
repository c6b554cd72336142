"""Have chains mixed, and how many independent draws are they worth? Of any numbers of a draw, such as predictions.

Shapes: C chains, n draws of each. Values are [C, n, ...]; each number of a draw is judged by itself, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

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
