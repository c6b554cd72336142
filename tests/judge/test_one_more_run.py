"""Distributions of one more run: densities and tails compared with SciPy's t, and the overlap of two distributions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from bench.judge.samples import Samples
from bench.judge.stats.one_more_run import (
    LIKE,
    SAME,
    UNLIKE,
    UNTOLD,
    Rerun,
    compared,
    density,
    density_ratio,
    overlap,
    with_p,
)
from tests.judge.claims import made

FINITE = st.floats(-50, 50)
SPREAD = st.floats(0.01, 10)
SEEDS = st.integers(2, 30)


def runs(mean, sd, n):
    """Return n runs with this mean and standard deviation."""
    away = sd * math.sqrt((n - 1) / 2)
    return Samples.of([mean + away, mean - away, *[mean] * (n - 2)])


def t_of(one):
    return stats.t(one.n - 1, one.mean, one.sd * math.sqrt(1 + 1 / one.n))


def test_the_distribution_of_five_worked_runs():
    # runs 1 to 5: mean 3, s = sqrt(10 / 4), scale s sqrt(6 / 5) = sqrt(3)
    # at the mean, t with 4 degrees of freedom has density 3 / 8
    assert density(Samples.of([1.0, 2.0, 3.0, 4.0, 5.0]), 3.0, 3.0) == pytest.approx(3 / 8 / math.sqrt(3))


@given(FINITE, SPREAD, SEEDS, FINITE)
def test_density_of_one_number_is_scipys(mean, sd, n, value):
    one = runs(mean, sd, n)
    assert density(one, value, value) == pytest.approx(t_of(one).pdf(value), rel=1e-9)


@given(FINITE, SPREAD, SEEDS, FINITE, st.floats(0.001, 20))
def test_mean_density_of_an_interval_is_scipys_also_far_in_a_tail(mean, sd, n, low, width):
    one = runs(mean, sd, n)
    mine = t_of(one)
    # the tail on the far side has small numbers in full; the other one is 1 minus a small number
    expected = mine.sf(low) - mine.sf(low + width) if low > mean else mine.cdf(low + width) - mine.cdf(low)
    assert density(one, low, low + width) == pytest.approx(expected / width, rel=1e-6)


def test_what_two_distributions_share_is_the_integral_of_the_smaller_density():
    for one, other in [
        (runs(0.0, 1.0, 5), runs(2.0, 0.5, 20)),
        (runs(0.0, 1.0, 3), runs(0.0, 0.1, 10)),
        (runs(0.0, 1.0, 20), runs(1.0, 1.0, 20)),
    ]:
        points = np.linspace(-4, 4, 17)
        expected, _ = integrate.quad(
            lambda x, a=one, b=other: min(density(a, x, x), density(b, x, x)), -200, 200, points=points, limit=500
        )
        assert overlap(one, other) == pytest.approx(expected, abs=2e-3)
        assert overlap(one, other) == pytest.approx(overlap(other, one))


@given(FINITE, SPREAD, SEEDS)
def test_identical_distributions_share_everything_and_distant_ones_nothing(mean, sd, n):
    one = runs(mean, sd, n)
    assert overlap(one, one) == pytest.approx(1)
    # The widest t has one degree of freedom, and probability 1 / (pi t) beyond t: almost nothing here. Only the part in
    # which the densities cross has an error, of at most .001.
    assert overlap(one, runs(mean + 1e6 * sd, sd, n)) < 0.001 + 1e-5


def test_the_best_of_eight_identical_alternatives_reaches_a_ratio_of_ten_by_chance():
    # Eight alternatives equal the published recipe, with five seeds each; the report has the same distribution. The
    # largest of the eight ratios reaches ten in about 9 % of the reports (standard error of 3,000 reports: .5 %). So
    # one large ratio among many alternatives does not show that a claim can tell them apart. A ratio above 1,000 comes
    # about once in 1,000 reports (standard error .06 %).
    source = np.random.default_rng(5)
    largest = []
    for _ in range(3_000):
        published, *others = map(Samples.of, source.normal(size=(9, 5)))
        report = float(source.normal())
        largest.append(max(density_ratio(published, one, report, report) for one in others))
    assert abs(np.mean(np.array(largest) >= 10) - 0.09) < 3 * 0.005
    assert abs(np.mean(np.array(largest) > 1_000) - 0.001) < 3 * 0.0006


def test_five_seeds_of_two_identical_recipes_mostly_share_more_than_half():
    # In 9 of 100 cases the two groups of five seeds lie apart by chance (standard error of 1,000 cases: .9 %). Then the
    # rule does not say that a number tests nothing, although it does.
    pairs = np.random.default_rng(6).normal(size=(1_000, 2, 5))
    apart = np.mean([overlap(Samples.of(one), Samples.of(other)) <= 0.5 for one, other in pairs])
    assert abs(apart - 0.09) < 3 * 0.009


def rerun(own, shipped, **changes):
    return Rerun(made(**changes), Samples(own), Samples(shipped))


SHIPPED = {0: 0.9, 1: 0.95, 2: 0.96, 3: 0.97, 4: 0.98, 5: 0.99}


def test_a_rerun_is_compared_with_the_other_shipped_seeds():
    # seeds 1 to 5: mean .97, s = sqrt(.001 / 4), error s sqrt(6 / 5) = sqrt(.0003); seed 0 is the user's own
    found = compared(rerun({0: 0.98}, SHIPPED))
    assert found.difference == pytest.approx(0.01)  # tolerance: a difference of numbers near 1 loses two of 16 digits
    assert found.p == pytest.approx(2 * stats.t.sf(0.01 / math.sqrt(0.0003), 4))  # tolerance: as above
    # seeds 0 and 8 with mean .99: error sqrt(.00025 (1 / 2 + 1 / 5))
    two = compared(rerun({0: 0.99, 8: 0.99}, SHIPPED))
    assert two.p == pytest.approx(2 * stats.t.sf(0.02 / math.sqrt(0.000175), 4))  # tolerance: as above


@pytest.mark.parametrize(
    ("own", "shipped", "outcome"),
    [
        ({7: 0.955}, SHIPPED, LIKE),
        ({7: 0.5}, SHIPPED, UNLIKE),
        ({0: 0.9}, SHIPPED, SAME),
        ({0: 0.5}, SHIPPED, UNLIKE),  # the same seed, but another number
        ({0: 0.9, 7: 0.5}, SHIPPED, UNLIKE),
        ({0: 0.91, 1: 0.95}, SHIPPED, UNTOLD),  # four other seeds
        ({7: 0.9}, dict.fromkeys(range(5), 0.95), UNTOLD),  # no spread
        ({7: 0.95}, dict.fromkeys(range(5), 0.95), LIKE),
    ],
)
def test_what_is_said_of_a_rerun(own, shipped, outcome):
    (found,) = with_p([rerun(own, shipped)])
    assert found.outcome == outcome


def test_a_loss_is_compared_on_its_scale_and_one_that_the_scale_cannot_hold_is_not():
    loss = {"approach": "toy_mlp", "dataset": "toy", "metric": "loss", "unit": "squared target units", "split": ""}
    shipped = {seed: 10.0**seed for seed in range(5)}
    found = compared(rerun({7: 10.0**4}, shipped, **loss))
    assert found.difference == pytest.approx(2 * math.log(10))  # tolerance: rounding of logarithms
    assert compared(rerun({7: -1.0}, shipped, **loss)) is None


def test_a_number_that_several_claims_report_is_tested_once():
    one, other = rerun({7: 0.93}, SHIPPED), rerun({7: 0.93}, SHIPPED, approach="linear_bbb")
    (alone,) = with_p([one])
    assert [found.p_adjusted for found in with_p([one, one])] == [alone.p_adjusted] * 2
    assert with_p([one, other])[0].p_adjusted == min(1, 2 * alone.p_adjusted)


def test_runs_of_the_shipped_recipe_are_called_unlike_at_the_level():
    """Eight independent numbers, 19 other seeds each: by Holm, any is unlike with 1 - (1 - .05 / 8)^8 = .0489."""
    n_numbers, n_cases, source, alarms = 8, 2_000, np.random.default_rng(11), 0
    claims = [made(approach=f"net{number}") for number in range(n_numbers)]
    for case in source.normal(0.97, 0.001, (n_cases, n_numbers, 20)):
        both = ((dict(enumerate(row[1:].tolist(), start=1)), {0: row[0]}) for row in case)
        found = [Rerun(claim, Samples(own), Samples(them)) for claim, (them, own) in zip(claims, both, strict=True)]
        alarms += any(one.outcome == UNLIKE for one in with_p(found))
    expected = 1 - (1 - 0.05 / n_numbers) ** n_numbers
    # tolerance: four standard errors of a share of 2,000 cases
    assert abs(alarms / n_cases - expected) < 4 * math.sqrt(expected * (1 - expected) / n_cases)
