"""Welch's tests, compared with a closed form and with SciPy; verdicts that use them; Holm's procedure."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.judge.samples import Sample
from bench.judge.stats.prediction import Group, equivalence_p, error_half_width, error_p, holm, welch
from bench.judge.stats.rule import AGREES, COARSE, DIFFERS, judge_one
from tests.judge.claims import FINAL, FIVE

GROUPS = st.lists(st.floats(-50, 50), min_size=3, max_size=8, unique=True)


def group(values):
    return Group(float(np.std(values, ddof=1)), len(values))


def test_a_closed_form():
    # (1, 2, 3) and (2, 3, 4): both have sd 1, so se = sqrt(1/3 + 1/3) and df = (2/3)^2 / (2 (1/3)^2 / 2) = 4. The means
    # are 1 apart; with margin 4 the nearer end is 3 / se = 3.674235 away. For 4 degrees of freedom the tail of t has
    # the closed form (1 - sin a (1 + cos^2 a / 2)) / 2 with a = atan(t / 2).
    first, second = group([1, 2, 3]), group([2, 3, 4])
    error, freedom = welch(first, second)
    assert (error, freedom) == pytest.approx((math.sqrt(2 / 3), 4))
    a = math.atan(3 / math.sqrt(2 / 3) / 2)
    assert equivalence_p(-1.0, 4.0, first, second) == pytest.approx((1 - math.sin(a) * (1 + math.cos(a) ** 2 / 2)) / 2)


@given(GROUPS, GROUPS, st.floats(0.1, 100))
def test_the_two_one_sided_tests_are_scipys(first, second, margin):
    one, two = np.array(first), np.array(second)
    if one.std() + two.std() < 1e-3:
        return  # scipy warns of lost digits
    above = stats.ttest_ind(one + margin, two, equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(one - margin, two, equal_var=False, alternative="less").pvalue
    p = equivalence_p(one.mean() - two.mean(), margin, group(one), group(two))
    assert p == pytest.approx(max(above, below), rel=1e-6, abs=1e-12)


@given(GROUPS, GROUPS)
def test_the_test_of_a_difference_and_its_interval_are_scipys(first, second):
    one, two = np.array(first), np.array(second)
    if one.std() + two.std() < 1e-3:
        return
    known = stats.ttest_ind(one, two, equal_var=False)
    distance = abs(one.mean() - two.mean())
    assert error_p(distance, *welch(group(one), group(two))) == pytest.approx(known.pvalue, rel=1e-6, abs=1e-12)
    width = error_half_width(*welch(group(one), group(two)))
    ends = known.confidence_interval(0.95)
    assert 2 * width == pytest.approx(ends.high - ends.low, rel=1e-6)


def test_without_spread_the_numbers_decide():
    still = Group(0.0, 5)
    assert equivalence_p(0.1, 0.2, still, still) == 0
    assert equivalence_p(0.2, 0.2, still, still) == 1
    assert (error_p(0.0, *welch(still, still)), error_p(1e-9, *welch(still, still))) == (1, 0)
    assert error_half_width(*welch(still, still)) == 0


def verdict(reported, margin, spread, n_runs=5):
    claim = msgspec.structs.replace(FINAL, stage="final", printed=repr(reported), margin=margin)
    return judge_one(msgspec.structs.replace(claim, spread=spread, n_runs=n_runs), Sample(FIVE))


# Both sides five runs with sd .001: se = .001 sqrt(2/5) = 6.3246e-4, 8 degrees of freedom, t(.95) = 1.8595,
# t(.975) = 2.3060.
@pytest.mark.parametrize(
    ("reported", "margin", "outcome"),
    [
        (0.978, 0.005, AGREES),  # (.005 - .001) / se = 6.3
        (0.985, 0.005, DIFFERS),  # .008 / se = 12.6
        (0.9790, 0.005, DIFFERS),  # .002 / se = 3.16 > 2.306, though it is by less than the margin
        (0.978, 0.0005, COARSE),  # .001 / se = 1.58 < 2.306, and more than the margin
        (0.97705, 0.0013, AGREES),  # .00125 / se = 1.98 > 1.8595
        (0.97705, 0.0012, COARSE),  # .00115 / se = 1.82
    ],
)
def test_outcomes_of_reports_with_a_spread(reported, margin, outcome):
    found = verdict(reported, margin, 0.001)
    assert found.outcome == outcome
    assert found.evidence.half_width == pytest.approx(2.3060 * 6.3246e-4, rel=1e-4)


def test_holms_worked_example():
    # p = .01, .04, .03, .005 of four: .005 x 4 = .02; .01 x 3 = .03; .03 x 2 = .06; .04 x 1 = .04, raised to .06
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_helps_a_hypothesis(values):
    p_values = {str(place): value for place, value in enumerate(values)}
    found = holm(p_values)
    assert all(p_values[name] <= found[name] <= 1 for name in p_values)
    ranked = sorted(p_values, key=lambda name: p_values[name])
    assert [found[name] for name in ranked] == sorted(found.values())  # none overtakes one before it
