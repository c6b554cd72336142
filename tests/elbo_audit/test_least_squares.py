"""Least squares for gradients: are the standard errors right, and is it seen what no direction explains?"""

import math

import numpy as np
import pytest

from elbo_audit.least_squares import common, fit, fit_drawn, students_t


@pytest.mark.parametrize(
    ("level", "freedom", "t"),
    [  # 1: tan(.475 pi). 2: .95 sqrt(2 / (1 - .95^2)). The others: Abramowitz and Stegun, table 26.10
        (0.95, 1, math.tan(0.475 * math.pi)),
        (0.95, 2, 0.95 * math.sqrt(2 / (1 - 0.95**2))),
        (0.95, 3, 3.182),
        (0.99, 7, 3.499),
        (0.95, 30, 2.042),
        (0.95, 120, 1.980),
        (0.95, math.inf, 1.960),
    ],
)
def test_intervals_are_those_of_students_t(level, freedom, t):
    # tolerance: the table has three decimals
    assert students_t(level, freedom) == pytest.approx(t, abs=5e-4)


def gradients(seed, n_draws, n=12, noise=0.5):
    """b (1, .., 1) + c (1, .., n) with noise, b = 2 and c = 1: its directions and its draws."""
    columns = [{"w": np.ones(n)}, {"w": np.arange(1.0, n + 1)}]
    source = np.random.default_rng(seed)
    whole = 2 * columns[0]["w"] + columns[1]["w"]
    draws = [{"w": whole + noise * source.standard_normal(n)} for _ in range(n_draws)]
    return draws, columns


def test_the_errors_of_a_fit_are_as_large_as_they_say():
    # A t of 7 degrees of freedom has variance 7/5; of 300 the mean square has standard error sqrt(2.6/300) 7/5 = .13
    # (kurtosis 5): three of them are .4.
    ratios, alone = [], []
    for seed in range(300):
        found = fit(*gradients(seed, 8))
        for kept, estimate, true in ((alone, found.coefficient(1), 1.0), (ratios, found.ratio(1, 0), 0.5)):
            kept.append((estimate.value - true) / estimate.error)
    for kept in (alone, ratios):
        assert np.square(kept).mean() == pytest.approx(7 / 5, abs=0.4)


def test_an_error_that_all_draws_share_counts():
    # The NLL's weight is off alike in every draw: averaging does not take it away.
    draws, columns = gradients(0, 8)
    doubt = {"w": 3 * columns[1]["w"]}
    assert fit(draws, columns, doubt).coefficient(1).error == pytest.approx(3, rel=0.01)
    assert fit(draws, columns).coefficient(1).error < 0.1


def test_what_no_direction_explains_is_seen_beyond_the_noise():
    # w^2 beside 1 and w: after the fit (1, .., 12)^2 leaves 12 numbers of variance (n^2 - 1)(n^2 - 4) / 180 = 111
    draws, columns = gradients(0, 8)
    assert fit(draws, columns).missed("w", 0.0) == 0.0
    bent = [{"w": draw["w"] + 0.2 * columns[1]["w"] ** 2} for draw in draws]
    found = fit(bent, columns)
    rest = 0.2 * math.sqrt(12 * 143 * 140 / 180)  # 7.3
    explained = found.draws.mean(0) @ np.stack([column["w"] for column in columns])
    assert found.missed("w", 0.0) == pytest.approx(rest / math.hypot(rest, float(np.linalg.norm(explained))), rel=0.1)
    assert found.missed("w", 10.0) == 0.0  # as rounding may leave


def test_the_noise_of_one_tensor_is_no_misfit_of_another():
    # The noise of one tensor makes an error in c, which leaves a residual in the exact tensor. That is no misfit.
    # At 3 jackknife errors of 8 draws one right fit in 1,000 is marked: 3 or more of 200 have probability .001.
    ones, steps = np.ones(12), np.arange(1.0, 13)
    columns = [{"noisy": 0 * ones, "exact": ones}, {"noisy": steps, "exact": 0.3 * steps}]
    marked = 0
    for seed in range(200):
        source = np.random.default_rng(seed)
        noise = [source.standard_normal(12) for _ in range(8)]
        found = fit([{"noisy": steps + 60 * part, "exact": 20 * ones + 0.3 * steps} for part in noise], columns)
        marked += found.missed("exact", 1e-9) > 0
    assert marked <= 2


def test_what_draws_have_in_common_is_unbiased():
    # |(3, 4)|^2 = 25 however large the noise is; the mean of 400 estimates has standard error sd / 20
    source = np.random.default_rng(0)
    found = [common(np.array([3.0, 4.0]) + 5 * source.standard_normal((8, 2))).value for _ in range(400)]
    values = np.array(found)
    assert abs(float(values.mean()) - 25) < 4 * float(values.std(ddof=1)) / 20


def test_a_drawn_direction_loses_nothing_to_its_noise():
    # Signal 1 and noise 3 in 400 numbers: least squares against one draw counts a target of 2 about 2 / (1 + 9) times.
    source = np.random.default_rng(0)
    columns = [{"w": 1 + 3 * source.standard_normal(400)} for _ in range(32)]
    exact = fit_drawn([{"w": 2 * column["w"]} for column in columns], [columns]).coefficient(0)
    assert exact.value == pytest.approx(2, rel=1e-9)
    assert exact.error < 1e-9  # target and direction have the same noise
    found = fit_drawn([{"w": np.full(400, 2.0)}] * 32, [columns]).coefficient(0)
    assert abs(found.value - 2) < 3 * found.error
    assert found.error < 0.1
