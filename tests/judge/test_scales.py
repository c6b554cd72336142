"""The scales of verdicts: which scale a claim has, and that conversions to a scale and back cancel."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from tests.judge.claims import BY_ID

HUNDRED = Scale("logit", 100)


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
