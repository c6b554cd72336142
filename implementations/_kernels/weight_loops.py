"""Passes over Gaussian weights, compiled by numba; their plain form is `implementations._kernels.sampled_mlp`.

Shapes: E networks, P scalar weights of each. Arrays are C-contiguous float32 unless said otherwise. A pass is cut into
blocks of `STRIDE` weights, so that no result depends on the number of threads.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-any-generics, no-warn-return-any
# (numba has no types, and its scalars are not Python's)
from __future__ import annotations

import numpy as np
from numba import float32, prange

from bench.core.noise_loops import inner, log32, loop
from implementations._kernels.passes import STRIDE, softplus32


@inner
def _draw_block(mu, rho, noise, weights):
    log_sigma, squared_noise, squared_weight = float32(0), float32(0), float32(0)
    for i in range(len(mu)):
        sigma, _ = softplus32(rho[i])
        w = mu[i] + sigma * noise[i]
        weights[i] = w
        log_sigma += log32(sigma)
        squared_noise += noise[i] * noise[i]
        squared_weight += w * w
    return log_sigma, squared_noise, squared_weight


def _draw_weights(mu, rho, noise, weights, sums):
    """Set weights = mu + softplus(rho) noise, all [E, P].

    sums float64 [E, ceil(P / STRIDE), 3] takes each block's sums of log sigma, noise^2 and weights^2.
    """
    n_networks, size = mu.shape
    n_blocks = sums.shape[1]
    for task in prange(n_networks * n_blocks):
        e, start = task // n_blocks, task % n_blocks * STRIDE
        stop = min(size, start + STRIDE)
        sums[e, task % n_blocks, 0], sums[e, task % n_blocks, 1], sums[e, task % n_blocks, 2] = _draw_block(
            mu[e, start:stop], rho[e, start:stop], noise[e, start:stop], weights[e, start:stop]
        )


def _rho_gradient(grad, rho, noise, weight_of_log_sigma, out):
    """Set out = (grad noise + weight_of_log_sigma / sigma) d sigma / d rho; arrays are [E, P]."""
    n_networks, size = rho.shape
    n_blocks = (size + STRIDE - 1) // STRIDE
    factor = float32(weight_of_log_sigma)
    for task in prange(n_networks * n_blocks):
        e, block = task // n_blocks, task % n_blocks
        for i in range(block * STRIDE, min(size, (block + 1) * STRIDE)):
            sigma, slope = softplus32(rho[e, i])
            out[e, i] = (grad[e, i] * noise[e, i] + factor / sigma) * slope


@inner
def _gradient_block(grad, weights, noise, rho, pull, push, noise_in_mu, g_mu, g_rho):
    for i in range(len(grad)):
        sigma, slope = softplus32(rho[i])
        inverse = float32(1) / sigma
        g = grad[i] + weights[i] * pull
        g_rho[i] = (g * noise[i] - push * inverse) * slope
        g_mu[i] = g - noise_in_mu * noise[i] * inverse


@inner
def _adam_block(parameter, gradient, first, second, step_size, correction):
    for i in range(len(parameter)):
        m = first[i] + (gradient[i] - first[i]) * float32(0.1)
        v = second[i] * float32(0.999) + gradient[i] * gradient[i] * float32(0.001)
        first[i] = m
        second[i] = v
        parameter[i] -= step_size * m / (np.sqrt(v) * correction + float32(1e-8))


def _adam_weights(grad, weights, noise, parameters, first, second, prior, entropy, detached, step_size, correction):
    """Take one step of Adam on mu and rho.

    Args:
        grad: dNLL/dw [E, P].
        weights: of the draw [E, P].
        noise: of the draw [E, P].
        parameters: mu and rho [2, E, P].
        first: Adam's first moments [2, E, P].
        second: Adam's second moments [2, E, P].
        prior: 1 / (s^2 M), see `implementations._kernels.sampled_mlp`.
        entropy: 1 / M.
        detached: whether log q takes mu as a constant.
        step_size: lr / (1 - beta1^t).
        correction: (1 - beta2^t)^-1/2.
    """
    n_networks, size = grad.shape
    n_blocks = (size + STRIDE - 1) // STRIDE
    pull, push = float32(prior), float32(entropy)
    noise_in_mu = push if detached else float32(0)
    rate, root = float32(step_size), float32(correction)
    for task in prange(n_networks * n_blocks):
        e, a = task // n_blocks, task % n_blocks * STRIDE
        b = min(size, a + STRIDE)
        g_mu, g_rho = np.empty(b - a, np.float32), np.empty(b - a, np.float32)
        rho = parameters[1, e, a:b]
        _gradient_block(grad[e, a:b], weights[e, a:b], noise[e, a:b], rho, pull, push, noise_in_mu, g_mu, g_rho)
        _adam_block(parameters[0, e, a:b], g_mu, first[0, e, a:b], second[0, e, a:b], rate, root)
        _adam_block(rho, g_rho, first[1, e, a:b], second[1, e, a:b], rate, root)


draw_weights = loop(_draw_weights)
rho_gradient = loop(_rho_gradient)
adam_weights = loop(_adam_weights)
