"""Verdicts on printed means over splits, with planted runs: their rule, pairing by split, other splits."""

import math
import statistics

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats

from bench.judge.comparison import ALPHA, CANNOT_TELL, CONFIRMED, CONTRADICTED
from bench.judge.stats.rule import NOT_RUN, TOO_FEW
from bench.uci import verdicts
from bench.uci.published import Printed, author, cuts_to, printed, prints_as, spread, tables
from bench.uci.verdicts import (
    MARGIN_SHARE,
    NOT_COMPARABLE,
    held_out_ratio,
    in_words,
    judge,
    judge_column,
    margin,
    metric_of,
    pair,
    printed_sd,
    reported,
    resampled,
)

COLUMN = "readme2018.grid"
KEYS = {"rmse": "rmse", "ll": "ll_mixture"}
SEEDS = (-2.0, -1.0, 0.0, 1.0, 2.0)


def runs(name, metric, shift=0.0, scatter=0.0, seeds=SEEDS):
    """The author's number of each split, moved by `shift`, and by `scatter` times a number for each seed."""
    theirs = author()["grid2018", name, metric]
    return {i: {split: value + shift + scatter * one for split, value in theirs.items()} for i, one in enumerate(seeds)}


def verdict(name, metric, **planted):
    found = judge_column(COLUMN, {(name, KEYS[metric]): runs(name, metric, **planted)})
    return next(one for one in found if (one.printed.set, one.printed.metric) == (name, metric))


def test_the_margin_is_a_tenth_of_the_authors_sd_over_splits():
    values = list(author()["grid2018", "yacht", "rmse"].values())
    assert margin("yacht", "rmse") == pytest.approx(0.1 * statistics.pstdev(values), rel=1e-12)  # tolerance: rounding
    assert MARGIN_SHARE == 0.1
    assert margin("YearPredictionMSD", "rmse") is None


def test_runs_within_the_margin_confirm_and_far_ones_contradict():
    # Boston's RMSE 2.90 is 2.9003 by the splits, and the margin .08: the last place and seeds of sd .0158 leave room
    assert verdict("bostonHousing", "rmse", scatter=0.01).outcome == CONFIRMED
    assert verdict("bostonHousing", "rmse", scatter=0.1).outcome == CANNOT_TELL
    far = verdict("bostonHousing", "rmse", shift=0.5, scatter=0.01)
    assert (far.outcome, far.p_adjusted < ALPHA) == (CONTRADICTED, True)
    assert far.reason == ""
    near = verdict("bostonHousing", "rmse", shift=0.07, scatter=0.002)
    assert (near.outcome, near.reason) == (CONTRADICTED, "by less than the margin")


def test_the_p_value_is_that_of_one_more_run():
    found = verdict("yacht", "ll", shift=0.1, scatter=0.01)
    means = np.array(found.ours.values)
    distance = means.mean() - -1.245  # the nearest number that prints as -1.25
    t = distance / (means.std(ddof=1) * math.sqrt(1 + 1 / 5))
    assert found.estimate.p == pytest.approx(2 * stats.t.sf(abs(t), 4), rel=1e-9)  # tolerance: 1e-10 of SciPy's t
    assert found.p_adjusted == 18 * found.estimate.p  # nine sets with two values, measured or not


def test_holm_counts_all_comparable_values():
    shifts = {"bostonHousing": 0.2, "concrete": 0.4}
    ours = {(name, "rmse"): runs(name, "rmse", shift, 0.02) for name, shift in shifts.items()}
    found = {one.printed.set: one for one in judge_column(COLUMN, ours) if one.outcome != NOT_RUN}
    smaller, larger = sorted(found.values(), key=lambda one: one.estimate.p)
    assert smaller.p_adjusted == 18 * smaller.estimate.p < 1
    assert larger.p_adjusted == 17 * larger.estimate.p < 1


def test_fewer_than_five_runs_have_a_distance_and_no_verdict():
    one = verdict("energy", "rmse", shift=1.0, seeds=(0.0,))
    assert (one.outcome, one.ours.n, one.estimate.p, one.p_adjusted) == (TOO_FEW, 1, 1.0, None)
    assert one.estimate.difference == pytest.approx(
        spread("grid2018", "energy", "rmse").mean + 1 - 0.545, rel=1e-12
    )  # tolerance: rounding
    assert verdict("energy", "rmse", scatter=0.01, seeds=SEEDS[:4]).outcome == TOO_FEW
    assert verdict("energy", "rmse", shift=1.0).outcome == TOO_FEW  # five equal runs have no spread


