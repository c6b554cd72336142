"""Passes over a network's activations and parameters, compiled by numba; tests have their plain form.

Shapes: C chains, P parameters, B rows, H hidden units, K outputs. Arrays are float32 unless said otherwise. Rows are
the last axis, so that each loop over rows is vectorised. Sums over rows are added in blocks of `LANES` rows, and blocks
in float64.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-any-generics, no-warn-return-any
# (numba has no types, and its scalars are not Python's)
from __future__ import annotations

import math

import numba
import numpy as np
from numba import float32, float64, int32

from bench.core.noise_loops import FAST, inline, log32, unlocked

LANES = 512  # rows of a block: its arrays of 10 outputs stay in the first-level cache
# A loop over a block is a function, so that LLVM can vectorise it, and inlined into the loop that calls it. If called,
# it would add in another order when numba compiles both than when it reads them from its cache.
inner = numba.njit(error_model="numpy", fastmath=FAST, forceinline=True)


@inline
def exp32(x):
    """Return e^x for x in [-60, 0], to 2e-7 relative (Cephes expf, Moshier 1992), and e^-60 for x < -60.

    A probability of 1e-26 counts as nothing, but smaller ones times weights would be subnormal, which a processor
    multiplies a hundred times slower.
    """
    x = max(x, float32(-60.0))
    n = np.floor(x * float32(1 / math.log(2)) + float32(0.5))
    x = x - n * float32(0.693359375) + n * float32(2.12194440e-4)
    y = float32(1.9875691500e-4)
    y = y * x + float32(1.3981999507e-3)
    y = y * x + float32(8.3334519073e-3)
    y = y * x + float32(4.1665795894e-2)
    y = y * x + float32(1.6666665459e-1)
    y = y * x + float32(5.0000001201e-1)
    y = y * x * x + x + float32(1)
    return y * np.int32((int32(n) + int32(127)) << int32(23)).view(np.float32)


@inline
def tanh32(x):
    """Return tanh x, to 2e-7 absolute."""
    small = exp32(float32(-2) * abs(x))
    size = (float32(1) - small) / (float32(1) + small)
    return size if x >= float32(0) else -size


@inner
def _activate_row(row, bias, is_tanh):
    if is_tanh:
        for i in range(len(row)):
            row[i] = tanh32(row[i] + bias)
    else:
        for i in range(len(row)):
            row[i] = max(row[i] + bias, float32(0))


def _activate(hidden, bias, is_tanh):
    """Replace hidden [C, H, B] by the activation of hidden + bias [C, H, 1]."""
    for c in range(hidden.shape[0]):
        for unit in range(hidden.shape[1]):
            _activate_row(hidden[c, unit], bias[c, unit], is_tanh)


@inner
def _differentiate_row(flowing, hidden, is_tanh):
    total = float32(0)
    if is_tanh:
        for i in range(len(flowing)):
            value = flowing[i] * (float32(1) - hidden[i] * hidden[i])
            flowing[i] = value
            total += value
    else:
        for i in range(len(flowing)):
            value = flowing[i] if hidden[i] > float32(0) else float32(0)
            flowing[i] = value
            total += value
    return total


def _differentiate(flowing, hidden, is_tanh, bias_gradient):
    """Multiply flowing [C, H, B] by the activation's slope, given its value `hidden`; sum rows into [C, H]."""
    n_rows = flowing.shape[2]
    for c in range(flowing.shape[0]):
        for unit in range(flowing.shape[1]):
            total = float64(0)
            for a in range(0, n_rows, LANES):
                b = min(n_rows, a + LANES)
                total += _differentiate_row(flowing[c, unit, a:b], hidden[c, unit, a:b], is_tanh)
            bias_gradient[c, unit] = total


@inner
def _raise_top(row, bias, top):
    for i in range(len(row)):
        row[i] += bias
        top[i] = max(top[i], row[i])


@inner
def _add_exponentials(row, top, total):
    for i in range(len(row)):
        row[i] = exp32(row[i] - top[i])
        total[i] += row[i]


