"""Answers by posteriors with known probabilities, the rule that refuses, which network answers, the example."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from bench.core.errors import ConfigError, StoreError
from bench.interface import Categorical, Posterior
from bench.show.predict import networks, show
from bench.show.predict.pictures import normalise
from tests.drawings import as_bytes
from tests.show.conftest import SURE, TORN, linear_bbb, mlp, put
from tools.make_predict_example import PICTURES, drawn


def ask(store, name, *paths, n_draws=5, recipe=None):
    ((where, fit),) = networks.choose([store.root], (name,), recipe)
    return networks.ask(where, fit, [normalise(path) for path in paths], n_draws)


def chosen(store, *named, recipe=None):
    return [
        (fit.approach, fit.recipe, fit.seed, fit.protocol) for _, fit in networks.choose([store.root], named, recipe)
    ]


def test_an_answer_has_the_numbers_of_its_network(store, three):
    put(store, "mlp", mlp())
    (answer,) = ask(store, "mlp", three)
    assert (answer.network, answer.digit, answer.says, len(answer.draws)) == ("mlp", 3, "3", 1)
    np.testing.assert_allclose(answer.probabilities, SURE, rtol=1e-5)
    # By 0.9: 0.095; 0.02: 0.078; 0.013: 0.056; 0.007: 0.035; six of 0.01: 0.276; in all 0.541.
    # One network does not disagree with itself.
    assert answer.mutual_information == 0
    assert answer.predictive_entropy == pytest.approx(-sum(p * math.log(p) for p in SURE), rel=1e-5)
    assert answer.quantile == pytest.approx(0.9, rel=1e-5)  # tolerance: logs in float32


def test_what_the_rule_refuses_has_no_digit(store, three):
    put(store, "mlp", mlp(TORN))
    (answer,) = ask(store, "mlp", three)
    assert (answer.digit, answer.says) == (None, "I don't know")
    assert answer.quantile == pytest.approx(0.19, rel=1e-5)  # tolerance: logs in float32
    assert str(answer).startswith("PictureAnswer(network='mlp', digit=None, predictive_entropy=")
    with pytest.raises(ConfigError, match="5 draws, 0 pictures"):
        ask(store, "mlp")


class Torn(Posterior):
    """Two draws are sure of 0 and three of 1, up to 1e-9."""

    noise = "weights"
    n_draws = None

    def predict(self, x, draws, rows):
        probs = torch.full((5, len(x), 10), 1e-9)
        probs[:2, :, 0] = probs[2:, :, 1] = 1
        return Categorical(probs.log())

    def arrays(self):
        return {}


def test_worked_rule(store, three, monkeypatch):
    """The 10 % quantile lies between the two lowest of five values, at rank 0.4 of 0..4: 0 for both digits."""
    put(store, "mlp", mlp())
    monkeypatch.setattr(networks, "load", lambda *_: Torn())
    (answer,) = ask(store, "mlp", three)
    assert answer.digit is None
    assert answer.quantile < 1e-8
    assert answer.probabilities[1] == pytest.approx(0.6, rel=1e-5)  # tolerance: logs in float32, and the other 1e-9


def test_an_answer_does_not_depend_on_the_company(store, three, four):
    put(store, "linear_bbb", linear_bbb(0.3))
    together = ask(store, "linear_bbb", four, three, three)
    (alone,) = ask(store, "linear_bbb", three)
    np.testing.assert_allclose(together[1].probabilities, alone.probabilities, rtol=1e-5)
    np.testing.assert_allclose(together[2].draws, alone.draws, rtol=1e-5)
    assert np.abs(together[0].draws - alone.draws).max() > 1e-3  # another picture, other probabilities
    assert alone.draws.shape == (5, 10)
    assert alone.mutual_information > 0.01
    assert sum(alone.probabilities) == pytest.approx(1, abs=1e-6)


def test_the_full_profile_the_lowest_seed_and_the_common_protocol_come_first(store):
    put(store, "mlp", mlp(), seed=3)
    put(store, "mlp", mlp(), seed=2)
    put(store, "mlp", mlp(), seed=1, profile="smoke")
    put(store, "mlp", mlp(), seed=0, precision="bf16")
    put(store, "mlp", None, seed=0)
    put(store, "toy_mlp", mlp(), seed=0)
    assert chosen(store) == [("mlp", "published", 2, "common")]
    put(store, "mlp", mlp(), seed=0, recipe="corrected", protocol="published")
    put(store, "mlp", mlp(), seed=0, recipe="corrected")
    assert chosen(store, "mlp") == [("mlp", "corrected", 0, "common")]
    assert chosen(store, "mlp", recipe="published") == [("mlp", "published", 2, "common")]
    put(store, "linear_bbb", linear_bbb(1e-8), profile="smoke")
    assert chosen(store)[1:] == [("linear_bbb", "published", 0, "common")]
    assert [networks.label(fit) for _, fit in networks.choose([store.root])] == ["mlp corrected", "linear_bbb smoke"]


def test_no_network_names_the_command_that_trains_one(store):
    trains = r"--results my-results` trains one; then give --results my-results"
    with pytest.raises(ConfigError, match=rf"no trained network of mlp.*run mlp --recipe corrected {trains}"):
        networks.choose([store.root])
    put(store, "mlp", None)  # a record without a fit
    with pytest.raises(ConfigError, match=rf"run mlp --recipe published {trains}"):
        networks.choose([store.root], ("mlp",), "published")
    put(store, "linear_bbb", linear_bbb(1e-8))
    with pytest.raises(ConfigError, match="run linear_bbb --recipe corrected"):
        networks.choose([store.root], ("linear_bbb",), "corrected")


@pytest.mark.parametrize(
    ("named", "recipe", "message"),
    [
        (("mpl",), None, "did you mean 'mlp'"),
        (("toy_mlp",), None, "unknown classifier of digits 'toy_mlp'"),
        (("mlp",), "corected", "did you mean 'corrected'"),
        ((), "corected", "did you mean 'corrected'"),
    ],
)
def test_unknown_names(named, recipe, message, store):
    put(store, "mlp", mlp())
    with pytest.raises(ConfigError, match=message):
        networks.choose([store.root], named, recipe)


def test_a_damaged_posterior_is_named(store, three):
    path = put(store, "mlp", mlp())
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(StoreError, match="cannot be trusted"):
        ask(store, "mlp", three)


def test_a_picture_in_characters():
    pixels = np.zeros((4, 3), np.float32)
    pixels[:2, 1] = 1  # full in both rows of the first line
    pixels[2, 0] = 1  # in one of the two rows of the second: half of full
    assert show.characters(pixels) == " #\n:"


def test_the_pictures_of_the_example_are_those_that_the_tool_draws():
    pictures = drawn()
    assert sorted(path.name for path in PICTURES.iterdir()) == list(pictures)
    for name, pixels in pictures.items():
        np.testing.assert_array_equal(np.asarray(Image.open(PICTURES / name)), as_bytes(pixels))
        assert (PICTURES / name).stat().st_size < 5000


@pytest.mark.parametrize(
    ("says", "verdict"),
    [
        (("3", "3", "3"), "3 (3 of 3 networks)"),
        (("4", "I don't know", "I don't know"), "I don't know (2 of 3 networks), 4 (1 of 3 networks)"),
        (("8",), "8 (1 of 1 network)"),
    ],
)
def test_the_verdict_counts_the_networks(says, verdict):
    assert show.verdict([SimpleNamespace(says=each) for each in says]) == verdict