def test_what_cannot_be_compared_says_why():
    outcomes = {(one.printed.set, one.printed.quantity): one for one in judge_column("alaya2019.bbb", {})}
    assert outcomes["yacht", "rmse"].outcome == NOT_RUN
    assert outcomes["yacht", "nll"].reason == "which likelihood, or which mean, is not stated"
    assert outcomes["naval-propulsion-plant", "rmse"].reason == "another target"
    assert {one.outcome for one in judge_column("pbp2015.bp", {})} == {NOT_COMPARABLE}
    assert "YearPredictionMSD" not in {one.printed.set for one in judge_column("gal2016t1.vi", {})}
    columns = tables().columns
    nll = Printed("ensembles2017t1.five", "yacht", "nll", "1.18", "0.21")
    assert metric_of(nll, columns[nll.column]) == "ll_gaussian"
    assert metric_of(Printed(COLUMN, "yacht", "ll", "-1.25", "0.01"), columns[COLUMN]) == "ll_mixture"


def test_splits_are_paired_with_the_authors():
    rng = np.random.default_rng(2)
    theirs = author()["grid2018", "yacht", "rmse"]
    ours = {split: value + 0.05 + 0.1 * rng.normal() for split, value in theirs.items()}
    found = pair("yacht", theirs, ours)
    differences = np.array([ours[split] - theirs[split] for split in theirs])
    assert found.estimate.difference == pytest.approx(differences.mean(), rel=1e-12)  # tolerance: rounding
    assert found.estimate.p == pytest.approx(
        stats.ttest_1samp(differences, 0).pvalue, rel=1e-9
    )  # tolerance: 1e-10 of SciPy's t
    expected = np.corrcoef(list(theirs.values()), list(ours.values()))[0, 1]
    assert found.correlation == pytest.approx(expected, rel=1e-12)  # tolerance: rounding
    error = differences.std(ddof=1) * math.sqrt(1 / 20 + 31 / 277)
    corrected = 2 * stats.t.sf(abs(differences.mean()) / error, 19)
    assert found.corrected_p == pytest.approx(corrected, rel=1e-9)  # tolerance: 1e-10 of SciPy's t
    assert pair("yacht", theirs, {0: 1.0, 1: 2.0}) is None
    assert pair("yacht", theirs, {split: 1.0 + split for split in range(3)}).estimate.n == 3


def test_a_verdict_has_the_pairs_of_its_splits():
    found = verdict("concrete", "ll", shift=0.01, scatter=0.1)
    assert found.by_split.estimate.n == 20
    assert found.by_split.correlation == pytest.approx(1, rel=1e-9)  # tolerance: rounding of a constant difference
    assert (
        next(
            one for one in judge_column("readme2018.bo", {("yacht", "rmse"): runs("yacht", "rmse")}) if one.ours.n
        ).by_split
        is None
    )


ELSEWHERE = replace(tables().columns[COLUMN], splits="other", run="", n_splits=10, test_share=0.2)


def test_other_splits_are_compared_by_the_corrected_resampled_t(monkeypatch):
    ours = runs("yacht", "rmse")[2]
    one = Printed("mine", "yacht", "rmse", "0.90", "0.05")
    monkeypatch.setitem(tables().columns, "mine", ELSEWHERE)
    assert printed_sd(one, ELSEWHERE) == 0.05 * math.sqrt(10)
    assert printed_sd(one, replace(ELSEWHERE, error="sd")) == 0.05
    assert printed_sd(one._replace(error=""), ELSEWHERE) is None
    found = resampled(one, ELSEWHERE, ours)
    sd = np.std(list(ours.values()), ddof=1)
    share = 31 / 277
    assert held_out_ratio("yacht") == share
    expected = math.sqrt(sd**2 * (1 / 20 + share) + 0.05**2 * 10 * (1 / 10 + 0.2 / 0.8))  # each by its own splits
    assert found.error == pytest.approx(expected, rel=1e-12)  # tolerance: rounding
    assert found.error > sd / math.sqrt(20)
    nearest = 0.895 - statistics.fmean(ours.values())  # the least number that prints as 0.90
    assert found.difference == pytest.approx(nearest, rel=1e-12)  # tolerance: rounding
    inside = Printed("mine", "yacht", "rmse", f"{statistics.fmean(ours.values()):.2f}", "0.05")
    assert resampled(inside, ELSEWHERE, ours).p == 1


