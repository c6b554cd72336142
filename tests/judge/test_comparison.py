"""Estimates: each constructor on worked numbers and against SciPy; seeds without a spread; Holm's correction."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.judge.comparison import (
    CANNOT_TELL,
    CONFIRMED,
    CONTRADICTED,
    POWER,
    Reported,
    against_reported,
    holm,
    holm_over,
    independent,
    leaves_unit_interval,
    one_more_error,
    paired,
    quantile,
)
from bench.judge.samples import Samples
from bench.judge.stats.rule import judge_one
from tests.judge.claims import FINAL, FIVE

RUNS = st.lists(st.floats(-50, 50), min_size=3, max_size=8, unique=True)


def one_run(values, reported):
    return against_reported(Samples.of(values), Reported(reported, reported))


# --- a reported number -----------------------------------------------------------------------------------------------


def test_a_worked_report_of_one_run():
    # 1 to 5: mean 3, s = sqrt(10 / 4), s sqrt(1 + 1/5) = sqrt(3), and 7 is 4 away. For 4 degrees of freedom the tail of
    # t has the closed form (1 - sin a (1 + cos^2 a / 2)) / 2 with a = atan(t / 2), t = 4 / sqrt(3).
    # t(4, .975) = 2.776445.
    found = one_run([1, 2, 3, 4, 5], 7.0)
    a = math.atan(4 / math.sqrt(3) / 2)
    assert (found.difference, found.error, found.freedom) == pytest.approx((4, math.sqrt(3), 4))
    assert found.p == pytest.approx(1 - math.sin(a) * (1 + math.cos(a) ** 2 / 2))
    assert found.half_width() == pytest.approx(2.776445 * math.sqrt(3), abs=1e-5)


def test_what_prints_alike_is_no_distance():
    found = against_reported(Samples.of([1, 2, 3]), Reported(1.5, 4.0))
    assert (found.difference, found.p) == (0, 1)
    assert against_reported(Samples.of([1, 2, 3]), Reported(2.5, 4.0)).difference == 0.5


@pytest.mark.parametrize(("n", "shift"), [(5, 4.12), (10, 3.30), (20, 3.03)])
def test_the_resolution_of_one_reported_run(n, shift):
    runs = Samples.of(np.random.default_rng(n).normal(size=n).tolist())
    found = against_reported(runs, Reported(0.0, 0.0))
    assert found.resolution(0.05) / runs.sd == pytest.approx(shift, abs=0.005)
    power = stats.nct.sf(quantile(0.975, n - 1), n - 1, found.resolution(0.05) / found.error)
    assert power == pytest.approx(POWER, abs=1e-4)


def test_equal_runs_cannot_judge_another_number():
    beside, same = one_run([0.5] * 5, 0.6), one_run([0.5] * 5, 0.5)
    assert (beside.is_testable, same.is_testable) == (False, True)
    assert (beside.p, same.p, same.half_width(), same.resolution(0.05)) == (0, 1, 0, 0)


def test_a_worked_report_of_several_runs():
    # (1, 2, 3) and a mean of 3 of three runs with sd 1: se = sqrt(1/3 + 1/3), df = (2/3)^2 / (2 (1/3)^2 / 2) = 4. With
    # margin 4 the nearer end is 3 / se = 3.674235 away, and the tail of t(4) has the closed form above.
    found = against_reported(Samples.of([1, 2, 3]), Reported(3.0, 3.0, 1.0, 3))
    assert (found.difference, found.error, found.freedom) == pytest.approx((1, math.sqrt(2 / 3), 4))
    a = math.atan(3 / math.sqrt(2 / 3) / 2)
    assert found.equivalence_p(4.0) == pytest.approx((1 - math.sin(a) * (1 + math.cos(a) ** 2 / 2)) / 2)


@given(RUNS, RUNS, st.floats(0.1, 100))
def test_a_report_of_several_runs_is_judged_as_by_scipy(ours, theirs, margin):
    one, two = np.array(ours), np.array(theirs)
    if one.std() + two.std() < 1e-3:
        return  # SciPy warns of lost digits
    mean = float(two.mean())
    found = against_reported(Samples.of(ours), Reported(mean, mean, float(two.std(ddof=1)), len(two)))
    known = stats.ttest_ind(one, two, equal_var=False)
    ends = known.confidence_interval(0.95)
    above = stats.ttest_ind(one + margin, two, equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(one - margin, two, equal_var=False, alternative="less").pvalue
    assert found.p == pytest.approx(known.pvalue, rel=1e-6, abs=1e-12)
    assert 2 * found.half_width() == pytest.approx(ends.high - ends.low, rel=1e-6)
    assert found.equivalence_p(margin) == pytest.approx(max(above, below), rel=1e-6, abs=1e-12)


def test_without_spread_on_both_sides_the_numbers_decide():
    still = [against_reported(Samples.of([0.0] * 5), Reported(x, x, 0.0, 5)) for x in (0.0, 0.1)]
    assert [one.p for one in still] == [1, 0]
    assert [still[1].equivalence_p(margin) for margin in (0.2, 0.1)] == [0, 1]
    assert still[1].half_width() == 0


# Both sides five runs with sd .001: se = .001 sqrt(2/5) = 6.3246e-4, 8 degrees of freedom, t(.95) = 1.8595,
# t(.975) = 2.3060.
@pytest.mark.parametrize(
    ("reported", "margin", "outcome"),
    [
        (0.978, 0.005, CONFIRMED),  # (.005 - .001) / se = 6.3
        (0.985, 0.005, CONTRADICTED),  # .008 / se = 12.6
        (0.9790, 0.005, CONTRADICTED),  # .002 / se = 3.16 > 2.306, though it is by less than the margin
        (0.978, 0.0005, CANNOT_TELL),  # .001 / se = 1.58 < 2.306, and more than the margin
        (0.97705, 0.0013, CONFIRMED),  # .00125 / se = 1.98 > 1.8595
        (0.97705, 0.0012, CANNOT_TELL),  # .00115 / se = 1.82
    ],
)
def test_outcomes_of_reports_with_a_spread(reported, margin, outcome):
    claim = msgspec.structs.replace(FINAL, stage="final", printed=repr(reported), margin=margin, spread=0.001, n_runs=5)
    found = judge_one(claim, Samples.of(FIVE))
    assert found.outcome == outcome
    assert found.on_scale.half_width == pytest.approx(2.3060 * 6.3246e-4, rel=1e-4)


# --- two independent samples -----------------------------------------------------------------------------------------


def test_three_further_runs_after_eight():
    # 0 0 0 0 1 1 1 1: mean .5, s = sqrt(2 / 7) = .534522; sqrt(1/3 + 1/8) = .677003, t(7, .975) = 2.364624; the
    # further runs have mean 2 and a spread that does not count
    found = independent(Samples.of([0, 0, 0, 0, 1, 1, 1, 1]), Samples.of([-7, 2, 11]))
    assert (found.difference, found.freedom) == (1.5, 7)
    assert found.half_width() == pytest.approx(2.364624 * 0.534522 * 0.677003, abs=1e-5)


@given(RUNS, st.floats(-50, 50))
def test_one_further_run_is_one_more_run(values, further):
    found, other = independent(Samples.of(values), Samples.of([further])), one_run(values, further)
    assert (found.p, found.half_width()) == pytest.approx((other.p, other.half_width()))


# --- two paired samples ----------------------------------------------------------------------------------------------


def test_a_worked_pair():
    # differences 1, 2, 3: mean 2, standard deviation 1, t(2, .975) = 4.302653, so 4.302653 / sqrt(3) = 2.484138
    found = paired({0: 1.0, 1: 1.0, 2: 1.0}, {0: 2.0, 1: 3.0, 2: 4.0})
    assert found.difference == 2
    assert found.interval() == pytest.approx((2 - 2.484138, 2 + 2.484138), abs=1e-6)
    assert not found.excludes_zero


def test_only_seeds_that_both_have_are_paired():
    found = paired({0: 1.0, 3: 5.0, 7: 2.0}, {7: 2.5, 3: 5.25, 9: 100.0})
    assert (found.first.by_seed, found.second.by_seed) == ({3: 5.0, 7: 2.0}, {3: 5.25, 7: 2.5})
    assert found.difference == 0.375
    assert paired({0: 1.0}, {1: 1.0}) is None


@given(RUNS)
def test_the_paired_test_and_its_interval_are_those_of_scipy(values):
    found = paired(dict.fromkeys(range(len(values)), 0.0), dict(enumerate(values)))
    known = stats.ttest_1samp(values, 0.0)
    ends = known.confidence_interval(0.95)
    assert found.interval() == pytest.approx((ends.low, ends.high), rel=1e-6, abs=1e-9)
    assert found.p == pytest.approx(known.pvalue, rel=1e-6, abs=1e-12)


def test_what_tells_nothing_has_no_p_value_that_counts():
    one = paired({4: 0.5}, {4: 0.75})
    assert (one.difference, one.interval(), one.excludes_zero, one.is_testable) == (0.25, None, False, False)
    ties = paired({0: 0.1, 1: 0.7}, {0: 0.1, 1: 0.7})
    assert (ties.is_identical, ties.interval(), ties.excludes_zero, ties.is_testable) == (True, (0, 0), False, False)
    for n, counts in ((4, False), (5, True)):  # five seeds seldom differ by the same by chance
        numbers = dict(enumerate(map(float, range(n))))
        shifted = paired(numbers, {seed: value + 0.5 for seed, value in numbers.items()})
        assert shifted.is_testable == counts


# --- several estimates -----------------------------------------------------------------------------------------------


def test_holms_worked_example():
    # p = .01, .04, .03, .005 of four: .005 x 4 = .02; .01 x 3 = .03; .03 x 2 = .06; .04 x 1 = .04, raised to .06
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_helps_a_hypothesis_and_keeps_their_order(values):
    p_values = dict(enumerate(values))
    found = holm(p_values)
    assert all(p_values[name] <= found[name] <= min(1, len(values) * p_values[name]) for name in p_values)
    ranked = sorted(p_values, key=lambda name: p_values[name])
    assert [found[name] for name in ranked] == sorted(found.values())  # none overtakes one before it


def test_estimates_that_cannot_be_tested_do_not_count():
    # differences 1, 2, 3: t = 2 sqrt(3), and of two degrees of freedom p = 1 - t / sqrt(2 + t^2) = 1 - sqrt(12 / 14)
    changed = paired({0: 1.0, 1: 1.0, 2: 1.0}, {0: 2.0, 1: 3.0, 2: 4.0})
    found = holm_over({"a": changed, "b": paired({0: 1.0}, {0: 2.0}), "c": None, "d": changed})
    assert found == pytest.approx(dict.fromkeys("ad", 2 * (1 - math.sqrt(12 / 14))))


# --- fractions -------------------------------------------------------------------------------------------------------


def test_at_98_percent_of_100_images_the_interval_holds_in_all_but_not_on_both_sides_and_is_rough():
    """The prediction interval of five runs, in 100,000 cases: does one more run lie below or above it?"""
    runs = np.random.default_rng(5).binomial(100, 0.98, (100_000, 6)) / 100
    ours, report = runs[:, :5], runs[:, 5]
    mean, width = ours.mean(axis=1), ours.std(axis=1, ddof=1) * quantile(0.975, 4) * one_more_error(1.0, 5)
    slack = 1e-9  # of a count: rounding of the means
    below, above = np.mean(report < mean - width - slack), np.mean(report > mean + width + slack)
    assert 0.035 < below + above < 0.055
    assert below > 3 * above
    rough = [leaves_unit_interval(m - w, m + w) for m, w in zip(mean[:5_000], width[:5_000], strict=True)]
    assert np.mean(rough) > 0.9


def test_an_interval_without_width_is_rough_at_an_end_only():
    assert leaves_unit_interval(1.0, 1.0)
    assert not leaves_unit_interval(0.5, 0.5)
    assert not leaves_unit_interval(0.0, 1.0)
    assert leaves_unit_interval(-1e-9, 0.5)
