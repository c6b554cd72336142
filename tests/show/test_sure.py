"""How often networks are 99 % sure, by their answers to each picture: numbers, tables, sentences, figure."""

from __future__ import annotations

import math

import numpy as np

from bench.core.project import RESULTS
from bench.judge.samples import Samples
from bench.show import sentences
from bench.show.figures import sure as figure
from bench.show.figures.style import printed, style
from bench.show.inputs import Inputs
from bench.show.row_numbers import FEW_LETTERS, numbers_of_rows
from bench.show.sentences import MISSING, Sentence, filled, values
from bench.show.tables.methods_answer import Beyond
from bench.show.tables.registry import one_table
from bench.show.tables.sure import ACCURACY, Network
from tests.close import close
from tests.synthetic import record
from tests.tables import inputs, line

LETTERS = np.repeat(np.arange(10), 100)  # A = 0 ... J = 9, as in datasets/letters


def rows(dataset, others, predicted=None, label=-1):
    """Return the scores of one data set from 1 - largest probability of each row."""
    others = np.asarray(others, dtype=np.float64)
    predicted = np.zeros(len(others)) if predicted is None else predicted
    return {
        f"{dataset}/log_others": np.log(others).astype(np.float32),
        f"{dataset}/predicted": np.asarray(predicted, dtype=np.int8),
        f"{dataset}/label": np.full(len(others), label, dtype=np.int8),
    }


def scores(letters=0.5, like_digits=0.001, clothes=(0.001, 0.5), noise=(0.5,)):
    """Four digits: sure and right, sure and right, sure and wrong, not sure and right; letters sure only of D and I."""
    found = rows("mnist", [0.001, 0.002, 0.003, 0.4], predicted=[0, 0, 1, 0], label=0)
    found |= rows("letters", np.where(np.isin(LETTERS, [3, 8]), like_digits, letters))
    return found | rows("fashion_mnist", clothes) | rows("noise_gaussian", noise)


def test_numbers_of_rows():
    found = numbers_of_rows(scores())
    assert found["mnist/sure"] == 0.75
    assert found["mnist/wrong_of_sure"] == close(1 / 3)
    assert found["letters/sure"] == 0  # A to J without D and I
    assert found["letters_like_digits/sure"] == 1
    assert found["fashion_mnist/sure"] == 0.5
    # the surest three of four, of which one is wrong; 90 % of four rows are four, of which one is wrong
    assert found["mnist/wrong@0.75"] == close(1 / 3)
    assert found["mnist/wrong@0.9"] == close(1 / 4)
    # the last of three digits has log .003: letters at .5 are less sure
    assert found["letters/accepted@0.75"] == 0
    assert found["mnist/refused"] == close(1 / 2)  # the two surest are right


def test_a_probability_of_one_in_half_precision_still_has_an_order():
    # 1 - 1e-9 and 1 - 1e-12 are 1 in half and single precision; their logarithms are apart
    found = numbers_of_rows(rows("mnist", [1e-9, 1e-12], predicted=[1, 0], label=0))
    assert found["mnist/wrong@0.75"] == close(1 / 2)
    assert numbers_of_rows(rows("mnist", [1e-12, 1e-9, 1e-9, 1e-9], [0, 1, 1, 1], 0))["mnist/refused"] == close(3 / 4)


def test_scores_without_the_answers_to_each_picture_give_no_numbers():
    assert numbers_of_rows({}) == {}
    assert numbers_of_rows({"mnist/max_probability": np.ones(4, np.float16)}) == {}


def test_a_short_run_says_that_it_has_too_few_letters():
    found = numbers_of_rows(rows("mnist", [0.1], label=0) | rows("letters", [0.1, 0.1, 0.1]))
    of_letters = {name.partition("/")[2]: value for name, value in found.items() if name.startswith("letters/")}
    assert of_letters == dict.fromkeys(("sure", "accepted@0.75", "accepted@0.9"), FEW_LETTERS)


def made(monkeypatch, **networks):
    """Return inputs with a corrected common record and scores of each network, in two seeds."""
    records = [record(name, "corrected", "common", seed=seed) for name in networks for seed in (0, 1)]
    turned = {"mnist/rotated_90/accuracy": 0.1, "mnist/rotated_90/sure@0.99": 0.2}
    records += [record(name, "corrected", "shift", metrics=turned) for name in networks]
    found = inputs(records)
    monkeypatch.setattr(found, "scores", lambda one: networks[one.approach])
    return found


def test_tables_have_a_row_for_each_network_the_ordinary_one_first(monkeypatch):
    uniform = rows("noise_uniform", [0.001, 0.5])
    found = made(monkeypatch, linear_bbb=scores() | uniform, mlp=scores(letters=0.001))
    table = one_table(found, "sure")
    assert [row[0] for row in table.texts()] == ["mlp", "linear_bbb"]  # made-up manifests have no names in words
    shown = line(table, "mlp")
    # 3 of 4 digits; 1 of 3 sure answers is wrong; all letters; 1 of 2 clothes; no noise
    assert list(shown.values())[1:] == ["75", "3333", "100", "50", "0"]
    notes = " ".join(table.own_notes)
    assert "of these two the networks are sure in 100 to 100 %" in notes
    assert "Of uniform noise, the networks are sure in 50 to 50 %" in notes
    assert "Means of 2 trainings." in table.caption
    turned = line(one_table(found, "coverage"), "mlp")
    assert turned["75 %"] == "33.33"
    assert (turned["turned"], turned["sure"]) == ("10", "20")