def test_means_over_other_splits_get_verdicts_of_their_own(monkeypatch):
    monkeypatch.setitem(tables().columns, "mine", ELSEWHERE)
    for value, outcome in (("0.67", CANNOT_TELL), ("3.00", CONTRADICTED)):
        monkeypatch.setattr(verdicts, "printed", lambda value=value: (Printed("mine", "yacht", "rmse", value, "0.05"),))
        (found,) = judge_column("mine", {("yacht", "rmse"): runs("yacht", "rmse", seeds=(0.0,))})
        assert found.outcome == outcome
    unlabelled = replace(ELSEWHERE, error="unclear")
    found = judge(
        Printed("mine", "yacht", "rmse", "0.67", "0.05"), unlabelled, {("yacht", "rmse"): runs("yacht", "rmse")}
    )
    assert (found.outcome, found.reason) == (NOT_COMPARABLE, "other splits, and no error that is known")


@pytest.mark.parametrize("unknown", [{"n_splits": 0}, {"test_share": 0.0}])
def test_other_splits_of_unknown_number_or_size_are_not_compared(unknown):
    column = replace(ELSEWHERE, **unknown)
    one = Printed("mine", "yacht", "rmse", "0.67", "0.05")
    found = judge(one, column, {("yacht", "rmse"): runs("yacht", "rmse")})
    assert (found.outcome, found.estimate) == (NOT_COMPARABLE, None)
    assert found.reason == "other splits; how many, or of what size, is not stated"


def test_a_method_that_differs_is_not_compared_but_paired():
    column = replace(tables().columns[COLUMN], unlike="batches of 32")
    one = next(one for one in printed() if (one.column, one.set, one.metric) == (COLUMN, "yacht", "rmse"))
    found = judge(one, column, {("yacht", "rmse"): runs("yacht", "rmse", scatter=0.1)})
    assert (found.outcome, found.reason, found.ours.n) == (NOT_COMPARABLE, "batches of 32", 5)
    assert found.by_split.estimate.n == 20


def test_cut_digits_stand_for_the_numbers_beyond_them():
    values = {(one.column, one.set, one.quantity): one for one in printed()}
    assert reported(values[COLUMN, "concrete", "rmse"])[:2] == pytest.approx((4.82, 4.83))  # tolerance: rounding
    power = reported(values[COLUMN, "power-plant", "ll"])
    assert power[:2] == pytest.approx((-2.81, -2.80))  # tolerance: rounding
    assert power.low < spread("grid2018", "power-plant", "ll").mean < power.high
    boston = reported(values[COLUMN, "bostonHousing", "rmse"])  # 2.9036 is rounded, and known to be
    assert boston[:2] == pytest.approx((2.895, 2.905))  # tolerance: rounding
    same_table = reported(values["readme2018.bo", "bostonHousing", "rmse"])  # cut or rounded: the splits are not known
    assert same_table[:2] == pytest.approx((2.825, 2.84))  # tolerance: rounding
    zero = Printed("mine", "yacht", "nll", "0.00", "")
    assert reported(zero)[:2] == (-0.005, 0.005)
    for (run, name, metric), splits in author().items():
        for one in (one for one in printed() if (one.set, one.metric) == (name, metric)):
            if tables().columns[one.column].run == run:
                low, high, *_ = reported(one)
                rounding = 1e-12  # tolerance: of a sum of 20 numbers
                assert low - rounding <= statistics.fmean(splits.values()) <= high + rounding


def test_a_printed_value_in_words():
    values = {(one.column, one.set, one.quantity): one for one in printed()}
    found = {key: in_words(one) for key, one in values.items()}
    assert found["ensembles2017t1.five", "protein-tertiary-structure", "nll"] == (
        "nll 2.83 +- 0.02 (sd?), 5 splits (author), one Gaussian, 40 epochs, tuned: not stated"
    )
    assert found[COLUMN, "protein-tertiary-structure", "rmse"] == (
        "rmse 4.27 +- 0.02 (se), 5 splits (author), of the mean, 2000 epochs, tuned: validation"
    )
    assert "+- 0.06 (sd)," in found[COLUMN, "energy", "rmse"]  # called se
    assert "+- 0.01 (se, cut)," in found[COLUMN, "yacht", "ll"]
    assert "+- 0.00 (sd / sqrt(20))," in found["gal2016t2.4000", "protein-tertiary-structure", "ll"]
    assert (
        "nll 0.73, splits not stated, likelihood not stated, epochs not stated"
        in found["baselines.ten", "yacht", "nll"]
    )


def test_rounded_and_cut_digits():
    assert prints_as(4.826, "4.83")
    assert not prints_as(4.826, "4.82")
    assert cuts_to(4.826, "4.82")
    assert cuts_to(-2.9367, "-2.93")
    assert not cuts_to(-2.9367, "-2.94")
    assert prints_as(2.5, "2")
    assert prints_as(2.5, "3")  # halves may go either way
