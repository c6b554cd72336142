"""How far numbers may lie apart by rounding: of float64 after a few hundred operations, and of float32 loops."""

import math

import pytest
import torch

from bench.core.noise import LANES

# tolerance: a float64 result of n roundings has a relative error below n 2^-53; 1e-12 allows n = 9,000. Near zero,
# where terms of size 1 cancel, the same holds for the absolute error.
DOUBLE = 1e-12


def close(expected):
    """Return what equals a number, or a list, dict or array of numbers, up to the rounding of float64."""
    return pytest.approx(expected, rel=DOUBLE, abs=DOUBLE)


UNIT = 2.0**-24  # unit roundoff of float32: the largest relative error of one operation

# Relative errors of the functions of compiled loops, whatever multiplications and additions are fused, in units.
# e^x: .8 of the reduced argument, .9 of the polynomial, 1 of the sum with 1; the last product is exact.
EXP = 4 * UNIT
# log x has the largest at 1/sqrt(2), where .347 - .693 remains: .35 and .2 of .347, and 1 of the last sum.
LOG = 4 * UNIT
# t = small / (2 + small): the 4 of `small`, and 3 of a sum and a quotient (or an inverse and a product). The square of
# t counts for 4% in the series, which has 2 roundings; its product with t and the sum with rho have one each:
# 7 (1 + 2 x .04) + 2 + 2 < 12
SOFTPLUS = 12 * UNIT
SLOPE = EXP + 3 * UNIT  # of small / (1 + small), as t


def normals_bound(exact):
    """Return how far float32 normals may be from those of float64, [..., n] of whole blocks of random numbers.

    With r^2 = -2 log u: u is rounded twice and log32 is good to 4 units, so that r^2 is off by 4 + 4 r^2, and r by half
    of this over r, and the rounding of the root: 2 / r + 3 r. The angle in [-pi/4, pi/4] is good to 3, which moves sine
    and cosine by 2.4 at most; their polynomials round twice near 1 and leave out .3: 6. The product rounds once.
    """
    first, second = exact.unflatten(-1, (-1, 2, LANES)).unbind(-2)
    radius = torch.stack([torch.hypot(first, second)] * 2, -2).flatten(-3)
    return 2 * UNIT / radius + 10 * UNIT * radius


def added(n):
    """Return by how many units of the sum of their sizes a sum of n terms may be off, whatever the order.

    Every order keeps n (Higham 2002, section 4.2), and 6 sqrt(n) but with probability 3e-8 (Higham & Mary 2019).
    """
    return min(n, 6 * math.sqrt(n))


def assert_within(found, expected, bound):
    """Check that each element of a float32 tensor is as close to a float64 one as its own bound says."""
    # tolerance: the caller derives it
    wrong = (found.double() - expected).abs() > bound
    assert not wrong.any(), f"{int(wrong.sum())} of {wrong.numel()}, at most {_times(found, expected, bound):.3g} times"


def _times(found, expected, bound):
    return ((found.double() - expected).abs() / bound).max().item()
