"""What the compiled passes over weights share: the size of a block, and the exponential and the softplus of float32.

The logarithm is in `bench.core.noise_loops`.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-any-generics, no-warn-return-any
# (numba has no types, and its scalars are not Python's)
from __future__ import annotations

import math

import numpy as np
from numba import float32, int32

from bench.core.noise_loops import inline

STRIDE = 4096  # weights of one block of a pass: 16 KiB of each array


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
