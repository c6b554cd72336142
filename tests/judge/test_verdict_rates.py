"""How often the rule of the verdicts errs, by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from bench.judge.comparison import CONFIRMED, CONTRADICTED, quantile
from bench.judge.stats.curves import curve_on_scale
from bench.judge.stats.joint import correlations, joint_p, simulated_p
from bench.judge.stats.verdicts import judge
from benchmarks.verdicts import NOT_NORMAL, _outside, _pooled
from tests.judge.test_verdicts import curve_rows, on_scale, row


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
