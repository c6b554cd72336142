"""Loops that run once over millions of numbers, compiled by numba: random numbers, and passes over Gaussian weights.

Numba's cache on disk compiles a function again when the function's own file changes, but not when the file of a
function that it calls changes. So the names of all loops in the cache contain a hash of this file, and other files of
loops call compiled functions of this file alone. The tests compare every function with plain PyTorch: the random
numbers with `bench.core.noise`, the passes over the weights with `implementations._kernels`.

Shapes: B rows, n numbers a row, E networks, P scalar weights of each. Arrays are C-contiguous float32 unless said
otherwise. The loops are cut into blocks of fixed size, so that no result depends on the number of threads.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-any-generics, no-warn-return-any
# (numba has no types, and its scalars are not Python's)
from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
import numpy as np
import torch
from numba import float32, int32, prange, uint32, uint64

LANES = 64  # counters of a block of random numbers; a counter gives four words
BLOCK = 4 * LANES
STRIDE = 4096  # weights of one block of a pass: 16 KiB of each array
SERIAL_BELOW = 2**14  # numbers of a loop; for fewer, waking a second thread costs more than the loop

_VERSION = f"_{zlib.crc32(Path(__file__).read_bytes()):08x}"

# The compiler may add in any order and fuse products with additions, but must respect NaN and infinity.
_FAST = {"reassoc", "contract", "arcp", "nsz"}


def inline(function: Callable[..., Any]) -> Any:
    """Compile a function into each loop that calls it."""
    return numba.njit(inline="always", error_model="numpy", fastmath=_FAST)(function)


def inner(function: Callable[..., Any]) -> Any:
    """Compile the loop over one block as a separate function: with few arrays, LLVM can vectorise the loop."""
    return numba.njit(error_model="numpy", fastmath=_FAST)(function)


def loop(function: Callable[..., Any]) -> Any:
    """Compile a loop twice, for one thread and for several; the size of the first argument decides which one runs."""
    function.__qualname__ += _VERSION
    serial = numba.njit(error_model="numpy", fastmath=_FAST, cache=True)(function)
    copy = FunctionType(function.__code__, function.__globals__, function.__name__)
    copy.__qualname__ = function.__qualname__ + "_parallel"  # with one name, numba's cache would confuse the two
    parallel = numba.njit(error_model="numpy", fastmath=_FAST, cache=True, parallel=True)(copy)

    def call(*arguments: Any) -> None:
        threads = torch.get_num_threads()
        if threads == 1 or arguments[0].size < SERIAL_BELOW:
            serial(*arguments)
            return
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        parallel(*arguments)

    call.__doc__ = function.__doc__
    return call


@inline
def philox(c0, c1, c2, c3, k0, k1):
    """Return the four 32-bit words of Philox4x32-10 for a counter and a key (Salmon et al. 2011, section 5.1)."""
    for _ in range(10):
        p0 = uint64(0xD2511F53) * uint64(c0)
        p1 = uint64(0xCD9E8D57) * uint64(c2)
        c0 = uint32(uint32(p1 >> uint64(32)) ^ c1 ^ k0)
        c2 = uint32(uint32(p0 >> uint64(32)) ^ c3 ^ k1)
        c1, c3 = uint32(p1), uint32(p0)
        k0 = uint32(k0 + uint32(0x9E3779B9))
        k1 = uint32(k1 + uint32(0xBB67AE85))
    return c0, c1, c2, c3


@inline
def log32(x):
    """Return the natural logarithm of a positive normal float32, to 2e-7 relative (Cephes logf, Moshier 1992)."""
    bits = np.float32(x).view(np.int32)
    mantissa = np.int32((bits & int32(0x7FFFFF)) | int32(0x3F000000)).view(np.float32)  # in [1/2, 1)
    is_low = mantissa < float32(math.sqrt(0.5))
    exponent = float32((bits >> int32(23)) - int32(126)) - (float32(1) if is_low else float32(0))
    m = mantissa + (mantissa if is_low else float32(0)) - float32(1)
    y = float32(7.0376836292e-2)
    y = y * m - float32(1.1514610310e-1)
    y = y * m + float32(1.1676998740e-1)
    y = y * m - float32(1.2420140846e-1)
    y = y * m + float32(1.4249322787e-1)
    y = y * m - float32(1.6668057665e-1)
    y = y * m + float32(2.0000714765e-1)
    y = y * m - float32(2.4999993993e-1)
    y = y * m + float32(3.3333331174e-1)
    square = m * m
    y = y * m * square - float32(0.5) * square
    return m + (y + exponent * float32(-2.12194440e-4)) + exponent * float32(0.693359375)


@inline
def exp32(x):
    """Return e^x, to 2e-7 relative (Cephes expf); x outside [-87, 88] is replaced by the nearer end."""
    x = min(max(x, float32(-87.0)), float32(88.0))
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
def softplus32(rho):
    """Return (sigma, d sigma / d rho) with sigma = log(1 + e^rho), accurate for every rho."""
    small = exp32(-abs(rho))
    # log(1 + small) = 2 artanh(t), t = small / (2 + small) <= 1/3. This form keeps all digits of a small `small`. The
    # first omitted term of the series is 2e-9 of its first term.
    t = small / (float32(2) + small)
    z = t * t
    series = float32(1 / 15)
    series = series * z + float32(1 / 13)
    series = series * z + float32(1 / 11)
    series = series * z + float32(1 / 9)
    series = series * z + float32(1 / 7)
    series = series * z + float32(1 / 5)
    series = series * z + float32(1 / 3)
    series = series * z + float32(1)
    slope = (float32(1) if rho >= float32(0) else small) / (float32(1) + small)
    return max(rho, float32(0)) + float32(2) * t * series, slope


@inline
def normal_pair(a, b):
    """Return two independent standard normals from two 32-bit words (Box & Muller 1958); none is beyond 6.8."""
    uniform = (float32(a) + float32(0.5)) * float32(2.0**-32)
    radius = np.sqrt(float32(-2) * log32(uniform))
    # The angle 2 pi b / 2^32 is a multiple of pi/2 (its quadrant) plus a rest in [-pi/4, pi/4).
    quadrant = uint32(uint32(b + uint32(0x20000000)) >> uint32(30))
    angle = float32(int32(uint32(b - uint32(quadrant << uint32(30))))) * float32(2 * math.pi * 2.0**-32)
    z = angle * angle
    sine = ((float32(-1.9515295891e-4) * z + float32(8.3321608736e-3)) * z - float32(1.6666654611e-1)) * z
    sine = sine * angle + angle
    cosine = (float32(2.443315711809948e-5) * z - float32(1.388731625493765e-3)) * z + float32(4.166664568298827e-2)
    cosine = cosine * z * z - float32(0.5) * z + float32(1)
    is_odd = (quadrant & uint32(1)) != uint32(0)
    is_left = (quadrant == uint32(1)) | (quadrant == uint32(2))
    is_low = (quadrant & uint32(2)) != uint32(0)
    x = sine if is_odd else cosine
    y = cosine if is_odd else sine
    return radius * (-x if is_left else x), radius * (-y if is_low else y)


@inline
def _word_block(out, block, low, high, k0, k1):
    for lane in range(LANES):
        counter = uint32(block * LANES + lane)
        a, b, c, d = philox(counter, uint32(0), low, high, k0, k1)
        out[lane] = a
        out[LANES + lane] = b
        out[2 * LANES + lane] = c
        out[3 * LANES + lane] = d


@inline
def normal_block(out, block, low, high, k0, k1):
    """Fill out [BLOCK] with block number `block` of a row's standard normals."""
    for lane in range(LANES):
        counter = uint32(block * LANES + lane)
        a, b, c, d = philox(counter, uint32(0), low, high, k0, k1)
        x, y = normal_pair(a, b)
        out[lane] = x
        out[LANES + lane] = y
        x, y = normal_pair(c, d)
        out[2 * LANES + lane] = x
        out[3 * LANES + lane] = y


