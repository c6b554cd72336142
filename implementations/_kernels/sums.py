"""Fast sums over the weights: of logarithms and of squares."""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 256  # squares added in the tensor's own type; the chunks' sums are added in float64
GROUP = 4  # factors multiplied before one logarithm: values from 1e-9 to 1e9 neither under- nor overflow in float32


def sum_of_logs(values: Tensor) -> Tensor:
    """Return the sum of log(values), one logarithm for every `GROUP` values; 0-dim, nats.

    A logarithm costs ten times a product, and the product's rounding error (relative 2e-7) is no larger than that of
    the sum.
    """
    return row_sums_of_logs(values.flatten())


def row_sums_of_logs(values: Tensor) -> Tensor:
    """Return the sum of log(values) over the last dimension in the same way, [...] of values [..., n], nats."""
    n_groups = values.shape[-1] // GROUP
    grouped, rest = values[..., : n_groups * GROUP], values[..., n_groups * GROUP :]
    products = grouped.view(*values.shape[:-1], GROUP, n_groups).prod(-2)
    return products.log_().sum(-1) + rest.log().sum(-1)


def row_sums_of_squares(values: Tensor) -> Tensor:
    """Return the sum of squares over the last dimension, float64 [...] of values [..., n]."""
    if values.dim() == 1:
        return torch.dot(values, values).double()
    return values.square().sum(-1, dtype=torch.float64)


def sum_of_squares(values: Tensor) -> Tensor:
    """Return the sum of values^2, float64 [].

    In float32, a term is rounded at most CHUNK + 1 times, in any order of addition. Each rounding is relative 2^-24, so
    that the relative error is below (CHUNK + 1) 2^-24 = 1.5e-5; in practice it is 1e-9. To convert all values to
    float64 first would take ten times as long.
    """
    flat = values.flatten()
    n_whole = len(flat) // CHUNK * CHUNK
    chunks = flat[:n_whole].view(-1, CHUNK).square().sum(1)
    return torch.cat([chunks, flat[n_whole:].square().sum(0, keepdim=True)]).sum(dtype=torch.float64)
