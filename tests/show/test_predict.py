"""Answers by posteriors with known probabilities, the rules that refuse, which fit answers, the documented example."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bench.core.errors import ConfigError, StoreError
from bench.measure.metrics.draws import reduce_draws
from bench.show.predict import Predictor, fits, predictor, show
from bench.show.predict.normalise import normalise
from bench.show.predict.reading import read
from tests.drawings import save
from tests.show.conftest import SURE, TORN, linear_bbb, mlp, put
from tools.make_predict_example import PICTURES, drawn


def test_three_lines_of_python(store, three):
    put(store, "mlp", mlp())
    p = Predictor(store.root, "mlp")
    answer = p(three)
    assert (answer.digit, answer.best_guess, answer.says, answer.n_draws, answer.refused_by) == (3, 3, "3", 1, "")
    np.testing.assert_allclose(answer.probabilities, SURE, rtol=1e-5)
    # By 0.9: 0.095; 0.02: 0.078; 0.013: 0.056; 0.007: 0.035; six of 0.01: 0.276; in all 0.541.
    # One network does not disagree with itself.
    assert answer.mutual_information == 0
    assert answer.predictive_entropy == pytest.approx(-sum(p * math.log(p) for p in SURE), rel=1e-5)
    assert str(answer) == "mlp: 3 (probability 0.900, entropy 0.541 nats, mutual information -)"


def test_no_class_above_the_threshold_is_refused_by_name(store, three):
    put(store, "mlp", mlp(TORN))
    answer = Predictor(store.root, "mlp", rule="median")(three)
    assert (answer.digit, answer.best_guess, answer.says) == (None, 0, "I don't know")
    assert answer.rule == "median"
    assert answer.refused_by == "no digit's median over the draws is above 0.2; the highest is 0.190, of the digit 0"
    assert str(answer).endswith(f"; rule median: {answer.refused_by})")


def test_an_answer_does_not_depend_on_the_company(store, three, four):
    put(store, "linear_bbb", linear_bbb(0.3))
    predictor = Predictor(store.root, "linear_bbb", n_draws=5)
    together = predictor.answers([normalise(four), normalise(three), normalise(three)])
    alone = predictor(three)
    np.testing.assert_allclose(together[1].probabilities, alone.probabilities, rtol=1e-5)
    np.testing.assert_allclose(together[2].draws, alone.draws, rtol=1e-5)
    assert np.abs(together[0].draws - alone.draws).max() > 1e-3  # another picture, other probabilities
    assert alone.draws.shape == (alone.n_draws, 10) == (5, 10)
    assert alone.mutual_information > 0.01
    assert sum(alone.probabilities) == pytest.approx(1, abs=1e-6)


def test_an_unknown_rule_is_named(store):
    put(store, "mlp", mlp())
    with pytest.raises(ConfigError, match="did you mean 'median'"):
        Predictor(store.root, "mlp", rule="medan")


def test_the_lowest_seed_of_the_asked_recipe_and_profile(store):
    put(store, "mlp", mlp(), seed=3)
    put(store, "mlp", mlp(), seed=2)
    put(store, "mlp", mlp(), seed=1, profile="smoke")
    put(store, "mlp", mlp(), seed=0, precision="bf16")
    put(store, "mlp", mlp(), seed=0, recipe="corrected", protocol="published")
    put(store, "mlp", mlp(), seed=0, recipe="corrected")
    put(store, "mlp", None, seed=0)
    put(store, "toy_mlp", mlp(), seed=0)
    chosen = fits.choose(store, ("mlp",), ("published", "corrected"))
    assert [(fit.recipe, fit.seed, fit.protocol) for fit in chosen] == [
        ("published", 2, "common"),
        ("corrected", 0, "common"),
    ]
    assert [fits.label(fit.approach, fit.recipe) for fit in chosen] == ["mlp", "mlp corrected"]
    assert fits.choose(store, budget="smoke")[0].seed == 1
    assert fits.choose(store, seed=3)[0].seed == 3


def test_no_fit_names_the_command_that_makes_it(store):
    trains = "--profile full --results my-results` trains it; then give --results my-results"
    with pytest.raises(ConfigError, match=rf"`python -m bench run .*mlp linear_bbb .*--recipe corrected {trains}"):
        fits.choose(store)
    with pytest.raises(ConfigError, match="run mlp --recipe corrected --profile smoke --seeds 4, --results"):
        fits.choose(store, ("mlp",), ("corrected",), "smoke", 4)
    put(store, "mlp", None)  # a record without a fit
    with pytest.raises(ConfigError, match=trains):
        fits.choose(store, ("mlp",))
    put(store, "mlp", mlp(), seed=1)
    with pytest.raises(ConfigError, match=r"there is mlp \(full, seed 1\)"):
        fits.choose(store, ("mlp",), seed=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"approaches": ("mpl",)}, "did you mean 'mlp'"),
        ({"approaches": ("toy_mlp",)}, "unknown classifier of digits 'toy_mlp'"),
        ({"approaches": ("mlp",), "recipes": ("corected",)}, "did you mean 'corrected'"),
        ({"budget": "ful"}, "did you mean 'full'"),
    ],
)
def test_unknown_names(arguments, message, store):
    put(store, "mlp", mlp())
    with pytest.raises(ConfigError, match=message):
        fits.choose(store, **arguments)


def test_a_damaged_posterior_is_named(store):
    path = put(store, "mlp", mlp())
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(StoreError, match="cannot be trusted"):
        Predictor(store.root, "mlp")


def summary_of(*draws):
    return reduce_draws(torch.tensor(draws, dtype=torch.float64)[:, None].log())


def test_worked_rules():
    # Two draws are sure of 0 and three of 1, up to 1e-9: the medians are 0 and 1. The 10 % quantile lies between the
    # two lowest of five values, at rank 0.4 of 0..4, which are 0 for both digits.
    low = 1e-9
    torn = summary_of(*[(1 - low, low)] * 2, *[(low, 1 - low)] * 3)
    assert predictor.judged("median", torn, 0) == (1, "")
    _, refused = predictor.judged("strict", torn, 0)
    assert refused == "no digit's 10% quantile over the draws is above 0.5; the highest is 0.000, of the digit 0"


def test_a_picture_in_characters():
    pixels = np.zeros((4, 3), np.float32)
    pixels[:2, 1] = 1  # full in both rows of the first line
    pixels[2, 0] = 1  # in one of the two rows of the second: half of full
    assert show.seen(pixels) == " #\n:"


def test_likely_digits_are_those_that_round_to_something():
    assert show.likely([0.004, 0, 0.996, *[0] * 7]) == "2: 1.00"
    assert show.likely(TORN) == "0: 0.19, 1: 0.19, 2: 0.19"


def test_the_pictures_of_the_example_are_those_that_the_tool_draws(tmp_path):
    pictures = drawn()
    assert sorted(path.name for path in PICTURES.iterdir()) == list(pictures)
    for name, pixels in pictures.items():
        new = save(tmp_path / name, pixels)
        np.testing.assert_array_equal(read(PICTURES / name).colours, read(new).colours)
        assert (PICTURES / name).stat().st_size < 5000


def test_without_a_recipe_the_corrected_fit_answers_or_else_the_published_one(store, three):
    put(store, "mlp", mlp(TORN))
    put(store, "mlp", mlp(), recipe="corrected")
    put(store, "linear_bbb", linear_bbb(1e-8))
    assert [(fit.approach, fit.recipe) for fit in fits.choose(store)] == [
        ("mlp", "corrected"),
        ("linear_bbb", "published"),
    ]
    assert Predictor(store.root, "mlp")(three).digit == 3
    assert Predictor(store.root, "mlp", "published")(three).digit is None
    with pytest.raises(ConfigError, match="run linear_bbb --recipe corrected"):
        fits.choose(store, ("linear_bbb",), ("corrected",))


@pytest.mark.parametrize(
    ("digits", "verdict"),
    [
        ((3, 3, 3), "3 of 3 networks read a 3"),
        ((4, None, None), "2 of 3 networks do not know, 1 reads a 4"),
        (
            (8, 3, None),
            "1 of 3 networks does not know, 1 reads a 3, 1 reads an 8",
        ),  # equally often: unknown comes first
        ((8,), "1 of 1 network reads an 8"),
    ],
)
def test_the_verdict_counts_the_networks(digits, verdict):
    assert show.verdict([SimpleNamespace(digit=digit) for digit in digits]) == verdict
