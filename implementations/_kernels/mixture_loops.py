"""One pass over Gaussian weights with a mixture prior: gradient, plain SGD, and the draw for the next step.

The plain form of every number is `implementations._kernels.mixture_mlp`; the prior is that of
`implementations._kernels.scale_mixture`. See `implementations._kernels.weight_loops` for shapes.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-any-generics, no-warn-return-any
# (numba has no types, and its scalars are not Python's)
from __future__ import annotations

import numpy as np
from numba import float32, prange, uint32, uint64

from bench.core.noise_loops import BLOCK, inner, loop, normal_block
from implementations._kernels.passes import STRIDE, exp32, softplus32


@inner
def _descend(grad, weights, noise, mu, rho, kl, rate, wide, narrow, steepness, offset):
    """Take one step of SGD; wide and narrow are 1 / std^2 and 2 steepness."""
    for i in range(len(grad)):
        w = weights[i]
        share = float32(1) / (float32(1) + exp32(steepness * w * w - offset))
        g = grad[i] + kl * w * (wide + narrow * share)
        sigma, slope = softplus32(rho[i])
        mu[i] -= rate * g
        rho[i] -= rate * (g * noise[i] - kl / sigma) * slope


@inner
def _normals(out, first, low, high, k0, k1):
    """Fill out with the normals of the blocks from `first` of a row."""
    n_whole = len(out) // BLOCK
    for block in range(n_whole):
        normal_block(out[block * BLOCK : (block + 1) * BLOCK], first + block, low, high, k0, k1)
    if n_whole * BLOCK < len(out):
        rest = np.empty(BLOCK, np.float32)
        normal_block(rest, first + n_whole, low, high, k0, k1)
        out[n_whole * BLOCK :] = rest[: len(out) - n_whole * BLOCK]


@inner
def _draw(mu, rho, noise, weights):
    for i in range(len(mu)):
        sigma, _ = softplus32(rho[i])
        weights[i] = mu[i] + sigma * noise[i]


def _mixture_step(grad, weights, noise, mu, rho, rates, prior, descends, draws, key, row):
    """Take one step of SGD on mu and rho, if `descends`, and then draw weights, if `draws`; all vectors are [P].

    Args:
        grad: gradient of the likelihood's part of the loss for the weights.
        weights: of the last draw; replaced by mu + softplus(rho) noise.
        noise: of the last draw; replaced by the standard normals of `row` of the stream `key`, as `fill_normals` does.
        mu: means, changed in place.
        rho: changed in place.
        rates: weight of the KL in this step, and learning rate; float32 [2].
        prior: 1 / std^2, 2 steepness, steepness and offset of the mixture; float32 [4].
        descends: whether `grad` is of the last draw; False at the first step.
        draws: whether another step follows.
        key: int64.
        row: int64.
    """
    size = len(grad)
    k0, k1 = uint32(key), uint32(uint64(key) >> uint64(32))
    low, high = uint32(row), uint32(uint64(row) >> uint64(32))
    for task in prange((size + STRIDE - 1) // STRIDE):
        a, b = task * STRIDE, min(size, (task + 1) * STRIDE)
        m, r, eps, w = mu[a:b], rho[a:b], noise[a:b], weights[a:b]
        if descends:
            _descend(grad[a:b], w, eps, m, r, rates[0], rates[1], prior[0], prior[1], prior[2], prior[3])
        if draws:
            _normals(eps, a // BLOCK, low, high, k0, k1)
            _draw(m, r, eps, w)


mixture_step = loop(_mixture_step)
