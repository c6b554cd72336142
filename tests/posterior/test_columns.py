"""The methods of a task: what they are trained with, what held-out rows choose, what a kill or damage costs."""

import dataclasses
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
import torch

from bench.core.errors import ConfigError, Diverged, MissingFramework
from bench.interface import Categorical, Split
from bench.posterior import columns, scoring, tasks, training
from bench.posterior.columns import Column, Method
from bench.show.figures import posterior as figures
from bench.show.figures.style import style
from bench.show.tables import columns as tables
from bench.show.tables.columns import columns_answer, columns_table
from implementations import _methods
from tests.close import close
from tests.posterior.test_reference import made

TASK = msgspec.structs.replace(tasks.all_tasks()["digits"], n_hidden=4)
N, N_INPUTS, CLOTHES = 30, 6, "clothes/auroc predictive entropy"
PLAIN = {"title": "one", "approach": "deep_ensemble", "draws": 0, "values": {"members": 1, "batch_size": N}}


def method(**changes):
    return msgspec.convert({**PLAIN, "choices": {"epochs": [1]}} | changes, Method)


@pytest.fixture
def column(tmp_path):
    rows = torch.arange(N)
    split = Split("train", torch.rand(N, N_INPUTS, generator=torch.Generator().manual_seed(0)), rows % 10, rows)
    sets = {name: dataclasses.replace(split, name=name) for name in ("digits", "clothes")}
    probs = np.full((8, N, 10), 0.1, np.float16)
    reference = made({"digits": probs, "clothes": probs})
    path = tmp_path / "posterior" / "digits-methods.jsonl"
    return Column("digits", TASK, partial(tasks.TaskData, split, sets), reference, path, 0.5)


@pytest.fixture
def trainings(column, monkeypatch):
    """Two methods, one of which needs nothing; return what is trained."""
    known = {"one": method(), "two": method(title="two", choices={"epochs": [1, 2]})}
    monkeypatch.setattr(columns, "methods", lambda: {"classification": known})
    found, plain = [], training.measured

    def counted(*given):
        return found.append((given[1].title, given[3])) or plain(*given)

    monkeypatch.setattr(training, "measured", counted)
    return found


def test_a_method_trains_the_tasks_network_under_its_prior(column):
    """One step of Adam moves each weight by its rate against the sign of its gradient, the prior's part included."""
    given = method(values={"members": 1, "batch_size": N, "learning_rate": 1e-3})
    start, end = (training.fitted(column, given, {"epochs": n}, 3, column.data.train).arrays() for n in (0, 1))
    flat = start["hidden1.weight"]
    assert flat.shape == (TASK.n_hidden, N_INPUTS)
    params = [value.clone().requires_grad_() for value in start.values()]
    logits = torch.relu(column.data.train.x @ params[0].T + params[1]) @ params[2].T + params[3]
    loss = torch.nn.functional.cross_entropy(logits, column.data.train.y)
    loss += sum(value.square().sum() for value in params) / (2 * 0.5**2 * N)  # -log prior / N, sd .5
    for value, after, gradient in zip(params, end.values(), torch.autograd.grad(loss, params), strict=True):
        moved = (after - value.detach())[gradient.abs() > 1e-4]
        # tolerance: Adam divides g by |g| + 1e-8, and float32 rounds weights below 1 to 6e-8
        torch.testing.assert_close(moved, -1e-3 * gradient.sign()[gradient.abs() > 1e-4], rtol=1e-4, atol=1.2e-7)


@pytest.mark.skipif(find_spec("laplace") is None, reason="laplace-torch is not installed")
@pytest.mark.parametrize("weights", ["last_layer", "all"])
def test_laplace_keeps_the_tasks_prior(column, weights):
    given = method(approach="laplace", values={"batch_size": N, "weights": weights})
    kept = training.fitted(column, given, {"epochs": 2}, 0, column.data.train).arrays()["prior"]
    assert kept.tolist() == [close(1 / 0.5**2)] * len(kept)


