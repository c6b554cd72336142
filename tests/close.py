"""The one tolerance of computations in float64 that round a few hundred times at most."""

import pytest

# tolerance: a float64 result of n roundings has a relative error below n 2^-53; 1e-12 allows n = 9,000. Near zero,
# where terms of size 1 cancel, the same holds for the absolute error.
DOUBLE = 1e-12


def close(expected):
    """Return what equals a number, or a list, dict or array of numbers, up to the rounding of float64."""
    return pytest.approx(expected, rel=DOUBLE, abs=DOUBLE)
