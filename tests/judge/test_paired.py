"""Paired differences: a worked interval, the t test, equal numbers, and fractions near 1."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.judge.stats.paired import pair
from bench.judge.stats.prediction import error_half_width, leaves_unit_interval, prediction_error


def test_a_worked_interval():
    # differences 1, 2, 3: mean 2, standard deviation 1, t(2, .975) = 4.302653, so 4.302653 / sqrt(3) = 2.484138
    found = pair({0: 1.0, 1: 1.0, 2: 1.0}, {0: 2.0, 1: 3.0, 2: 4.0})
    assert found.mean == 2
    assert found.interval == pytest.approx((2 - 2.484138, 2 + 2.484138), abs=1e-6)
    assert not found.excludes_zero


def test_only_seeds_that_both_have_are_paired():
    found = pair({0: 1.0, 3: 5.0, 7: 2.0}, {7: 2.5, 3: 5.25, 9: 100.0})
    assert found.seeds == (3, 7)
    assert found.differences == (0.25, 0.5)
    assert pair({0: 1.0}, {1: 1.0}) is None


def test_one_seed_has_no_interval_and_tells_nothing():
    found = pair({4: 0.5}, {4: 0.75})
    assert (found.mean, found.interval, found.excludes_zero) == (0.25, None, False)


def test_ties_are_no_difference_whatever_the_spread():
    found = pair({0: 0.1, 1: 0.7}, {0: 0.1, 1: 0.7})
    assert found.identical
    assert found.interval == (0, 0)
    assert not found.excludes_zero


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=8, unique=True))
def test_the_interval_is_that_of_the_t_test(values):
    found = pair(dict.fromkeys(range(len(values)), 0.0), dict(enumerate(values)))
    known = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert found.interval == pytest.approx((known.low, known.high), rel=1e-6, abs=1e-9)


def test_at_98_percent_of_100_images_it_holds_in_all_but_not_on_both_sides_and_says_so():
    """The prediction interval of five runs, in 100,000 cases: does one more run lie below or above it?"""
    runs = np.random.default_rng(5).binomial(100, 0.98, (100_000, 6)) / 100
    ours, report = runs[:, :5], runs[:, 5]
    mean, width = ours.mean(axis=1), ours.std(axis=1, ddof=1) * error_half_width(prediction_error(1.0, 5), 4)
    slack = 1e-9  # of a count: rounding of the means
    below, above = np.mean(report < mean - width - slack), np.mean(report > mean + width + slack)
    assert 0.035 < below + above < 0.055
    assert below > 3 * above
    rough = [leaves_unit_interval(m, w) for m, w in zip(mean[:5_000], width[:5_000], strict=True)]
    assert np.mean(rough) > 0.9


def test_no_spread_at_the_end_of_the_scale_is_rough():
    assert leaves_unit_interval(1.0, 0.0)
    assert not leaves_unit_interval(0.5, 0.0)
    assert not leaves_unit_interval(0.5, 0.5)
    assert leaves_unit_interval(0.5, math.nextafter(0.5, 1))


def test_paired_fractions_that_reach_beyond_one_are_marked():
    wide = pair({0: 0.97, 1: 0.98}, {0: 0.98, 1: 1.0})
    assert wide.reaches_an_end()
    assert not pair({0: 0.50, 1: 0.51}, {0: 0.52, 1: 0.53}).reaches_an_end()
    assert not pair({0: 0.99}, {0: 1.0}).reaches_an_end()
