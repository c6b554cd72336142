"""Answers by posteriors with known probabilities, the rules that refuse, which fit answers, and the command."""

import itertools
import json
import math
import re

import numpy as np
import pytest
import torch
from matplotlib.text import Text
from msgspec import structs

from bench.cli import USAGE
from bench.cli.main import main
from bench.core.canonical import digest
from bench.core.errors import ConfigError, StoreError
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.show.predict import Predictor, fits
from bench.show.predict.drawing import draw
from bench.show.predict.normalise import normalise
from tests import synthetic
from tests.drawings import THREE, save, strokes

MLP = {
    "hidden1.weight": (400, 784),
    "hidden1.bias": (400,),
    "hidden2.weight": (400, 400),
    "hidden2.bias": (400,),
    "output.weight": (10, 400),
    "output.bias": (10,),
}
SURE = (0.02, 0.013, 0.007, 0.9, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01)
TORN = (0.19, 0.19, 0.19, 0.19, 0.04, 0.04, 0.04, 0.04, 0.04, 0.04)


def mlp(probabilities=SURE):
    """Return the weights of a network that answers everything alike: only its last biases are not zero."""
    arrays = {name: torch.zeros(shape) for name, shape in MLP.items()}
    return {**arrays, "output.bias": torch.tensor(probabilities).log()}


def linear_bbb(spread):
    """Return a posterior that is centred on the same answer, with the spread in every weight."""
    mu = torch.zeros(669_706)
    mu[-10:] = torch.tensor(SURE).log()
    return {"mu": mu, "sigma": torch.full_like(mu, spread)}


def put(store, approach, arrays, scores=None, **changes):
    """Write a fit and the record of its measurement."""
    named = synthetic.record(**{"approach": approach, "protocol": "common", "provenance": {}, **changes})
    fit_key = digest([approach, named.recipe, named.profile, named.precision, named.seed])
    record = structs.replace(named, fit_key=fit_key, key=fit_key + named.protocol)
    store.write(record, scores)
    if arrays is not None:
        store.write_tensors(store.fit_path(record.fit_key, "posterior"), arrays, {"fit_key": record.fit_key})
    return store.fit_path(record.fit_key, "posterior")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    return save(tmp_path_factory.mktemp("pictures") / "three.png", 1 - strokes(THREE))


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    points = ((0.7, 0), (0.1, 0.6), (0.9, 0.65), (0.65, 0.3), (0.65, 1))
    return save(tmp_path_factory.mktemp("pictures") / "four.png", 1 - strokes(points))


# answers


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
    assert str(answer) == "mlp: 3 (probability 0.900, entropy 0.541 nats, mutual information 0.000 nats)"


def test_no_class_above_the_threshold_is_refused_by_name(store, three):
    put(store, "mlp", mlp(TORN))
    answer = Predictor(store.root, "mlp")(three)
    assert (answer.digit, answer.best_guess, answer.says) == (None, 0, "I don't know")
    assert (answer.rule, answer.threshold) == ("median", 0.2)
    assert answer.refused_by == "no digit's median over the draws is above 0.2: the highest is 0.190"
    assert str(answer).endswith(f"; rule median: {answer.refused_by}; it would have said 0)")


def test_a_posterior_without_spread_is_its_mean_network(store, three):
    put(store, "linear_bbb", linear_bbb(1e-8))
    answer = Predictor(store.root, "linear_bbb", n_draws=7)(three)
    np.testing.assert_allclose(answer.probabilities, SURE, rtol=1e-4)
    assert answer.n_draws == 7
    assert answer.draws.shape == (7, 10)
    assert answer.mutual_information == pytest.approx(0, abs=1e-6)


def test_an_answer_does_not_depend_on_the_company(store, three, four):
    put(store, "linear_bbb", linear_bbb(0.3))
    predictor = Predictor(store.root, "linear_bbb", n_draws=5)
    together = predictor.answers([normalise(four), normalise(three), normalise(three)])
    alone = predictor(three)
    np.testing.assert_allclose(together[1].probabilities, alone.probabilities, rtol=1e-5)
    np.testing.assert_allclose(together[2].draws, alone.draws, rtol=1e-5)
    assert np.abs(together[0].draws - alone.draws).max() > 1e-3  # another picture, other probabilities
    assert alone.mutual_information > 0.01
    assert sum(alone.probabilities) == pytest.approx(1, abs=1e-6)


# rules


