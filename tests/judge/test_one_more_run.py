"""The distribution of one more run, compared with SciPy's t; how often the rule of the verdicts errs, by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from bench.judge.comparison import CONFIRMED, CONTRADICTED, quantile
from bench.judge.samples import Samples
from bench.judge.stats.curves import correlations, curve_on_scale, joint_p, simulated_p
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
from bench.judge.stats.verdicts import judge
from benchmarks.verdicts import NOT_NORMAL, _outside, _pooled
from tests.judge.claims import made
from tests.judge.test_verdicts import curve_rows, on_scale, row

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


def test_false_alarms_of_a_document_are_rare():
    # 12 end results and a curve of 8 epochs, all true, in 300 documents: any is contradicted in at most 5 % of them.
    # Standard error of that share .0126.
    source = np.random.default_rng(2)
    alarms = 0
    for _ in range(300):
        runs, epochs = source.normal(size=(12, 6)).tolist(), source.normal(size=(8, 6)) + source.normal(size=6)
        rows = [row(r[:5], r[5], id=f"c{i}", split=f"s{i}") for i, r in enumerate(runs)]
        found = judge([*rows, *curve_rows(epochs[:, :5].tolist(), epochs[:, 5].tolist())])
        alarms += any(one.outcome == CONTRADICTED for one in found.verdicts)
    assert alarms / 300 < 0.05 + 4 * 0.0126


def share(n_cases, seed, shift, margin, wanted):
    """Return how often a claim has an outcome; seeds and report differ by `shift` standard deviations."""
    runs = np.random.default_rng(seed).normal(size=(n_cases, 6))
    rows = [
        row(r[:5].tolist(), float(r[5] + shift), margin=margin, id=f"claim{i}", source=f"doc{i}")
        for i, r in enumerate(runs)
    ]
    return sum(one.outcome == wanted for one in judge(rows).verdicts) / n_cases


def test_a_true_report_differs_in_5_of_100_cases_whatever_the_margin():
    # one claim a document, so that Holm changes nothing: 4,000 cases, standard error .0034
    assert abs(share(4_000, 3, 0.0, 0.0, CONTRADICTED) - 0.05) < 4 * 0.0034
    assert share(1_000, 3, 0.0, 9.0, CONTRADICTED) == share(1_000, 3, 0.0, 0.0, CONTRADICTED)


def test_a_report_far_off_does_not_agree():
    # 6 standard deviations off: D is about 6 +- 1.1, and D + h <= 3 never. The power of t > 2.776 with 4 degrees of
    # freedom at a shift of 6 / sqrt(1.2) = 5.48 is .98 by the noncentral t distribution.
    assert share(1_000, 4, 6.0, 3.0, CONFIRMED) == 0
    power = stats.nct.sf(quantile(0.975, 4), 4, 6 / math.sqrt(1.2))
    assert abs(share(1_000, 4, 6.0, 3.0, CONTRADICTED) - power) < 4 * math.sqrt(power * (1 - power) / 1_000) + 0.003


@pytest.mark.parametrize(("common", "n"), [(0.0, 5), (1.0, 20), (5.0, 5)])
def test_a_true_curve_differs_in_5_of_100_cases(common, n):
    # 20 epochs that move apart, partly together, and nearly as one: 3,000 curves, standard error .004
    source = np.random.default_rng(9)
    alarms = 0
    for _ in range(3_000):
        runs = common * source.normal(size=(1, n + 1)) + source.normal(size=(20, n + 1))
        points = [on_scale(epoch[:n], epoch[n]) for epoch in runs]
        alarms += curve_on_scale(points).estimate.p < 0.05
    assert abs(alarms / 3_000 - 0.05) < 4 * 0.004


def documents(correlation, n_claims, n, times, seed):
    """Return true documents: claims of one approach whose seeds and report have this correlation."""
    source = np.random.default_rng(seed)
    for _ in range(times):
        own, common = source.normal(size=(n_claims, n + 1)), source.normal(size=n + 1)
        runs = math.sqrt(1 - correlation) * own + math.sqrt(correlation) * common
        yield [("a", on_scale(r[:n], r[n])) for r in runs]


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_the_joint_p_value_keeps_its_level(correlation):
    # 400 documents of 6 claims and 10 seeds, standard error .011. The correlations are those of ten seeds, so that the
    # level is not exact.
    found = [joint_p("d", claims, simulations=1_000) < 0.05 for claims in documents(correlation, 6, 10, 400, 5)]
    assert np.mean(found) < 0.05 + 3 * 0.011


def test_seeds_that_are_not_normal_raise_false_alarms_which_the_table_shows():
    # 5,000 reports, level .0042: standard error .0009. Tails, skew and a bad seed in ten: three times as many.
    rates = {name: _outside(10, 100, 0.05 / 12, name, draw) for name, draw in NOT_NORMAL.items()}
    assert rates.pop("normal") < 0.0042 + 4 * 0.0009
    assert len(rates) == 3
    assert min(rates.values()) > 0.0042 + 6 * 0.0009


def test_pooling_keeps_its_level_only_where_all_recipes_scatter_alike():
    # 600 reports, standard error .009: at .05 if all scatter alike, far more if the others scatter half as much
    assert _pooled(5, 1.0, 600) < 0.05 + 4 * 0.009
    assert _pooled(5, 0.5, 600) > 0.05 + 6 * 0.009


def test_of_one_claim_the_joint_p_value_is_its_own():
    claim = on_scale((1.0, 2.0, 3.0, 4.0, 5.0), 6.0)  # D = 3, s = 1.5811: t = 1.732, p = .158
    assert joint_p("d", [("a", claim)]) == pytest.approx(claim.estimate.p, abs=4 * 0.0026)


def test_the_joint_p_value_is_the_same_again():
    claims = next(documents(0.5, 4, 5, 1, 1))
    assert joint_p("d", claims) == joint_p("d", claims)


def test_what_prints_alike_is_simulated_so():
    # The print holds 200 / 1.58 = 126 standard deviations. The report is anywhere in it, and a mean that is about one
    # standard deviation away from the report lies outside at either end in about 1 of 126 cases.
    wide = on_scale((1.0, 2.0, 3.0, 4.0, 5.0), -100.0, 100.0)
    assert 0.97 < (simulated_p([wide], np.random.default_rng(1), 1_000, 0.0) == 1).mean() < 1


def test_correlations_are_shrunk_and_a_constant_has_none():
    found = correlations(np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [5.0, 5.0, 5.0]]), 0.02)
    assert found == pytest.approx(np.array([[1, 0.98, 0], [0.98, 1, 0], [0, 0, 1]]))
