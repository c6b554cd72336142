"""Passes over the scales of pyro_hidden_layer's weights; their plain form is `implementations._kernels.hidden_layer`.

See `implementations._kernels.weight_loops` for shapes.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-any-generics, no-warn-return-any
# (numba has no types, and its scalars are not Python's)
from __future__ import annotations

from numba import float32, prange

from bench.core.noise_loops import inner, log32, loop
from implementations._kernels.passes import STRIDE, exp32


@inner
def _scale_block(log_excess, floor, dropout, std, variance, slope):
    log_std, sum_of_variance = float32(0), float32(0)
    for i in range(len(log_excess)):
        excess = exp32(log_excess[i])
        free = excess + floor
        scale = free * dropout
        log_std += log32(free)
        slope[i] = excess / free
        std[i] = scale
        variance[i] = scale * scale
        sum_of_variance += scale * scale
    return log_std, sum_of_variance


def _layer_scales(log_excess, floor, dropout, std, variance, slope, sums):
    """Set std = dropout (floor + e^log_excess), its square, and d log std / d log_excess, all [1, P].

    sums float64 [1, ceil(P / STRIDE), 2] takes each block's sums of log(floor + e^log_excess) and of the variance.
    """
    size = log_excess.shape[1]
    lowest, factor = float32(floor), float32(dropout)
    for task in prange(sums.shape[1]):
        a, b = task * STRIDE, min(size, (task + 1) * STRIDE)
        sums[0, task, 0], sums[0, task, 1] = _scale_block(
            log_excess[0, a:b], lowest, factor, std[0, a:b], variance[0, a:b], slope[0, a:b]
        )


def _layer_gradient(product, variance, slope, grad_kl):
    """Replace product [1, P] by slope (variance (product + grad_kl) - grad_kl), the gradient for log_excess."""
    size = product.shape[1]
    weight = float32(grad_kl)
    for task in prange((size + STRIDE - 1) // STRIDE):
        for i in range(task * STRIDE, min(size, (task + 1) * STRIDE)):
            product[0, i] = slope[0, i] * (variance[0, i] * (product[0, i] + weight) - weight)


layer_scales = loop(_layer_scales)
layer_gradient = loop(_layer_gradient)