def test_rules_that_need_scores_say_so(store, three):
    put(store, "mlp", mlp())
    with pytest.raises(ConfigError, match="--rule median"):
        Predictor(store.root, "mlp", rule="entropy")
    put(store, "mlp", mlp(), {"mnist/predictive_entropy": np.zeros(9), "mnist/expected_entropy": np.zeros(9)}, seed=1)
    answer = Predictor(store.root, "mlp", rule="entropy", seed=1)(three)
    assert answer.refused_by == "predictive entropy 0.541 nats is above 0.000"
    # 0.9 is above 0.2 and 0.5, and one network's mutual information, 0, is not above that of the test digits.
    assert answer.refusing_rules == ("entropy",)
    assert Predictor(store.root, "mlp", seed=1)(three).refusing_rules == ("entropy",)
    with pytest.raises(ConfigError, match="did you mean 'median'"):
        Predictor(store.root, "mlp", rule="medan")


# which fit answers


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
    assert [(fit.recipe, fit.seed, fit.record.protocol) for fit in chosen] == [
        ("published", 2, "common"),
        ("corrected", 0, "common"),
    ]
    assert [fit.label for fit in chosen] == ["mlp", "mlp corrected"]
    assert fits.choose(store, budget="smoke")[0].seed == 1
    assert fits.choose(store, seed=3)[0].seed == 3


def test_no_fit_names_the_command_that_makes_it(store):
    with pytest.raises(
        ConfigError, match=r"`python -m bench run .*mlp linear_bbb .*--recipe published --results .*results` trains it"
    ):
        fits.choose(store)
    with pytest.raises(ConfigError, match="run mlp --recipe corrected --profile smoke --seeds 4, --results"):
        fits.choose(store, ("mlp",), ("corrected",), "smoke", 4)
    put(store, "mlp", None)  # as in the repository: a record, which `run` would not make again, but no fit
    with pytest.raises(
        ConfigError, match=r"--results my-results` trains it, in about \d+ (s|min); then give --results my-results"
    ):
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


def test_a_posterior_that_cannot_be_trusted_is_named_and_set_aside(store):
    path = put(store, "mlp", mlp())
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(StoreError, match="cannot be trusted"):
        Predictor(store.root, "mlp")
    assert list((store.root / "quarantine").iterdir())


def test_a_posterior_of_other_code_is_named(store):
    put(store, "mlp", {"hidden1.weight": torch.zeros(3, 3)})
    with pytest.raises(StoreError, match="does not fit today's mlp"):
        Predictor(store.root, "mlp")


# the command


def call(capsys, *arguments):
    code = main(["predict", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_text(store, three, capsys):
    put(store, "linear_bbb", linear_bbb(1e-8))
    put(store, "mlp", mlp(TORN))
    code, out, err = call(capsys, three, "--all", "--results", store.root)
    assert (code, err) == (0, "")
    assert out.replace(str(three), "three.png").splitlines() == [
        "three.png: 400 x 480, dark on light",
        "approach    answer        probabilities              entropy  mutual inf",
        "────────────────────────────────────────────────────────────────────────",
        "mlp         I don't know  0: 0.19, 1: 0.19, 2: 0.19  2.035    -",  # one network has no spread
        "linear_bbb  3             3: 0.90, 0: 0.02, 1: 0.01  0.541    0.000",
        "mlp would say 0, but no digit's median over the draws is above 0.2: the highest is 0.190",
        "other rules that refuse: mlp (strict)",
        "",
        "rule median: answers if the median over the draws of a digit's probability is above 0.2",
    ]


def test_json_tells_all_and_bad_pictures_do_not_harm_the_good(store, three, capsys, tmp_path):
    put(store, "mlp", mlp())
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no picture")
    code, out, err = call(
        capsys, bad, three, tmp_path / "none.jpg", "--approach", "mlp", "--json", "--results", store.root
    )
    assert code == USAGE
    good, *errors = json.loads(out)
    assert good["image"] == str(three)
    (answer,) = good["answers"]
    assert (answer["digit"], answer["refused_by"], answer["rule"], answer["threshold"]) == (3, None, "median", 0.2)
    assert len(answer["probabilities"]) == 10
    assert answer["refusing_rules"] == []
    assert [entry["image"] for entry in errors] == [str(bad), str(tmp_path / "none.jpg")]
    assert [line.split(":")[0] for line in err.splitlines()] == ["error", "error"]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_figure(ending, store, three, four, capsys, tmp_path):
    put(store, "linear_bbb", linear_bbb(0.05))
    put(store, "mlp", mlp(TORN))
    path = tmp_path / "new" / f"it.{ending}"
    code, _, err = call(capsys, three, four, "--figure", path, "--draws", 5, "--results", store.root)
    assert (code, err) == (0, "")
    assert path.stat().st_size > 5000
    if ending == "svg":
        text = path.read_text()
        assert "three.png" in text
        assert "I don't know" in text or "I don&#x27;t know" in text or "I don&apos;t know" in text
        assert "Date" not in text


@pytest.mark.parametrize("approaches", [1, 2, 5])
def test_nothing_in_a_figure_lies_over_anything_else(approaches, store, three, four):
    put(store, "mlp", mlp())
    ask = Predictor(store.root, "mlp")
    figure = draw([normalise(three), normalise(four)], [[ask(path)] * approaches for path in (three, four)])
    figure.draw_without_rendering()  # makes the layout
    boxes = [axes.get_tightbbox() for axes in figure.axes]  # with titles, labels and ticks
    assert len(boxes) == 2 * (2 + approaches)
    (caption,) = (text for text in figure.findobj(Text) if text.get_text().startswith("bars: "))
    boxes.append(caption.get_window_extent())
    assert figure.bbox.padded(1).contains(*boxes[-1].min)
    assert figure.bbox.padded(1).contains(*boxes[-1].max)
    over = [
        (one, other) for one, other in itertools.combinations(boxes, 2) if one.padded(-1).overlaps(other.padded(-1))
    ]
    assert not over


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--figure", "it.gif"], "known; give one of .png"),
        (["--all", "--approach", "mlp"], "not both"),
        (["--draws", "0"], "allowed are 1 to"),
        (["--draws", "100000000"], "allowed are 1 to"),
        (["--rule", "mode"], "did you mean|known: entropy"),
        (["--approach", "pyro_hidden_layer"], "python -m bench run pyro_hidden_layer"),
        (["x.png"] * 12 + ["--figure", "it.png"], "13 pictures are too many"),
    ],
)
def test_nonsense_is_one_line(arguments, message, store, three, capsys):
    put(store, "mlp", mlp())
    code, out, err = call(capsys, three, *arguments, "--results", store.root)
    assert (code, out) == (USAGE, "")
    assert err.count("\n") == 1
    assert re.search(message, err)