def test_a_sentence_is_filled_only_if_it_is_true():
    one = Sentence("At most {{ share | up }} %, {{ most | whole }} %.", ("share < most",))
    assert filled(one, {"share": 15.2, "most": 99.9}) == "At most 16\N{NO-BREAK SPACE}%, 100\N{NO-BREAK SPACE}%."
    assert filled(one, {"share": 99.9, "most": 99.8}) == "Not so in these results: share < most does not hold."
    assert filled(one, {"share": 99.9}) == MISSING


def test_every_sentence_of_the_suite_has_conditions(monkeypatch):
    found = values(made(monkeypatch, mlp=scores(letters=0.001), linear_bbb=scores()))
    assert (found["worst_wrong"], found["trainings"]) == (close(10_000 / 3), 2)
    assert (found["letters_plain"], found["letters_most"], found["letters_least"]) == (100, 0, 0)
    assert all(one.holds for one in sentences.sentences().values())


def test_every_sentence_of_the_suite_holds_in_its_records():
    for text in sentences.all_filled(Inputs(RESULTS)).values():
        assert text != MISSING
        assert not text.startswith("Not so")


def test_the_figure_shows_a_mark_for_each_network_and_follows_the_colour_scheme(monkeypatch):
    found = made(monkeypatch, mlp=scores(letters=0.001), linear_bbb=scores())
    (drawn,) = figure.make(found)
    assert "Letters (not D, I): ordinary network 100 %, Bayesian networks 0 %" in drawn.caption
    assert drawn.narrow is not None
    for draw in (drawn.draw, drawn.narrow):
        with style():
            svg = printed(draw(), "svg").decode()
        assert "prefers-color-scheme:dark" in svg
        assert "'DejaVu Sans',Verdana,sans-serif" in svg
        assert ">100 %<" in svg
        assert svg.count('<g class="mark" data-names="mlp,') == len(figure.KINDS)
        assert "is 99 % sure of 100.0 %</title>" in svg


def test_a_row_at_the_threshold_is_sure():
    assert numbers_of_rows(rows("mnist", [0.01, 0.0101], label=0))["mnist/sure"] == 0.5


def network(approach, *numbers, is_bayesian=True):
    return Network(approach, approach, is_bayesian, {ACCURACY: Samples(dict(enumerate(numbers)))})


def test_a_difference_from_the_ordinary_network_counts_only_beyond_chance():
    plain = network("mlp", 0.5, 0.5, 0.5, 0.5, 0.5, is_bayesian=False)
    # mean difference .1 with sd .007 over five seeds: t = 32, p < 1e-5; the other: mean .002, sd .019: t = .23
    better, same = network("b", 0.6, 0.61, 0.59, 0.6, 0.6), network("s", 0.52, 0.48, 0.52, 0.49, 0.5)
    found = sentences.against_plain("a", [plain, better, same], ACCURACY, sign=1)
    assert found == {"a_better": 1, "a_worse": 0, "a_of_b": close(10), "a_of_s": 0}
    assert sentences.against_plain("a", [plain, better], ACCURACY, sign=-1)["a_worse"] == 1
    assert sentences.against_plain("a", [better, same], ACCURACY, sign=1) == {}


def test_methods_on_one_network_differ_only_beyond_chance(monkeypatch):
    made_up = {
        "accuracy": ({"deep_ensemble": 0.003}, {"swag": -0.1}),
        "NLL": ({"mc_dropout": -0.02}, {"deep_ensemble": 0.1}),
    }
    found = [Beyond(quality, 3, better, worse) for quality, (better, worse) in made_up.items()]
    monkeypatch.setattr(sentences, "beyond_plain", lambda _rows: [*found, Beyond("ECE", 3, {"mc_dropout": 1.0}, {})])
    assert sentences.on_one_network(inputs([])) == {
        "ensemble_accuracy": close(0.3),  # percentage points
        "dropout_accuracy": 0.0,
        "swag_accuracy": -10.0,
        "ensemble_nll": 0.1,
        "dropout_nll": -0.02,
        "swag_nll": 0.0,
    }


def test_how_sure_a_network_is_before_and_after_its_sign_is_corrected():
    def one(recipe, seed, sure):
        metrics = {f"{name}/sure@0.99": sure for name in ("mnist", "fashion_mnist", "noise_gaussian")}
        metrics |= {"mnist/sure_right@0.99": 0.9 * sure, ACCURACY: 1 - sure / 10}
        return record("pyro_hidden_layer", recipe, "common", seed=seed, metrics=metrics)

    before = [one("published", seed, sure) for seed, sure in enumerate((0.5, 0.52, 0.48))]
    after = [one("corrected", seed, 0.1) for seed in (7, 8)]  # other seeds: the samples are independent
    found = sentences.wrong_sign(inputs([*before, *after]))
    assert found["published_noise"] == close(50)
    assert found["corrected_clothes"] == close(10)
    assert found["published_wrong"] == close(1000)
    assert (found["published_accuracy"], found["corrected_accuracy"]) == (close(95), close(99))
    assert (found["published_n"], found["corrected_n"]) == (3, 2)
    t = (0.5 - 0.1) / (0.02 * math.sqrt(1 / 3 + 1 / 2))  # 2 degrees of freedom: two-sided p is 1 - t / sqrt(t^2 + 2)
    assert found["wrong_sign_p"] == close(1 - t / math.sqrt(t**2 + 2))
    assert sentences.wrong_sign(inputs(before)) == {}
