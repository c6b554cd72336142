"""The methods on made-up sets: settings chosen by validation rows alone, kills and damage, closed forms."""

import msgspec
import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("numba")

from bench.cli.main import main
from bench.core.errors import ConfigError, DataCorrupt
from bench.uci import scores as scores_module
from bench.uci import train
from bench.uci.data import Regression, Split, facts, standardise, validation
from bench.uci.dropout import Batch, Network, Parts, keras_decay
from bench.uci.ensembles import Ensembles
from bench.uci.scores import METRICS, scores, stored
from bench.uci.train import FURTHER, How, linear, run_set

RATES, TAUS = (0.005, 0.1), (0.2, 2.0)
N, TRAIN = 60, 50


@pytest.fixture
def made_up(monkeypatch):
    """A set `yacht` of 60 rows, 3 features and 2 splits, with a grid of four settings and 5 units."""
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.normal(3, 2, N), rng.normal(-1, 0.1, N), np.full(N, 7.0)])
    y = 10 + np.sin(x[:, 0]) * 3 + rng.normal(0, 0.7, N)
    orders = [rng.permutation(N) for _ in range(2)]
    data = Regression("yacht", x, y, tuple(Split(one[:TRAIN], one[TRAIN:]) for one in orders))
    old = facts()["yacht"]
    values = {name: getattr(old, name) for name in old.__struct_fields__}
    known = type(old)(**(values | {"hidden": 5, "drop_rates": RATES, "taus": TAUS}))
    monkeypatch.setattr(train, "load", lambda name, folder: data)
    monkeypatch.setattr(train, "facts_of", lambda name: known)
    return data


def how(path, **more):
    return How(path, **({"threads": 1, "passes": 40, "say": lambda text: None} | more))


def values(table, split):
    rows = table[table["split"] == split]
    return dict(zip(rows["metric"], rows["value"], strict=True))


def test_the_setting_is_the_best_on_the_last_fifth_of_the_training_part(made_up, tmp_path):
    table = run_set("yacht", "mc_dropout_2018", 30, 3, how(tmp_path))
    assert set(table["metric"]) == {*METRICS, *FURTHER}
    for s, split in enumerate(made_up.splits):
        rows = validation(split.train)
        x = standardise(made_up.x[rows.train], made_up.x[rows.test])
        y = standardise(made_up.y[rows.train], made_up.y[rows.test])
        found = []
        for k, (rate, tau) in enumerate((rate, tau) for rate in RATES for tau in TAUS):
            network = Network(0, (0, s, k), rate, keras_decay(rate, tau, len(rows.train)))
            batch = Batch([network], Parts.of([(x.train, y.train)]), 5, 3)
            batch.train(30)  # 40 rows are one batch
            points = Parts.of([(x.test, y.test)])
            draws = batch.predict(points, np.ones((1, 1)), 40, keep=True).draws[0]
            likelihood = scores(draws * y.sd + y.mean, 1 / tau, made_up.y[rows.test])["ll_mixture"]
            found.append((likelihood, -k, rate, tau))
        best = max(found)
        assert (values(table, s)["drop_rate"], values(table, s)["tau"]) == best[2:]


def test_test_targets_change_scores_only(made_up, tmp_path):
    before = run_set("yacht", "mc_dropout_2018", 5, 0, how(tmp_path / "a"))
    made_up.y[made_up.splits[0].test] += 100
    after = run_set("yacht", "mc_dropout_2018", 5, 0, how(tmp_path / "b", splits=1))
    assert values(after, 0)["rmse"] > 90
    for name in ("drop_rate", "tau"):
        assert values(after, 0)[name] == values(before, 0)[name]


def test_2016_takes_the_fixed_values(made_up, tmp_path):
    table = run_set("yacht", "mc_dropout_2016", 2, 0, how(tmp_path))
    known = facts()["yacht"]
    for split in (0, 1):
        assert values(table, split)["drop_rate"] == known.drop_rate_2016
        assert values(table, split)["tau"] == known.tau_2016


