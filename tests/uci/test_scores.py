"""Scores: closed forms against SciPy and against integrals of their definitions, and hand-made numbers."""

import math

import numpy as np
import pytest
from scipy import stats

from bench.uci.scores import METRICS, NODES, Fit, by_split, condensed, crps, scores, tidy

MEAN = np.array([[0.0, 1.0, -2.0], [0.5, 3.0, -2.5]])
VARIANCE = np.array([[1.0, 0.25, 4.0], [2.0, 0.5, 1.0]])
Y = np.array([0.2, 4.0, -1.0])


def below(x, mean, variance):
    """Distribution function of equal mixtures [S] at x."""
    return stats.norm.cdf((x[:, None] - mean) / np.sqrt(variance)).mean(axis=1)


def crps_integral(mean, variance, y):
    """The definition, the integral of (F(x) - [x >= y])^2, by Gauss-Legendre on each side of y, where it is smooth."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    reach, total = 12 * math.sqrt(variance.max()), 0.0
    for low, high, step in ((mean.min() - reach, y, 0.0), (y, mean.max() + reach, 1.0)):
        x = (high - low) / 2 * nodes + (high + low) / 2
        total += (high - low) / 2 * float(weights @ (below(x, mean, variance) - step) ** 2)
    return total


def test_log_densities_are_those_of_scipy():
    found = scores(MEAN, VARIANCE, Y)
    mixture = np.log(stats.norm.pdf(Y, MEAN, np.sqrt(VARIANCE)).mean(axis=0)).mean()
    assert found["ll_mixture"] == pytest.approx(mixture, rel=1e-12)  # tolerance: rounding of sums of 6 numbers
    variance = VARIANCE.mean(axis=0) + MEAN.var(axis=0)
    one = stats.norm.logpdf(Y, MEAN.mean(axis=0), np.sqrt(variance)).mean()
    assert found["ll_gaussian"] == pytest.approx(one, rel=1e-12)  # tolerance: as above
    assert abs(found["ll_gaussian"] - found["ll_mixture"]) > 0.01
    assert set(found) == set(METRICS)


def test_a_far_target_does_not_underflow():
    found = scores([[0.0], [1.0]], 1e-4, [100.0])
    # tolerance: rounding; the farther draw's share is exp(-1e6)
    assert found["ll_mixture"] == pytest.approx(stats.norm.logpdf(100, 1, 0.01) - math.log(2), rel=1e-12)


def test_errors_of_the_mean_and_of_one_pass():
    found = scores([[1.0, 2.0], [3.0, 6.0]], 1.0, [2.0, 5.0])
    assert found["rmse"] == math.sqrt(0.5)
    assert found["rmse_one_pass"] == math.sqrt(5.0)


def test_the_crps_of_one_gaussian_is_the_known_closed_form():
    z = (Y - MEAN[0]) / 2
    known = 2 * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / math.sqrt(math.pi))
    # tolerance: rounding; each side has a few sums of numbers below 10
    np.testing.assert_allclose(crps(MEAN[:1], np.full((1, 3), 4.0), Y), known, rtol=1e-12)


def test_the_crps_of_a_mixture_is_the_integral_of_its_definition():
    found = crps(MEAN, VARIANCE, Y)
    for row in range(3):
        # tolerance: 400 nodes integrate functions with scales of .5 over 30 units to 1e-10
        assert found[row] == pytest.approx(crps_integral(MEAN[:, row], VARIANCE[:, row], Y[row]), rel=1e-9)


def test_many_draws_are_condensed_within_the_stated_bound():
    rng = np.random.default_rng(3)
    mean, y = rng.gamma(2.0, 1.0, (30 * NODES, 2)), np.array([0.5, 6.0])
    variance = np.full_like(mean, 0.09)
    few, _ = condensed(mean, variance)
    inside = np.sort(mean, axis=0).reshape(NODES, 30, 2).var(axis=1).mean(axis=0)
    assert few.shape == (NODES, 2)
    np.testing.assert_allclose(few.mean(axis=0), mean.mean(axis=0), rtol=1e-12)  # tolerance: rounding of sums
    for row in range(2):
        exact = crps_integral(mean[:, row], variance[:, row], y[row])
        # tolerance: E|Z| has second derivative 2 phi / s, so a group's variance v changes the first expectation by at
        # most v phi(0) / s = .4 v / s and half of the second by .4 v / (sqrt(2) s); the sum, .69 v / s
        assert abs(crps(few, variance[:NODES], y)[row] - exact) <= 0.69 * inside[row] / 0.3
    assert scores(mean, 0.09, y)["crps"] == pytest.approx(
        crps(few, variance[:NODES], y).mean(), rel=1e-12
    )  # tolerance: rounding


def test_coverage_and_calibration_come_from_the_distribution_function():
    quantiles = (np.arange(1000) + 0.5) / 1000
    found = scores(np.zeros((1, 1000)), 4.0, stats.norm.ppf(quantiles, scale=2))
    assert [found[f"coverage{level}"] for level in (50, 90, 95)] == [0.5, 0.9, 0.95]
    assert found["calibration_error"] == pytest.approx(0, abs=1e-12)  # tolerance: rounding of shares
    narrow = scores(np.zeros((1, 1000)), 1.0, stats.norm.ppf(quantiles, scale=2))
    expected = 2 * stats.norm.cdf(stats.norm.ppf(0.95) / 2) - 1
    # tolerance: a target on either side of each bound of the interval
    assert narrow["coverage90"] == pytest.approx(expected, abs=2e-3)
    assert narrow["calibration_error"] > 0.05
    high = scores(np.full((1, 1000), 50.0), 4.0, stats.norm.ppf(quantiles, scale=2))
    assert high["calibration_error"] == pytest.approx(0.5, rel=1e-12)  # tolerance: rounding; every target is too low


def test_rows_in_blocks_give_the_same(monkeypatch):
    whole = scores(MEAN, VARIANCE, Y)
    monkeypatch.setattr("bench.uci.scores.AT_ONCE", 3)
    assert scores(MEAN, VARIANCE, Y) == whole


def test_the_table_has_a_row_for_each_score():
    fits = [Fit("yacht", "mc_dropout", "grid", 4000, split, seed) for split in (0, 1) for seed in (0, 1)]
    table = tidy((fit, {"rmse": 1.0 + fit.split + 0.5 * fit.seed, "crps": 0.0}) for fit in fits)
    assert list(table.columns) == ["set", "method", "recipe", "epochs", "split", "seed", "metric", "value"]
    assert len(table) == 8
    assert by_split(table, "rmse") == {0: 1.25, 1: 2.25}