def _fill_words(out, rows, key):
    """Fill uint32 out [B, n] with the words of rows int64 [B] of the stream `key` (int64)."""
    n = out.shape[1]
    n_blocks = (n + BLOCK - 1) // BLOCK
    k0, k1 = uint32(key), uint32(uint64(key) >> uint64(32))
    for task in prange(len(rows) * n_blocks):
        row, block = task // n_blocks, task % n_blocks
        low, high = uint32(rows[row]), uint32(uint64(rows[row]) >> uint64(32))
        start = block * BLOCK
        if start + BLOCK <= n:
            _word_block(out[row, start : start + BLOCK], block, low, high, k0, k1)
        else:
            rest = np.empty(BLOCK, np.uint32)
            _word_block(rest, block, low, high, k0, k1)
            out[row, start:] = rest[: n - start]


def _fill_normals(out, rows, key):
    """Fill out [B, n] with the standard normals of rows int64 [B] of the stream `key` (int64)."""
    n = out.shape[1]
    n_blocks = (n + BLOCK - 1) // BLOCK
    k0, k1 = uint32(key), uint32(uint64(key) >> uint64(32))
    for task in prange(len(rows) * n_blocks):
        row, block = task // n_blocks, task % n_blocks
        low, high = uint32(rows[row]), uint32(uint64(rows[row]) >> uint64(32))
        start = block * BLOCK
        if start + BLOCK <= n:
            normal_block(out[row, start : start + BLOCK], block, low, high, k0, k1)
        else:
            rest = np.empty(BLOCK, np.float32)
            normal_block(rest, block, low, high, k0, k1)
            out[row, start:] = rest[: n - start]


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


fill_words = loop(_fill_words)
fill_normals = loop(_fill_normals)
draw_weights = loop(_draw_weights)
rho_gradient = loop(_rho_gradient)
adam_weights = loop(_adam_weights)
