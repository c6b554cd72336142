"""The statistics of the gate: worked numbers, closed forms, and simulated false alarms and power."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.judge.stats.gating import Design, DivergenceCounts, false_alarm_rate
from bench.judge.stats.prediction import error_half_width, error_p, holm, prediction_error

sizes = {"k": st.integers(3, 20), "m": st.integers(1, 5)}


def test_half_width_of_three_runs_after_eight():
    # t(7, .975) = 2.364624, sqrt(1/3 + 1/8) = .677003
    assert Design(1.0, 8, 3, 0.0).half_width() == pytest.approx(2.364624 * 0.677003, abs=1e-5)


@given(st.floats(1e-3, 1e3), st.integers(2, 30), st.floats(0, 10))
def test_one_fresh_run_is_one_more_run(sd, k, difference):
    design = Design(sd, k, 1, 0.0)
    error = prediction_error(sd, k)
    assert design.half_width() == pytest.approx(error_half_width(error, k - 1))
    assert design.p_value(difference) == pytest.approx(error_p(difference, error, k - 1))


def test_without_spread_every_difference_counts():
    design = Design(0.0, 8, 3, 0.1)
    assert (design.p_value(0.0), design.p_value(1e-12)) == (1, 0)
    assert (design.alarm_rate(0.2, 0.05), design.alarm_rate(0.05, 0.05)) == (1, 0)
    assert design.smallest_shift(0.05) == 0.1


@given(alpha=st.floats(1e-4, 0.2), **sizes)
def test_without_a_margin_the_level_is_kept_exactly(alpha, k, m):
    assert Design(2.0, k, m, 0.0).alarm_rate(0.0, alpha) == pytest.approx(alpha, rel=2e-3)


@given(shift=st.floats(0, 8), alpha=st.floats(1e-3, 0.1), **sizes)
def test_power_without_a_margin_is_that_of_the_noncentral_t(shift, alpha, k, m):
    # (difference / standard error) is a noncentral t with k - 1 degrees of freedom
    away = shift / math.sqrt(1 / m + 1 / k)
    critical = stats.t.isf(alpha / 2, k - 1)
    other_side = np.nan_to_num(stats.nct.cdf(-critical, k - 1, away))  # SciPy gives NaN where it is 0
    expected = stats.nct.sf(critical, k - 1, away) + other_side
    assert Design(1.0, k, m, 0.0).alarm_rate(shift, alpha) == pytest.approx(expected, abs=2e-3)


def test_power_with_a_margin_by_simulation():
    # 100,000 gates: standard error of a share near .25 .0014
    design, alpha, shift = Design(1.0, 8, 3, 1.5), 0.01, 1.2
    source = np.random.default_rng(2)
    reference, fresh = source.normal(size=(100_000, 8)), source.normal(shift, 1.0, (100_000, 3))
    step = fresh.mean(axis=1) - reference.mean(axis=1)
    t = step / reference.std(axis=1, ddof=1) / math.sqrt(1 / 3 + 1 / 8)
    alarms = (np.abs(t) > stats.t.isf(alpha / 2, 7)) & (np.abs(step) > design.margin)
    assert design.alarm_rate(shift, alpha) == pytest.approx(alarms.mean(), abs=5 * 0.0014)
    assert design.alarm_rate(shift, alpha) < Design(1.0, 8, 3, 0.0).alarm_rate(shift, alpha) - 0.01


@given(sd=st.floats(1e-3, 10), margin=st.floats(0, 10), **sizes)
def test_the_smallest_shift_is_seen_as_often_as_said(sd, margin, k, m):
    design = Design(sd, k, m, margin)
    shift = design.smallest_shift(0.01)
    assert design.alarm_rate(shift, 0.01) == pytest.approx(0.8, abs=0.01)
    assert shift > margin


def simulated_alarms(source, n_gates, n_metrics, margin, common=0.0):
    """Return the share of gates with unchanged code that fail somewhere; `common` is the metrics' correlation."""
    alarms = 0
    for _ in range(n_gates):
        shared, own = source.normal(size=(1, 11)), source.normal(size=(n_metrics, 11))
        runs = math.sqrt(common) * shared + math.sqrt(1 - common) * own
        designs = [Design(sd, 8, 3, margin) for sd in runs[:, :8].std(axis=1, ddof=1)]
        steps = runs[:, 8:].mean(axis=1) - runs[:, :8].mean(axis=1)
        p = {str(place): design.p_value(steps[place]) for place, design in enumerate(designs)}
        adjusted = holm(p)
        alarms += any(adjusted[name] < 0.05 and abs(steps[int(name)]) > margin for name in p)
    return alarms / n_gates


@pytest.mark.parametrize("margin", [0.0, 2.0])
def test_false_alarms_are_as_rare_as_said(margin):
    # 2,000 gates of 12 metrics whose true standard deviation is 1: standard error of .05 is .0049
    found = simulated_alarms(np.random.default_rng(3), 2_000, 12, margin)
    expected = false_alarm_rate([Design(1.0, 8, 3, margin)] * 12, 0.05, 12)
    assert abs(found - expected) < 4 * 0.0049
    assert expected < 0.05
    assert (expected < 0.02) == (margin > 0)


def test_metrics_that_move_together_alarm_more_rarely():
    # standard error of .05 in 1,000 gates .0069
    assert simulated_alarms(np.random.default_rng(4), 1_000, 12, 0.0, common=0.9) < 0.05 + 2 * 0.0069


# --- seeds that diverge ---------------------------------------------------------------------------------------------


@given(st.integers(0, 9), st.integers(0, 4))
def test_fishers_test_is_scipys(of_reference, of_fresh):
    table = [[of_fresh, 4 - of_fresh], [of_reference, 9 - of_reference]]
    expected = stats.fisher_exact(table, alternative="greater").pvalue
    assert DivergenceCounts(of_reference, 9, of_fresh, 4).p_value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("counts", "alpha", "rate"),
    [
        (DivergenceCounts(1, 9, 0, 2), 0.05, (1 / 9) ** 2),  # two of two have p = .055; they fail the gate all the same
        (DivergenceCounts(0, 9, 0, 2), 0.05, 0.0),  # none ever diverged
        # beside 2 of 50, 1, 2 and 3 of 3 have p = .16, .0131 and 4.3e-4: at .05 two alarm, at .005 three
        (DivergenceCounts(2, 50, 0, 3), 0.05, 3 * 0.04**2 * 0.96 + 0.04**3),
        (DivergenceCounts(2, 50, 0, 3), 0.005, 0.04**3),
    ],
)
def test_false_alarms_of_diverged_seeds(counts, alpha, rate):
    assert counts.false_alarm_rate(alpha) == pytest.approx(rate)


def test_false_alarms_of_a_gate_whose_seeds_may_diverge():
    # 20,000 fresh runs beside a reference with 1 of 9: standard error of a share near .012 is 7.8e-4
    drawn = np.random.default_rng(5).binomial(2, 1 / 9, 20_000)
    counts = [DivergenceCounts(1, 9, n, 2) for n in range(3)]
    alarms = np.array([count.alarms(count.p_value, 0.05 / 13) for count in counts])[drawn]
    expected = false_alarm_rate([counts[0]], 0.05, 13)
    assert abs(alarms.mean() - expected) < 4 * 7.8e-4
    metrics = [Design(1.0, 8, 2, 0.0)] * 12
    both = 1 - (1 - false_alarm_rate(metrics, 0.05, 13)) * (1 - expected)
    assert false_alarm_rate([*metrics, counts[0]], 0.05, 13) == pytest.approx(both)
