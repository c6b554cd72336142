"""The prediction interval of one more run, and Holm's procedure."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.judge.stats.prediction import error_half_width, holm, prediction_error
from tests.judge.claims import FIVE


def half_width(n):
    """Return that of the prediction interval of one more run, in standard deviations of the n runs."""
    return error_half_width(prediction_error(1.0, n), n - 1)


def test_half_width_of_five_runs():
    # t(4, .975) = 2.776445, sqrt(1.2) = 1.095445: 3.0414 standard deviations; for ever more runs 1.959964
    assert np.std(FIVE, ddof=1) == pytest.approx(0.001)
    assert half_width(5) == pytest.approx(3.0414, abs=1e-4)
    assert half_width(math.inf) == pytest.approx(1.959964, abs=1e-6)


def test_holms_worked_example():
    # p = .01, .04, .03, .005 of four: .005 x 4 = .02; .01 x 3 = .03; .03 x 2 = .06; .04 x 1 = .04, raised to .06
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    )


@given(st.dictionaries(st.text(min_size=1), st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_helps_a_hypothesis(p_values):
    found = holm(p_values)
    assert all(p_values[name] <= found[name] <= 1 for name in p_values)
    ranked = sorted(p_values, key=lambda name: p_values[name])
    assert [found[name] for name in ranked] == sorted(found.values())  # none overtakes one before it
