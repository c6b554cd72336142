"""The rule of verdicts for one claim: its scale, resolution, best of three, and each outcome on worked numbers."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.judge.comparison import CANNOT_TELL, CONFIRMED, CONTRADICTED, Reported, against_reported
from bench.judge.samples import MissingValue, Samples
from bench.judge.stats.on_scale import OnScale
from bench.judge.stats.one_more_run import best_of_p
from bench.judge.stats.rule import EXACT, NOT_EXACT, NOT_RUN, OUTCOMES, TOO_FEW, judge_one
from bench.judge.stats.scales import (
    IDENTITY,
    LOG,
    Scale,
    from_scale,
    margin_on_scale,
    scale_of,
    to_scale,
    width_in_unit,
    width_in_words,
)
from bench.show.outcomes import LANDS, why
from tests.judge.claims import BY_ID, FINAL, FIVE

HUNDRED = Scale("logit", 100)
PRINT = Reported(0.0, 0.0)
BEYOND = "some numbers that print so lie beyond the margin of some runs of ours"
WIDE = "our runs scatter by more than the margin"


@pytest.mark.parametrize(
    ("claim", "scale"),
    [
        ("feldman2018.toy_mlp.step25000.loss", LOG),
        ("feldman2018.toy_bbb.step01990.loss", LOG),
        ("feldman2018.toy_mlp.prediction_at_100", IDENTITY),
        ("chopra2018.random_module.noise_refused", HUNDRED),  # .95 of 100: 5 are not refused
        ("chopra2018.random_module.notmnist_refused", Scale("logit", 459)),  # 363 of 459: 96 are not refused
        ("chopra2018.random_module.refused", IDENTITY),  # 1250 of 10,000
        ("rabanser2017.mxnet_bbb.epoch10.test_accuracy", IDENTITY),  # 225 errors of 10,000
        ("feldman2018.mlp.noise_entropy", IDENTITY),
    ],
)
def test_the_rule_that_declares_a_scale(claim, scale):
    assert scale_of(BY_ID[claim]) == scale


def test_a_loss_of_zero_has_no_logarithm():
    zero = msgspec.structs.replace(BY_ID["feldman2018.toy_mlp.step25000.loss"], printed="0")
    assert scale_of(zero) == IDENTITY


def test_a_report_with_a_spread_stays_in_its_unit():
    spread = msgspec.structs.replace(BY_ID["chopra2018.random_module.noise_refused"], spread=0.02, n_runs=5)
    assert scale_of(spread) == IDENTITY


def test_worked_places():
    assert to_scale(LOG, math.e) == pytest.approx(1)
    assert to_scale(HUNDRED, 1.0) == pytest.approx(math.log(100.5 / 0.5))  # (100 + .5) / 101 against .5 / 101
    with pytest.raises(ValueError, match="domain"):
        to_scale(LOG, 0.0)


@given(st.sampled_from([IDENTITY, LOG, HUNDRED, Scale("logit", 459)]), st.floats(0.001, 1))
def test_a_number_comes_back(scale, value):
    assert from_scale(scale, to_scale(scale, value)) == pytest.approx(value)


@given(st.floats(-1e4, 1e4))
def test_a_fraction_stays_between_0_and_1(place):
    assert 0 <= from_scale(HUNDRED, place) <= 1


def test_the_margin_is_the_smaller_side():
    # A tenth of the loss: log(1.1) = .0953 above, -log(.9) = .1054 below. The file rounds the margin to six digits.
    toy = BY_ID["feldman2018.toy_mlp.step25000.loss"]
    assert margin_on_scale(toy, LOG) == pytest.approx(math.log(1.1), rel=1e-5)
    # .95 of 100 with margin .02: 93.5, 95.5 and 97.5 of 101. Below log(95.5/5.5) - log(93.5/7.5) = .3313.
    noise = BY_ID["chopra2018.random_module.noise_refused"]
    assert margin_on_scale(noise, HUNDRED) == pytest.approx(math.log(95.5 / 5.5) - math.log(93.5 / 7.5))
    # a side beyond 1 does not count
    edge = msgspec.structs.replace(noise, printed="0.99")
    assert margin_on_scale(edge, HUNDRED) == pytest.approx(math.log(99.5 / 1.5) - math.log(97.5 / 3.5))


def test_widths_in_the_claims_unit():
    assert width_in_words(IDENTITY, 5.0, 0.25) == "0.25"
    assert width_in_words(LOG, 5.0, math.log(3)) == "a factor of 3"
    # from 50 of 100 by a logit of log(100.5 / .5) to either end, which are half of it away
    assert width_in_unit(HUNDRED, 0.0, math.log(100.5 / 0.5)) == pytest.approx(0.5)


def verdict(values, reported, n_claims=1, missing_value=None, **changes):
    claim = msgspec.structs.replace(FINAL, stage="final", printed=repr(reported), **changes)
    return judge_one(claim, Samples.of(tuple(values), missing_value), n_claims)


def of_one_run(runs, reported):
    return against_reported(runs, Reported(reported, reported)).p


@given(st.floats(0, 6), st.integers(3, 30))
def test_the_best_of_one_run_is_one_run(distance, n):
    runs = Samples.of([math.sqrt((n - 1) / 2), -math.sqrt((n - 1) / 2), *[0.0] * (n - 2)])  # mean 0, s 1
    assert best_of_p(runs, distance, distance, tries=1) == pytest.approx(of_one_run(runs, distance), abs=2e-3)


def test_the_best_of_three_is_never_less_likely_than_one_run():
    """At 100 standard deviations the integral gives 0, but p of one run is 6.0e-8."""
    runs = Samples.of([math.sqrt(2), -math.sqrt(2), 0.0, 0.0, 0.0])
    for distance in (20.0, 100.0):
        assert 0 < of_one_run(runs, distance) <= best_of_p(runs, distance, distance, tries=3)


def test_the_best_of_three_keeps_its_level():
    # 2,000 reports that are the best of three: p < .05 in 5 % of them, standard error .0049.
    runs = np.random.default_rng(2).normal(size=(2_000, 8))
    best = runs[:, 5:].max(axis=1)
    found = [best_of_p(Samples.of(r[:5]), b, b, 3) < 0.05 for r, b in zip(runs, best, strict=True)]
    assert abs(np.mean(found) - 0.05) < 4 * 0.0049


def test_the_best_of_three_turns_with_the_direction():
    # the loss of a mirrored sample is as likely as the accuracy: p of the highest above is p of the lowest below
    accuracy = verdict(FIVE, 0.979)
    loss = verdict([-value for value in FIVE], -0.979, metric="test_loss", unit="nats")
    assert accuracy.best_of_three_p == pytest.approx(loss.best_of_three_p)
    assert verdict(FIVE, 0.979, metric="refusal_rate").best_of_three_p is None


@pytest.mark.parametrize(
    ("reported", "margin", "outcome", "words"),
    [  # h = 3.0414 s = .0030414, R = .00412; the report's digits take 1e-7, float32's resolution
        (0.978, 0.005, CONFIRMED, LANDS),  # .001 + .00304 <= .005
        (0.979, 0.005, CANNOT_TELL, f"near the edge: {BEYOND}"),  # .002 + .00304 > .005; t = 1.826, p = .14
        (0.979, 0.003, CANNOT_TELL, f"{WIDE}; 6 seeds can settle it"),  # t(5, .975) sqrt(1 + 1/6) = 2.7765 <= 3
        (0.979, 0.0019, CANNOT_TELL, f"{WIDE}; no number of seeds can settle it"),  # 1.96 s
        (0.99, 0.005, CONTRADICTED, "contradicted by 0.013"),  # t = .013 / (.001 sqrt(1.2)) = 11.87, p = 3e-4
        (0.981, 0.005, CONTRADICTED, "contradicted by 0.004, less than the margin"),  # t = 3.65, p = .022, .004 <= .005
    ],
)
def test_each_outcome_of_five_seeds(reported, margin, outcome, words):
    found = verdict(FIVE, reported, margin=margin)
    assert (found.outcome, why(found)) == (outcome, words)
    assert found.on_scale.half_width == pytest.approx(0.0030414, abs=1e-6)
    assert found.interval == pytest.approx((0.977 - 0.0030414, 0.977 + 0.0030414), abs=1e-6)


def test_more_claims_raise_p_and_lower_the_level():
    # p = .022 alone; of three claims .065
    found = verdict(FIVE, 0.981, n_claims=3)
    assert found.outcome == CANNOT_TELL
    assert found.p_adjusted == pytest.approx(3 * found.on_scale.estimate.p)
    assert found.level == pytest.approx(0.05 / 3)


def test_too_few_seeds_have_p_and_interval_all_the_same():
    found = verdict(FIVE[:4], 0.981)
    assert (found.outcome, found.p_adjusted) == (TOO_FEW, None)
    assert "4 of the 5 seeds" in why(found)
    assert 0 < found.on_scale.estimate.p < 1
    assert found.interval is not None
    assert verdict(FIVE[:1], 0.981).on_scale is None


def test_equal_seeds_say_nothing_of_a_report_beside_them():
    """Without a spread p would be 0, although shares of few images are often equal in a few runs."""
    found = verdict([0.977] * 5, 0.99)
    assert (found.outcome, found.p_adjusted) == (TOO_FEW, None)
    assert why(found).startswith("5 seeds, all equal: without a spread")
    assert verdict([0.977] * 5, 0.977).outcome == CONFIRMED


def test_a_failed_seed_is_not_dropped():
    found = verdict(
        FIVE, 0.977, missing_value=MissingValue("*", "1 of 6 seeds not counted (seed 3 diverged: train_loss is nan)")
    )
    assert found.outcome == TOO_FEW
    assert "diverged" in why(found)


def test_nothing_measured_says_why():
    found = verdict((), 0.977, missing_value=MissingValue("no data", "notmnist459 is not here"))
    assert (found.outcome, why(found)) == (NOT_RUN, "notmnist459 is not here")


def test_a_seed_off_the_scale_is_said():
    toy = BY_ID["feldman2018.toy_mlp.step25000.loss"]
    found = judge_one(toy, Samples.of((0.1, 0.2, 0.3, 0.4, 0.0)))
    assert (found.outcome, found.on_scale) == (TOO_FEW, None)
    assert "the scale log cannot hold one of them" in why(found)


def test_what_prints_as_reported_is_no_distance():
    # truncated .97 stands for .97 to below .98, which holds the mean
    found = verdict(FIVE, 0.97, precision=0.01, precision_kind="truncated")
    assert (found.on_scale.estimate.difference, found.on_scale.estimate.p) == (0, 1)
    assert found.on_scale.percentile == 50  # all five print so, and each counts half


@pytest.mark.parametrize(
    ("margin", "outcome", "words"),
    [  # .97 is .007 away, .98 only .003; h = .00304, and half of what prints so .005
        (0.0101, CONFIRMED, LANDS),
        (0.0099, CANNOT_TELL, f"near the edge: {BEYOND}"),
        (0.0080, CANNOT_TELL, "too few digits are printed; 6 seeds can settle it"),  # .00804 > .0080 >= .00778
        (0.0030, CANNOT_TELL, f"{WIDE}; no number of seeds can settle it"),
    ],
)
def test_the_far_end_of_what_prints_alike_confirms(margin, outcome, words):
    found = verdict(FIVE, 0.97, margin=margin, precision=0.01, precision_kind="truncated")
    assert (found.outcome, why(found)) == (outcome, words)
    assert round(found.on_scale.farthest_distance, 9) == 0.007


def test_the_near_end_of_what_prints_alike_contradicts():
    # Truncated .96 stands for up to .97, .007 from the mean: t = .007 / (.001 sqrt(1.2)) = 6.39, p = .0031.
    found = verdict(FIVE, 0.96, margin=0.03, precision=0.01, precision_kind="truncated")
    assert (found.outcome, why(found)) == (CONTRADICTED, "contradicted by 0.007, less than the margin")
    assert verdict(FIVE, 0.96, precision=0.02, precision_kind="truncated").outcome == CANNOT_TELL  # holds the mean


def test_a_scale_never_widens_the_margin():
    """At 0 and 1 a margin has one side only on the logit scale, and reaches far beyond itself in the claim's unit.

    The margin .02 above 0 of 100 images is log(2.5 / 98.5) - log(.5 / 100.5) = 1.63 on the scale; what prints as 0 ends
    at .02, and .052 is log(5.7 / 95.3) - log(2.5 / 98.5) = .86 further.
    """
    runs = [0.05, 0.05, 0.05, 0.06, 0.05]
    found = verdict(runs, 0.0, margin=0.02, split="100 images", precision=0.04, precision_kind="rounded")
    here = found.on_scale
    assert found.scale == HUNDRED
    assert 0.8 < here.estimate.difference < 0.9 < 1.6 < here.margin
    assert not here.is_within_margin  # .032 from the nearest number that prints so
    assert (found.outcome, why(found)) == (CONTRADICTED, "contradicted by 0.032")


@given(st.floats(0.05, 0.5), st.integers(5, 40))
def test_the_seeds_that_settle_a_claim_are_the_fewest(sd, n):
    spread = sd * math.sqrt((n - 1) / 2)
    found = OnScale(Samples.of([spread, -spread, *[0.0] * (n - 2)]), PRINT, 1)

    def half(k):
        return stats.t.ppf(0.975, k - 1) * sd * math.sqrt(1 + 1 / k)

    settled = found.seeds_to_settle
    if settled is None:
        assert stats.norm.ppf(0.975) * sd > 1 - 1e-5
    else:
        assert round(half(settled), 9) <= 1
        assert settled == 5 or round(half(settled - 1), 9) >= 1


def test_a_report_of_several_runs_is_settled_by_the_two_one_sided_tests():
    # t(8, .95) = 1.8595 at five seeds, se .001 sqrt(2 / 5): .00118 <= .0012 needs no more than five
    assert verdict(FIVE, 0.977, margin=0.0012, spread=0.001, n_runs=5).on_scale.seeds_to_settle == 5
    # without end, se is that of the report: t(4, .95) = 2.1318 times .001 / sqrt(5) is .00095
    assert verdict(FIVE, 0.977, margin=0.0009, spread=0.001, n_runs=5).on_scale.seeds_to_settle is None


def test_the_percentile_counts_our_runs():
    assert verdict(FIVE, 0.9772).on_scale.percentile == 60
    assert verdict(FIVE, 0.99).on_scale.percentile == 100


def test_computed_numbers_are_compared_by_their_digits():
    claim = BY_ID["feldman2018.worked_example.w"]  # 4.5561
    assert judge_one(claim, Samples.of((4.55611,))).outcome == EXACT
    assert judge_one(claim, Samples.of((4.5563,))).outcome == NOT_EXACT
    # the mean of these prints as reported, neither of them does: every seed counts
    assert judge_one(claim, Samples.of((4.5559, 4.5563))).outcome == NOT_EXACT


PRINTED = st.floats(-10, 10).filter(lambda value: value == 0 or abs(value) > 1e-300)  # a smaller one is refused


@given(st.lists(st.floats(-10, 10), max_size=8), PRINTED, st.floats(0, 5), st.sampled_from(sorted(BY_ID)))
def test_every_claim_has_an_outcome_and_a_reason(values, reported, margin, name):
    claim = msgspec.structs.replace(BY_ID[name], printed=repr(reported), margin=margin)
    found = judge_one(claim, Samples.of(tuple(values)))
    assert found.outcome in OUTCOMES
    assert why(found)