def test_what_cannot_answer_is_left_out_of_all_with_a_warning(store, three, capsys):
    put(store, "linear_bbb", {"mu": torch.zeros(3)})
    put(store, "mlp", mlp())
    code, out, err = call(capsys, three, "--results", store.root)
    assert code == 0
    assert "mlp " in out
    assert err.startswith("warning: left out: posterior ")
    code, out, err = call(capsys, three, "--approach", "linear_bbb", "--results", store.root)
    assert code == USAGE
    assert err.startswith("error: posterior ")


def test_what_a_run_trains_answers(three, capsys, tmp_path):
    place = ["--profile", "smoke", "--results", str(tmp_path)]
    how = ["--recipe", "published", "--executor", "inline", "--quiet", "--threads", "1"]
    assert main(["run", "uniform", *place, *how]) == 0
    capsys.readouterr()
    code, out, _ = call(capsys, three, "--json", *place)
    assert code == 0
    answers = json.loads(out)[0]["answers"]
    assert [answer["approach"] for answer in answers] == ["uniform"]
    # The uniform answer is refused by the median rule, since 1/10 is not above 0.2, and has entropy log 10.
    assert answers[-1]["digit"] is None
    assert answers[-1]["predictive_entropy"] == pytest.approx(math.log(10))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--figure", "FOLDER.png"], "is a folder; give a file"),
        (["--figure", "FILE/x.png"], "cannot write"),
        (["--recipe", "nosuch"], "no approach has a recipe 'nosuch'"),
        (["--recipe", "corrected"], "mlp linear_bbb mxnet_bbb --recipe corrected"),
    ],
)
def test_what_cannot_be_done_is_told_before_any_answer(arguments, message, store, three, tmp_path, capsys):
    put(store, "mlp", mlp())
    (tmp_path / "FOLDER.png").mkdir()
    (tmp_path / "FILE").write_text("")
    given = [str(tmp_path / each) if each.startswith("F") else each for each in arguments]
    code, out, err = call(capsys, three, *given, "--results", store.root)
    assert (code, out) == (USAGE, "")
    assert err.count("\n") == 1
    assert message in err


def test_no_name_is_no_picture(capsys):
    code, _, err = call(capsys, "")
    assert (code, err.count("\n")) == (USAGE, 1)
    assert "an empty name was given" in err


def test_the_shipped_networks_answer_by_every_rule(three, capsys, tmp_path, monkeypatch):
    """Six fits, under 16 MB in all, from any folder; the thresholds of the rules of entropies are in their files."""
    assert sum(path.stat().st_size for path in (RESULTS / fits.SHIPPED).glob("*/*")) < 16e6
    monkeypatch.chdir(tmp_path)
    words = ["--recipe", "published", "--recipe", "corrected", "--rule", "entropy", "--draws", "10", "--json"]
    code, out, err = call(capsys, three, *words)
    assert (code, err) == (0, f"reading what comes with the suite, in {RESULTS}\n")
    answers = json.loads(out)[0]["answers"]
    names = {"mlp", "linear_bbb", "pyro_random_module"}
    assert {(answer["approach"], answer["recipe"]) for answer in answers} == {
        (name, recipe) for name in names for recipe in ("published", "corrected")
    }
    assert all(answer["digit"] == 3 and answer["threshold"] > 0 for answer in answers)
