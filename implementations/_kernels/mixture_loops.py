"""One pass over Gaussian weights with a mixture prior: gradient, a step of SGD or Adam, the draw for the next step.

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
from implementations._kernels.weight_loops import _adam_block


@inner
def _gradient(grad, weights, noise, rho, kl, wide, narrow, steepness, offset, g_mu, g_rho):
    """Set the gradients for mu and rho; wide and narrow are 1 / std^2 and 2 steepness."""
    for i in range(len(grad)):
        w = weights[i]
        share = float32(1) / (float32(1) + exp32(steepness * w * w - offset))
        g = grad[i] + kl * w * (wide + narrow * share)
        sigma, slope = softplus32(rho[i])
        g_mu[i] = g
        g_rho[i] = (g * noise[i] - kl / sigma) * slope


@inner
def _sgd_block(parameter, gradient, rate):
    for i in range(len(parameter)):
        parameter[i] -= rate * gradient[i]


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


def _mixture_step(grad, weights, noise, mu, rho, m_mu, v_mu, m_rho, v_rho, rates, prior, descends, draws, key, row):
    """Take one step on mu and rho, if `descends`, and then draw weights, if `draws`; all vectors are [P].

    Args:
        grad: gradient of the likelihood's part of the loss for the weights.
        weights: of the last draw; replaced by mu + softplus(rho) noise.
        noise: of the last draw; replaced by the standard normals of `row` of the stream `key`, as `fill_normals` does.
        mu: means, changed in place.
        rho: changed in place.
        m_mu: Adam's first moments of mu; [0] for a step of SGD.
        v_mu: its second moments of mu.
        m_rho: its first moments of rho.
        v_rho: its second moments of rho.
        rates: weight of the KL in this step; learning rates of mu and rho, for Adam each over 1 - beta1^t; for Adam
            (1 - beta2^t)^-1/2; float32 [4].
        prior: 1 / std^2, 2 steepness, steepness and offset of the mixture; float32 [4].
        descends: whether `grad` is of the last draw; False at the first step.
        draws: whether another step follows.
        key: int64.
        row: int64.
    """
    size = len(grad)
    k0, k1 = uint32(key), uint32(uint64(key) >> uint64(32))
    low, high = uint32(row), uint32(uint64(row) >> uint64(32))
    by_adam = len(m_mu) > 0
    for task in prange((size + STRIDE - 1) // STRIDE):
        a, b = task * STRIDE, min(size, (task + 1) * STRIDE)
        m, r, eps, w = mu[a:b], rho[a:b], noise[a:b], weights[a:b]
        if descends:
            g_mu, g_rho = np.empty(b - a, np.float32), np.empty(b - a, np.float32)
            _gradient(grad[a:b], w, eps, r, rates[0], prior[0], prior[1], prior[2], prior[3], g_mu, g_rho)
            if by_adam:
                _adam_block(m, g_mu, m_mu[a:b], v_mu[a:b], rates[1], rates[3])
                _adam_block(r, g_rho, m_rho[a:b], v_rho[a:b], rates[2], rates[3])
            else:
                _sgd_block(m, g_mu, rates[1])
                _sgd_block(r, g_rho, rates[2])
        if draws:
            _normals(eps, a // BLOCK, low, high, k0, k1)
            _draw(m, r, eps, w)


mixture_step = loop(_mixture_step)