def test_a_plain_network_has_the_noise_of_its_validation_rows(made_up, tmp_path):
    table = run_set("yacht", "network", 7, 0, how(tmp_path))
    rows = validation(made_up.splits[1].train)
    x = standardise(made_up.x[rows.train], made_up.x[rows.test])
    y = standardise(made_up.y[rows.train], made_up.y[rows.test])
    batch = Batch([Network(0, (0, 1, 0), 0.0, 0.0)], Parts.of([(x.train, y.train)]), 5, 0)
    batch.train(7)
    f = batch.predict(Parts.of([(x.test, y.test)]), np.ones((1, 1)), 1).mean[0]
    noise = np.mean((f * y.sd + y.mean - made_up.y[rows.test]) ** 2)
    # tolerance: targets of float32, 1e-7 of errors of about their size
    assert values(table, 1)["tau"] == pytest.approx(1 / noise, rel=1e-5)
    # tolerance: predictions of float32 in the target's unit
    assert values(table, 1)["rmse"] == pytest.approx(values(table, 1)["rmse_no_dropout"], rel=1e-5)


def test_a_kill_costs_nothing_that_was_stored(made_up, tmp_path, monkeypatch):
    whole = run_set("yacht", "mc_dropout_2018", 50, 1, how(tmp_path / "a"))
    assert not list((tmp_path / "a" / "uci").glob("*.state"))
    steps, real = [], Batch.train

    def dies(batch, count, threads=1):
        if len(steps) == 3:
            raise KeyboardInterrupt
        steps.append(min(count, 10))
        real(batch, min(count, 10), threads)

    monkeypatch.setattr(Batch, "train", dies)
    with pytest.raises(KeyboardInterrupt):
        run_set("yacht", "mc_dropout_2018", 50, 1, how(tmp_path / "b", save_every_s=0.0))
    stored = sum(steps)
    (state,) = (tmp_path / "b" / "uci").glob("*.state")
    kept = state.read_bytes()
    taken = []

    def counts(batch, count, threads=1):
        taken.append(batch.step)
        real(batch, count, threads)

    monkeypatch.setattr(Batch, "train", counts)
    resumed = run_set("yacht", "mc_dropout_2018", 50, 1, how(tmp_path / "b"))
    assert taken[0] == stored
    assert resumed.equals(whole)
    said = []
    (tmp_path / "c" / "uci").mkdir(parents=True)
    (tmp_path / "c" / "uci" / state.name).write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    taken.clear()
    anew = run_set("yacht", "mc_dropout_2018", 50, 1, how(tmp_path / "c", say=said.append))
    assert taken[0] == 0
    assert anew.equals(whole)
    assert any("damaged or of other networks" in text for text in said)


def test_what_is_stored_is_read(made_up, tmp_path, monkeypatch):
    first = run_set("yacht", "network", 3, 0, how(tmp_path))
    monkeypatch.setattr(Batch, "train", None)
    again = run_set("yacht", "network", 3, 0, how(tmp_path))
    pd.testing.assert_frame_equal(again, first, check_exact=True)
    (path,) = (tmp_path / "uci").glob("*.csv")
    path.write_text("set,method\n")
    with pytest.raises(DataCorrupt, match="is no table of 2 splits; remove it"):
        run_set("yacht", "network", 3, 0, how(tmp_path))


def test_linear_regression_is_the_textbooks(made_up, tmp_path):
    split = made_up.splits[0]
    design, points = (np.column_stack([np.ones(len(rows)), made_up.x[rows, :2]]) for rows in split)
    weights, (residual,), rank, _ = np.linalg.lstsq(design, made_up.y[split.train], rcond=None)
    leverage = np.sum(points @ np.linalg.inv(design.T @ design) * points, axis=1)
    variance = residual / (TRAIN - rank) * (1 + leverage)
    expected = scores((points @ weights)[None], variance[None], made_up.y[split.test])
    found = linear(made_up, split)
    # tolerance: rounding, times the condition number of the unscaled design, about 1e3 squared
    assert found == pytest.approx(expected, rel=1e-8)
    table = run_set("yacht", "linear", 0, 0, how(tmp_path))
    assert values(table, 0) == found


