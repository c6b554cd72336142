"""The methods of a task: what they are trained with, what held-out rows choose, what a kill or damage costs."""

import dataclasses
import re

import msgspec
import numpy as np
import pytest
import torch

from bench.cli import USAGE
from bench.cli.main import main
from bench.core.errors import ConfigError
from bench.interface import Split
from bench.plan.registry import manifests
from bench.posterior import columns, tasks
from bench.posterior.columns import Column, Method
from bench.show.tables.columns import columns_table
from tests.close import close
from tests.posterior.test_reference import made

TASK = msgspec.structs.replace(tasks.all_tasks()["digits"], n_hidden=4)
N, N_INPUTS = 30, 6
PLAIN = {"title": "one", "approach": "deep_ensemble", "draws": 0, "values": {"members": 1, "batch_size": N}}


def method(**changes):
    return msgspec.convert({**PLAIN, "choices": {"epochs": [1]}} | changes, Method)


@pytest.fixture
def column(tmp_path):
    source = torch.Generator().manual_seed(0)
    rows = torch.arange(N)
    split = Split("train", torch.rand(N, N_INPUTS, generator=source), rows % 10, rows)
    sets = {name: dataclasses.replace(split, name=name) for name in ("digits", "clothes")}
    probs = np.full((8, N, 10), 0.1, np.float16)
    reference = made({"digits": probs, "clothes": probs})
    return Column("digits", TASK, tasks.TaskData(split, sets), reference, tmp_path / "digits-methods.jsonl", 0.5)


@pytest.fixture
def trainings(column, monkeypatch):
    """Two methods, one of which needs nothing; return what is trained."""
    known = {"one": method(), "two": method(title="two", choices={"epochs": [1, 2]})}
    monkeypatch.setattr(columns, "methods", lambda: known)
    monkeypatch.setattr(columns, "SEEDS", range(2))
    found, plain = [], columns.measured

    def counted(column, method, chosen, seed):
        found.append((method.title, seed))
        return plain(column, method, chosen, seed)

    monkeypatch.setattr(columns, "measured", counted)
    return found


def test_a_method_trains_the_tasks_network_under_its_prior(column):
    """One step of Adam moves each weight by its rate against the sign of its gradient, the prior's part included."""
    given = method(values={"members": 1, "batch_size": N, "learning_rate": 1e-3})
    start, end = (columns.fitted(column, given, {"epochs": n}, 3, column.data.train).arrays() for n in (0, 1))
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


def test_a_prior_of_its_own_is_kept_and_a_kl_may_count_more_often(column, monkeypatch):
    seen = []

    @dataclasses.dataclass(frozen=True)
    class Spy:
        prior_std: float = 0.1

        def fit(self, train, task, ctx):
            seen.append((self.prior_std, task.n_train, task.weight_decay, task.hidden, len(train)))

    monkeypatch.setattr(columns, "load_class", lambda name: Spy)
    for changes in ({}, {"own_prior": True}, {"kl_weight": 10.0}):
        columns.fitted(column, method(values={}, **changes), {}, 0, column.data.train)
    assert seen == [(0.5, N, 0.0, (4,), N), (0.1, N, 0.0, (4,), N), (0.5, N // 10, 0.0, (4,), N)]


def test_held_out_rows_choose(column, monkeypatch):
    """The choice's NLL is that of the rows that the fit has not seen."""
    fits = []

    def fake(column, method, chosen, seed, train):
        fits.append((chosen["epochs"], seed, train.rows.tolist()))
        return chosen["epochs"]

    monkeypatch.setattr(columns, "fitted", fake)
    nll = {1: 2.0, 2: 0.5, 3: 0.6}
    monkeypatch.setattr(columns, "_nll", lambda posterior, method, split: nll[posterior] * len(split))
    assert columns.best_of(column, method(choices={"epochs": [1, 2, 3]})) == {"epochs": 2}
    kept = [row for row in range(N) if row % 5]
    assert fits == [(epochs, 1000, kept) for epochs in (1, 2, 3)]


def test_every_combination_of_choices_is_tried():
    assert method(choices={"a": [1, 2], "b": ["x"]}).grid() == [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}]


def test_what_is_trained_is_trained_once_and_a_damaged_line_again(column, trainings):
    said = []
    first = columns.train_all(column, [], said.append)
    assert trainings == [("one", 0), ("one", 1), ("two", 0), ("two", 1)]
    assert columns.train_all(column, [], said.append) == first
    assert len(trainings) == 4
    lines = column.path.read_bytes().splitlines()
    column.path.write_bytes(b"\n".join([lines[0].replace(b'"seed":0', b'"seed":7'), *lines[1:]]))
    again = columns.train_all(column, [], said.append)
    assert trainings[4:] == [("one", 0)]
    assert any("changed after it was written" in text for text in said)
    assert {key: one.metrics for key, one in again.items()} == {key: one.metrics for key, one in first.items()}


def test_another_reference_trains_again(column, trainings):
    columns.train_all(column, ["one"], lambda text: None)
    other = dataclasses.replace(
        column, reference=made({"digits": np.full((8, N, 10), 0.1, np.float16) + np.float16(0.01)})
    )
    assert other.stored(lambda text: None) == {}


def test_an_unknown_method_is_one_line(column):
    with pytest.raises(ConfigError, match="plane"):
        columns.train_all(column, ["plane"], lambda text: None)


def test_a_prior_by_layer_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"has a prior by layer \(0.3, 3.0\)"):
        Column.of("mnist14-layers", tasks.all_tasks()["mnist14-layers"], tmp_path, None)


def test_metrics_are_those_of_the_mean_prediction(column):
    probs = {name: np.full((2, N, 10), 0.1) for name in ("digits", "clothes")}
    probs["digits"][0, :, 0], probs["digits"][1, :, 0] = 0.19, 0.01  # mean .1, which a mean of logarithms is not
    found = columns.quality(column.data, {name: np.log(value) for name, value in probs.items()})
    assert found["digits/nll"] == close(np.log(10))
    assert found["clothes/auroc predictive entropy"] == 0.5  # equal entropies


def test_the_table_ranks_what_is_beyond_the_floor(column, trainings):
    found = columns.train_all(column, [], lambda text: None)
    table = columns_table(column, columns.methods(), found)
    assert table.columns == ["method", "place", "digits", "clothes", "joint", "NLL", "AUROC"]
    *rows, last = table.texts()
    assert {row[0] for row in rows} == {"one", "two"}
    assert last[0] == "the reference (HMC): its floor"
    one = found["one", 0]
    near = msgspec.structs.replace(one, metrics={**one.metrics, "digits/total variation": 0.0})
    first, *_ = columns_table(column, columns.methods(), {("one", 0): near}).texts()
    assert list(first[:2]) == ["one", "at the floor"]


def test_methods_are_known_approaches_and_every_task_with_one_prior_has_a_group(capsys):
    assert {one.approach for one in columns.methods().values()} <= set(manifests())
    assert main(["run", "--group", "posterior"]) == USAGE
    names = set(re.findall(r"'posterior-(.*?)'", capsys.readouterr().err))
    assert names == {name for name, one in tasks.all_tasks().items() if len({*one.weight_sds, *one.bias_sds}) == 1}