def test_temperature_trains_its_part_of_the_rows_under_the_whole_prior(column, monkeypatch):
    """Of 30 rows 28 are trained on: the mean loss of a row stands beside -log prior / 28."""
    seen, plain = [], _methods.PlainNetworks.__init__

    def spied(self, recipe, task, ctx, n_networks=1):
        seen.append(task.weight_decay)
        plain(self, recipe, task, ctx, n_networks)

    monkeypatch.setattr(_methods.PlainNetworks, "__init__", spied)
    training.fitted(column, method(approach="temperature", values={}), {"epochs": 1}, 0, column.data.train)
    assert seen == [close(1 / (28 * 0.5**2))]


def test_a_prior_of_its_own_is_kept_and_a_kl_may_count_more_often(column, monkeypatch):
    seen = []

    @dataclasses.dataclass(frozen=True)
    class Spy:
        prior_std: float = 0.1

        def fit(self, train, task, ctx):
            seen.append((self.prior_std, task.n_train, task.weight_decay, task.hidden, len(train)))

    monkeypatch.setattr(training, "load_class", lambda name: Spy)
    for changes in ({}, {"own_prior": True}, {"kl_weight": 10.0}):
        training.fitted(column, method(values={}, **changes), {}, 0, column.data.train)
    assert seen == [(0.5, N, 0.0, (4,), N), (0.1, N, 0.0, (4,), N), (0.5, N // 10, 0.0, (4,), N)]


def test_held_out_rows_choose(column, monkeypatch):
    """The choice's NLL is that of the rows that the fit has not seen."""
    fits = []

    def fake(column, method, chosen, seed, train):
        fits.append((chosen["epochs"], seed, train.rows.tolist()))
        if chosen["epochs"] == 4:
            raise Diverged("loss is nan")
        return chosen["epochs"]

    def nll(posterior, method, split):
        judged.append(split.rows.tolist())
        return {1: 2.0, 2: 0.5, 3: 0.6}[posterior]

    judged = []
    monkeypatch.setattr(training, "fitted", fake)
    monkeypatch.setattr(training, "_nll", nll)
    assert training.best_of(column, method(choices={"epochs": [4, 1, 2, 3]})) == {"epochs": 2}
    kept, left_out = [row for row in range(N) if row % 5], [row for row in range(N) if row % 5 == 0]
    assert fits == [(epochs, 1000, kept) for epochs in (4, 1, 2, 3)]
    assert judged == [left_out] * 3
    with pytest.raises(Diverged, match="all 2 choices"):
        training.best_of(column, method(choices={"epochs": [4, 4]}))


def test_what_is_trained_is_trained_once_and_a_damaged_line_again(column, trainings):
    said = []
    first = training.train_all(column, [], said.append, range(2))
    assert trainings == [("one", 0), ("one", 1), ("two", 0), ("two", 1)]
    assert training.train_all(column, [], said.append, range(2)) == first
    lines = column.path.read_bytes().splitlines()
    column.path.write_bytes(b"\n".join([lines[0], lines[1].replace(b'"seed":0', b'"seed":7'), *lines[2:]]))
    again = training.train_all(column, [], said.append, range(2))
    assert trainings[4:] == [("one", 0)]
    assert any("changed after it was written" in text for text in said)
    assert {key: one.metrics for key, one in again.items()} == {key: one.metrics for key, one in first.items()}


def test_a_seed_that_diverges_leaves_the_choice_to_the_others_and_is_not_trained_again(column, trainings, monkeypatch):
    plain, chosen = training.measured, []

    def diverging(column, method, given, seed):
        chosen.append((method.title, seed, given))
        if seed == 0:
            raise Diverged("loss is nan")
        return plain(column, method, given, seed)

    monkeypatch.setattr(training, "measured", diverging)
    found = training.train_all(column, ["two"], lambda text: None, range(2))
    assert found["two", 0].why == "loss is nan"
    assert chosen[0][2] == chosen[1][2] == found["two", 0].chosen == found["two", 1].chosen != {}
    again = training.train_all(column, ["two"], lambda text: None, range(3))
    assert again.keys() == {("hmc", 0), ("two", 0), ("two", 1), ("two", 2)}
    assert [(seed, given) for _, seed, given in chosen[2:]] == [(2, chosen[0][2])]


def test_a_missing_package_stops_its_method_alone_and_is_asked_again(column, trainings, monkeypatch):
    plain, said = training.measured, []

    def lacking(column, method, given, seed):
        if method.title == "one":
            raise MissingFramework("no torchbnn")
        return plain(column, method, given, seed)

    monkeypatch.setattr(training, "measured", lacking)
    assert training.train_all(column, [], said.append, range(2)).keys() == {("hmc", 0), ("two", 0), ("two", 1)}
    assert said[0] == "one is not trained: no torchbnn"
    monkeypatch.setattr(training, "measured", plain)
    assert ("one", 1) in training.train_all(column, [], said.append, range(2))


def test_predictions_that_are_no_numbers_and_matrices_that_cannot_be_inverted_have_diverged(column, monkeypatch):
    class Bad:
        n_draws, noise = 1, "none"

        def predict(self, x, draws, rows):
            return Categorical(torch.full((len(draws), len(x), 10), torch.nan))

    with pytest.raises(Diverged, match="a prediction of digits is not a number"):
        training.log_probabilities(Bad(), 0, column.data.sets["digits"])

    @dataclasses.dataclass(frozen=True)
    class Singular:
        def fit(self, train, task, ctx):
            torch.linalg.cholesky(torch.zeros(2, 2))

    monkeypatch.setattr(training, "load_class", lambda name: Singular)
    with pytest.raises(Diverged, match="linear algebra"):
        training.fitted(column, method(values={}), {}, 0, column.data.train)
    monkeypatch.setattr(Singular, "fit", lambda *_: torch.zeros(1).view(2))  # as of images of another size
    with pytest.raises(ConfigError, match=f"own does not fit rows of {N_INPUTS} numbers: shape .*n_inputs"):
        training.fitted(column, method(title="own", approach="own", values={}), {}, 0, column.data.train)


def test_the_time_of_what_is_missing_comes_from_what_was_trained(column, trainings, monkeypatch, tmp_path):
    monkeypatch.setattr(training, "RESULTS", tmp_path / "shipped")
    assert training.expected(column, [], range(2)) == (0.0, ["one", "two"])
    first = training.train_all(column, ["one"], lambda text: None, [0])["one", 0]
    assert training.expected(column, [], range(3)) == (close(2 * first.seconds), ["two"])


def test_an_approach_of_ones_own_is_a_row_by_its_name(column, trainings, monkeypatch):
    monkeypatch.setattr(training, "manifests", lambda: ["mine"])
    monkeypatch.setattr(training, "measured", lambda *given: {"digits/total variation": 0.5, "digits/nll": 1.0})
    found = training.train_all(column, ["mine"], lambda text: None, range(2))
    assert column.stored(lambda text: None) == found
    assert {name for name, _ in found} == {"hmc", "mine"}
    assert columns_table(column, found).texts()[0][0] == "mine"
    assert tables.distances(column) == {"columns": 1, "columns_near": 0, "tv_floor": 0.0, "tv_mine": 0.5}
    with pytest.raises(ConfigError, match="plane"):
        training.train_all(column, ["plane"], lambda text: None, range(2))


def test_another_reference_trains_again(column, trainings):
    training.train_all(column, ["one"], lambda text: None, range(2))
    moved = np.full((8, N, 10), 0.1, np.float16) + np.float16(0.01)
    other = dataclasses.replace(column, reference=made({"digits": moved}))
    assert other.stored(lambda text: None) == {}


def test_metrics_are_those_of_the_mean_prediction(column):
    probs = {name: np.full((2, N, 10), 0.1) for name in ("digits", "clothes")}
    probs["digits"][0, :, 0], probs["digits"][1, :, 0] = 0.19, 0.01  # mean .1, which a mean of logarithms is not
    found = scoring.quality(column.data, {name: np.log(value) for name, value in probs.items()})
    assert found["digits/nll"] == close(np.log(10))
    assert found["clothes/auroc predictive entropy"] == 0.5  # equal entropies


def test_a_refused_reference_ranks_nothing_and_nothing_is_at_its_floor(column, trainings, monkeypatch):
    found = training.train_all(column, [], lambda text: None, range(2))
    monkeypatch.setattr("bench.show.tables.columns.refusals", lambda reference: ["R-hat is too large"])
    table = columns_table(column, found)
    assert [row[1] for row in table.texts()[:-1]] == ["-", "-"]
    assert "The reference is refused: R-hat is too large" in table.remarks


def test_the_table_ranks_what_is_beyond_the_floor(column, trainings):
    found = training.train_all(column, [], lambda text: None, range(2))
    table = columns_table(column, found)
    assert table.columns == ["method", "place", "digits", "clothes", "joint", "NLL", "AUROC"]
    *rows, last = table.texts()
    assert {row[0] for row in rows} == {"one", "two"}
    # Each class has .1: a log-loss of log 10 nats. Clothes and digits have the same entropy..
    assert last[0] == "HMC: floor, quality"
    assert last[-3:] == ["2.10", "2.30", "0.500"]  # the first: of `made`
    one = found["one", 0]
    near = msgspec.structs.replace(one, metrics={**one.metrics, "digits/total variation": 0.0})
    first, *_ = columns_table(column, {("one", 0): near}).texts()
    assert list(first[:2]) == ["one", "at the floor"]


def test_the_answer_counts_pairs_of_methods_whose_order_is_the_same(column, monkeypatch):
    """Distances 1 < 2 < 3 and NLL 1 < 3 < 2: two of three pairs agree, so tau = (2 - 1) / 3."""
    numbers = {
        title: dict.fromkeys(("digits/total variation", "clothes/total variation"), distance)
        | {"digits/nll": nll, CLOTHES: -nll}
        for title, distance, nll in (("b", 2.0, 3.0), ("a", 1.0, 1.0), ("c", 3.0, 2.0))
    }
    monkeypatch.setattr("bench.show.tables.columns.means", lambda column: numbers)
    monkeypatch.setattr("bench.show.tables.columns.quality_of_hmc", lambda column: {"digits/nll": 1.5, CLOTHES: 0.9})
    first, order, digits, clothes, own = columns_answer(column)
    assert "Of 3 methods" in first
    assert "none predict as the posterior does" in first
    assert order == "Nearest: a (1.000), b (2.000) and c (3.000). Farthest: c (3.000), b (2.000) and a (1.000)."
    assert "with a lower NLL in 67 % of the pairs of methods (Kendall's tau 0.33" in digits
    assert "detection of clothes in 67 %" in clothes
    assert own.endswith("an AUROC of 0.900. Methods with a lower NLL: a (1.000).")


def test_figures_are_drawn_of_stored_columns_and_cold_chains(column, trainings, monkeypatch, tmp_path):
    training.train_all(column, [], lambda text: None, range(2))
    cold = tmp_path / "cold.csv"
    cold.write_text("temperature,chain,nll,auroc_clothes\n1.0,0,.3,.9\n0.1,0,.2,.8\n")
    monkeypatch.setattr(figures, "stored_columns", lambda results: [column])
    monkeypatch.setattr(figures, "COLD", cold)
    monkeypatch.setattr(tables, "COLD", cold)
    found = {figure.name: figure for figure in figures.make(SimpleNamespace(store=SimpleNamespace(root=tmp_path)))}
    assert found.keys() == {"posterior-digits", "posterior-cold"}
    with cold.open("a") as file:
        file.write("0.1,1,.4,.6\n1.0,1,.3,.9\n")  # T = .1: .2 and .4, whose sd is .2 / sqrt(2)
    assert tables.cold_answer().endswith("T = 0.1: 0.3000 +- 0.1414 and 0.7000 +- 0.1414.")
    with style():
        above, below = found["posterior-digits"].draw().axes
        left, _ = found["posterior-cold"].draw().axes
    assert {one.get_text() for one in above.texts} == {"one", "two"}
    assert [axes.lines[-1].get_ydata()[0] for axes in (above, below)] == [close(np.log(10)), 0.5]  # HMC's own
    assert left.lines[0].get_ydata().tolist() == close([0.3, 0.3])
