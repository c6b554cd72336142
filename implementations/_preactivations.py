"""Gaussian pre-activations of a layer whose weights are independent Gaussians: their moments and draws.

Shapes: B rows, D inputs, H units.
"""

from __future__ import annotations

import torch
from torch import Tensor


def moments(x: Tensor, mean: Tensor, variance: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return mean and standard deviation [B, H] of the pre-activations for inputs x [B, D]."""
    return affine(x, mean), None if variance is None else affine(x.square(), variance).sqrt_()


def drawn(mean: Tensor, std: Tensor | None, noise: Tensor | None) -> Tensor:
    """Return pre-activations [B, H] for normals `noise` [B, H]; the mean without standard deviation or noise."""
    return mean if std is None or noise is None else torch.addcmul(mean, std, noise)


def affine(x: Tensor, weights: Tensor) -> Tensor:
    """Return x @ weights; if `weights` has one row more than x has columns, the last row is the bias."""
    n_inputs = x.shape[1]
    return x @ weights if len(weights) == n_inputs else torch.addmm(weights[n_inputs], x, weights[:n_inputs])