@inner
def _add_logarithms(top, total):
    nll = float64(0)
    for i in range(len(top)):
        nll += float64(top[i]) + float64(log32(total[i]))
        total[i] = float32(1) / total[i]
    return nll


@inner
def _scale(row, factors):
    total = float32(0)
    for i in range(len(row)):
        row[i] *= factors[i]
        total += row[i]
    return total


def _classify(logits, bias, y, counts, nll, bias_gradient):
    """Replace logits [C, K, B] by the gradient of the summed NLL of classes y int64 [B] for logits + bias [C, K].

    nll float64 [C] takes the sum, in nats, and bias_gradient [C, K] the gradient summed over rows. counts int64 [K]:
    rows of each class.
    """
    top, total = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    n_classes, n_rows = logits.shape[1:]
    sums = np.empty(n_classes)
    for c in range(logits.shape[0]):
        nll[c] = 0
        for k in range(n_classes):
            sums[k] = -counts[k]
        for a in range(0, n_rows, LANES):
            b = min(n_rows, a + LANES)
            n = b - a
            top[:n], total[:n] = float32(-np.inf), float32(0)
            for k in range(n_classes):
                _raise_top(logits[c, k, a:b], bias[c, k], top[:n])
            for i in range(a, b):
                nll[c] -= logits[c, y[i], i]
            for k in range(n_classes):
                _add_exponentials(logits[c, k, a:b], top[:n], total[:n])
            nll[c] += _add_logarithms(top[:n], total[:n])
            for k in range(n_classes):
                sums[k] += _scale(logits[c, k, a:b], total[:n])
            for i in range(a, b):
                logits[c, y[i], i] -= float32(1)
        for k in range(n_classes):
            bias_gradient[c, k] = sums[k]


@inner
def _normal_block(means, bias, y, precision):
    squares, total = float32(0), float32(0)
    for i in range(len(means)):
        residual = means[i] + bias - y[i]
        squares += residual * residual
        means[i] = residual * precision
        total += means[i]
    return squares, total


def _regress(means, bias, y, log_noise, nll, bias_gradient, noise_gradient):
    """Replace means [C, 1, B] by the gradient of the summed NLL of targets y [B] for means + bias [C, 1].

    log_noise [C]: logarithm of the noise's standard deviation. nll float64 [C] takes the sum, in nats, bias_gradient
    [C, 1] and noise_gradient [C] the gradients for bias and log noise.
    """
    n_rows = means.shape[2]
    for c in range(means.shape[0]):
        precision = math.exp(float64(-2) * log_noise[c])
        squares, total = float64(0), float64(0)
        for a in range(0, n_rows, LANES):
            b = min(n_rows, a + LANES)
            of_squares, of_gradient = _normal_block(means[c, 0, a:b], bias[c, 0], y[a:b], float32(precision))
            squares += of_squares
            total += of_gradient
        bias_gradient[c, 0] = total
        noise_gradient[c] = n_rows - squares * precision
        nll[c] = squares * precision / 2 + n_rows * (float64(log_noise[c]) + math.log(2 * math.pi) / 2)


@inner
def _move_block(z, momentum, gradient, weights, scales, centres, cold, kick, drift):
    for i in range(len(z)):
        slope = (gradient[i] * scales[i] + z[i]) * cold
        gradient[i] = slope
        momentum[i] -= kick * slope
        z[i] += drift * momentum[i]
        weights[i] = z[i] * scales[i] + centres[i]


def _move(z, momentum, gradient, weights, scales, centres, cold, kick, drift):
    """Take one part of a leapfrog: momentum -= kick x slope, then z += drift x momentum; all [C, P].

    The slope, which replaces `gradient` of the NLL for the weights, is that of the energy for z: with cold = 1 /
    temperature, cold x (gradient x scales [P] + z). `weights` become those of the new z: z x scales + centres [P].
    """
    for c in range(z.shape[0]):
        _move_block(
            *(z[c], momentum[c], gradient[c], weights[c], scales, centres),
            *(float32(cold), float32(kick), float32(drift)),
        )


activate = unlocked(_activate)
differentiate = unlocked(_differentiate)
classify = unlocked(_classify)
regress = unlocked(_regress)
move = unlocked(_move)