def test_run_trains_every_method_on_the_sets_that_are_there(made_up, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bench.cli.uci.where", lambda name, folder: tmp_path if name == "yacht" else None)
    words = ["run", "--group", "uci", "--profile", "smoke", "--results", str(tmp_path), "--threads", "1"]
    assert main(words) == 0
    assert "yacht, linear, 0 epochs, seed 0: RMSE" in capsys.readouterr().out
    found = pd.concat(pd.read_csv(path) for path in (tmp_path / "uci").glob("*.csv"))
    assert set(found["method"]) == set(train.METHODS)
    assert set(found["split"]) == {0, 1}
    for more, problem in ((["mlp"], "give no approaches"), (["--profile", "epoch1"], "has smoke and full")):
        assert main([*words, *more]) == 2
        assert problem in capsys.readouterr().err
    monkeypatch.setattr("bench.cli.uci.where", lambda name, folder: None)
    assert main(words) == 2
    assert "no UCI set is on this machine" in capsys.readouterr().err


def test_an_ensembles_networks_are_plain_ones_trained_by_their_likelihood(made_up):
    rows = train.prepare(made_up, made_up.splits)
    wide = Parts(*(np.concatenate([one, one, one], axis=1) for one in rows.train))  # 150 rows: two batches
    ensembles = Ensembles(wide, 5, 2, torch.float64)
    weights = [one[7].detach().clone() for one in ensembles.weights]  # network 2 of split 1
    network = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)).double()
    with torch.no_grad():
        for parameter, value in zip(network.parameters(), weights, strict=True):
            parameter.copy_(value.T if value.shape[0] > 1 else value[0])
    adam = torch.optim.Adam(network.parameters(), lr=0.01)
    x, y = (torch.tensor(one[1]).double() for one in wide)
    for epoch in range(2):
        for chosen in ensembles.orders(epoch)[7].split(100):
            mean, raw = network(x[chosen]).unbind(1)
            variance = torch.nn.functional.softplus(raw) + 1e-6
            adam.zero_grad()
            torch.nn.functional.gaussian_nll_loss(mean, y[chosen], variance, eps=1e-12).backward()
            adam.step()
    ensembles.train(2)
    found = ensembles.predict(rows.test)
    with torch.no_grad():
        mean, raw = network(torch.tensor(rows.test.x[1]).double()).unbind(1)
    # tolerance: four steps in float64; Adam's first divides a gradient's rounding by the gradient
    np.testing.assert_allclose(found[0][1, 2], mean, rtol=1e-8, atol=1e-9)
    # tolerance: as above
    np.testing.assert_allclose(found[1][1, 2], torch.nn.functional.softplus(raw) + 1e-6, rtol=1e-8)
    assert len({tuple(one) for one in ensembles.orders(0)[:, :20].tolist()}) == 10


def test_an_ensemble_is_scored_in_the_targets_unit(made_up, tmp_path):
    table = run_set("yacht", "deep_ensemble", 3, 0, how(tmp_path))
    rows = train.prepare(made_up, made_up.splits)
    ensembles = Ensembles(rows.train, 5, 0)
    ensembles.train(3)
    mean, variance = (one[1] for one in ensembles.predict(rows.test))
    y = standardise(made_up.y[made_up.splits[1].train], made_up.y[made_up.splits[1].test])
    expected = scores(mean * y.sd + y.mean, variance * y.sd**2, made_up.y[made_up.splits[1].test])
    # tolerance: rounding of float64, and sums of squares whose numbers are near 10
    assert values(table, 1) == pytest.approx(expected, rel=1e-9)


def test_runs_are_whole_ones_by_set_metric_seed_and_split(made_up, tmp_path, monkeypatch):
    tables = {seed: run_set("yacht", "network", 3, seed, how(tmp_path)) for seed in (0, 4)}
    run_set("yacht", "network", 2, 0, how(tmp_path))
    run_set("yacht", "network", 3, 1, how(tmp_path, splits=1))
    run_set("yacht", "mc_dropout_2016", 3, 0, how(tmp_path))  # of 40 passes
    assert stored(tmp_path) == {}  # the set is known to have 20 splits
    known = train.facts_of("yacht")
    monkeypatch.setattr(scores_module, "facts_of", lambda name: msgspec.structs.replace(known, splits=2))
    found = stored(tmp_path)
    assert set(found) == {("yacht", "network", 3), ("yacht", "network", 2)}
    assert set(found["yacht", "network", 3]["rmse"]) == {0, 4}
    for seed, table in tables.items():
        expected = {split: values(table, split)["rmse"] for split in (0, 1)}
        assert found["yacht", "network", 3]["rmse"][seed] == expected
    (tmp_path / "uci" / "cut.csv").write_text("set,method\nyacht,network\n")
    with pytest.raises(DataCorrupt, match=r"cut.csv is no table of scores; remove it"):
        stored(tmp_path)


def test_wrong_arguments_are_named(tmp_path):
    with pytest.raises(ConfigError, match="mc_dropout_2018"):
        run_set("yacht", "mc_dropout", 40, 0, how(tmp_path))
    with pytest.raises(ConfigError, match="0 epochs given"):
        run_set("yacht", "network", 0, 0, how(tmp_path))
