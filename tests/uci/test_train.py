"""The methods on made-up sets: settings chosen by validation rows alone, kills and damage, closed forms."""

import re

import msgspec
import numpy as np
import pandas as pd
import pytest

pytest.importorskip("numba")

from bench.cli.main import main
from bench.core.errors import ConfigError, DataCorrupt
from bench.uci import scores as scores_module
from bench.uci import train
from bench.uci.data import epochs_of, facts, standardise, validation
from bench.uci.dropout import Batch, Network, Parts, keras_decay
from bench.uci.scores import FURTHER, METHODS, METRICS, scores, stored
from bench.uci.train import run_set
from tests.data.small_sets import RATES, TAUS, how, small_yacht, values


@pytest.fixture
def made_up(monkeypatch):
    return small_yacht(monkeypatch)


def test_the_setting_is_the_best_on_the_last_fifth_of_the_training_part(made_up, tmp_path):
    table = run_set("yacht", "mc_dropout_2018", 30, 3, how(tmp_path))
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


def test_a_kill_costs_no_choice_that_was_made(made_up, tmp_path, monkeypatch):
    whole = run_set("yacht", "mc_dropout_2018", 20, 1, how(tmp_path / "a"))
    validated, real = [], Batch.predict

    def dies(batch, points, precision, passes, **more):
        if len(more["only"]) == 4:
            if validated:
                raise KeyboardInterrupt
            validated.append(more["only"])
        return real(batch, points, precision, passes, **more)

    monkeypatch.setattr(Batch, "predict", dies)
    with pytest.raises(KeyboardInterrupt):
        run_set("yacht", "mc_dropout_2018", 20, 1, how(tmp_path / "b"))

    def counts(batch, points, precision, passes, **more):
        validated.append(more["only"])
        return real(batch, points, precision, passes, **more)

    monkeypatch.setattr(Batch, "predict", counts)
    assert run_set("yacht", "mc_dropout_2018", 20, 1, how(tmp_path / "b")).equals(whole)
    assert [list(one) for one in validated if len(one) == 4] == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("method", METHODS)
def test_what_is_stored_is_read(made_up, tmp_path, monkeypatch, method):
    first = run_set("yacht", method, 3, 0, how(tmp_path))
    assert set(first["metric"]) <= {*METRICS, *FURTHER}
    monkeypatch.setattr(train, "_Run", None)
    again = run_set("yacht", method, 3, 0, how(tmp_path))
    pd.testing.assert_frame_equal(again, first, check_exact=True)


def other_value(value):
    return lambda lines: [lines[0], re.sub(r"[^,]*,(?=[^,]*$)", f"{value},", lines[1]), *lines[2:]]


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [],
        lambda lines: ["set,method"],
        lambda lines: lines[:1],
        lambda lines: lines[:-1],
        lambda lines: lines[: len(lines) // 2],  # the first split alone
        lambda lines: [*lines[:-1], lines[-2]],
        lambda lines: [*lines, lines[-1]],
        lambda lines: [one.replace("yacht", "energy") for one in lines],
        lambda lines: [one.replace("yacht,network,,3", "yacht,network,40 passes,3") for one in lines],
        lambda lines: [*lines[:-1], lines[-1][:-30]],
        lambda lines: ["a,b", "c,d,e,f"],
        lambda lines: ["\xff\x00"],
        other_value("nan"),
        other_value("inf"),
        other_value("two"),
    ],
)
def test_a_damaged_table_is_named_with_the_remedy(made_up, tmp_path, damage):
    run_set("yacht", "network", 3, 0, how(tmp_path))
    (path,) = (tmp_path / "uci").glob("*.csv")
    damaged = "\n".join(damage(path.read_text().splitlines()))
    assert damaged.strip() != path.read_text().strip()
    path.write_bytes(damaged.encode("latin1"))
    with pytest.raises(DataCorrupt, match=r"-0\.csv is no table of 2 splits; remove it, and the same command makes it"):
        run_set("yacht", "network", 3, 0, how(tmp_path))


def test_a_table_of_other_data_settings_or_code_is_trained_again(made_up, tmp_path, monkeypatch):
    first = run_set("yacht", "network", 3, 0, how(tmp_path))
    made_up.y[:] += 1000
    known, said = train.facts_of("yacht"), []
    assert train.is_made("yacht", "network", 3, 0, how(tmp_path))
    monkeypatch.setattr(train, "facts_of", lambda name: msgspec.structs.replace(known, sha256="0" * 64))
    assert not train.is_made("yacht", "network", 3, 0, how(tmp_path))
    again = run_set("yacht", "network", 3, 0, how(tmp_path, say=said.append))
    assert any("is of other data, settings or code; it is trained again" in text for text in said)
    assert not again["value"].equals(first["value"])
    assert run_set("yacht", "network", 3, 0, how(tmp_path)).equals(again)


def test_a_definition_has_data_settings_and_training_code(monkeypatch, tmp_path):
    changed = tmp_path / "changed.py"
    changed.write_text("other code")

    def found(method):
        return train.definition("yacht", method, 40, 0, how(tmp_path))

    before = {method: found(method) for method in METHODS}
    assert len(set(before.values())) == len(before)
    for module in ("dropout", "dropout_loops", "noise_loops", "closed", "ensembles", "mean_field", "ivon"):
        with monkeypatch.context() as patch:
            patch.setattr(getattr(train, module), "__file__", str(changed))
            moved = {method for method in METHODS if found(method) != before[method]}
        dropout = {"mc_dropout_2018", "mc_dropout_2016", "network", "last_layer_laplace"}
        fields = {"bayes_by_backprop", "ivon"}
        others = {
            "dropout": {*dropout, "deep_ensemble", *fields},
            "dropout_loops": dropout,
            "noise_loops": {*dropout, *fields},
            "closed": {"linear", "last_layer_laplace"},
            "ensembles": {"deep_ensemble", *fields},
            "mean_field": fields,
            "ivon": {"ivon"},
        }
        assert moved == others[module]
    known = facts()["yacht"]
    for more in ({"sha256": "0" * 64}, {"taus": (1.0,)}, {"hidden": 7}):
        with monkeypatch.context() as patch:
            patch.setattr(train, "facts_of", lambda name, more=more: msgspec.structs.replace(known, **more))
            assert all(found(method) != before[method] for method in METHODS)
    monkeypatch.setattr(train, "VERSION", 0)
    assert all(found(method) != before[method] for method in METHODS)


def test_run_trains_every_method_on_the_sets_that_are_there(made_up, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bench.cli.uci.where", lambda name, folder: tmp_path if name == "yacht" else None)
    words = ["run", "--group", "uci", "--profile", "smoke", "--results", str(tmp_path), "--threads", "1"]
    assert main([*words, "linear"]) == 0
    assert "1 of 1 to train: about 0 s of one quiet core in all" in capsys.readouterr().out
    assert main([*words, "yacht", "linear", "--quiet"]) == 0
    assert len(list((tmp_path / "uci").glob("*.csv"))) == 1
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "7 of 8 to train: about " in text
    assert "yacht, linear, 0 epochs, seed 0: RMSE" in text
    found = pd.concat(pd.read_csv(path) for path in (tmp_path / "uci").glob("*.csv"))
    assert set(found["method"]) == set(METHODS)
    assert set(found["split"]) == {0, 1}
    for more, problem in (
        (["mlp"], "unknown set or method of --group uci 'mlp'"),
        (["energy"], "energy is not on this machine; `python -m bench uci energy --fetch`"),
        (["--profile", "epoch1"], "has smoke and full"),
        (["--json"], "--group uci cannot honour --json; it takes --profile"),
        (["--all"], "cannot honour --all"),
        (["--executor", "inline", "--workers", "2"], "cannot honour --executor, --workers"),
        (["--recipe", "published", "--device", "cuda"], "cannot honour --recipe, --device"),
        (["--time-limit", "3", "--memory-limit", "5"], "cannot honour --time-limit, --memory-limit"),
        (["--lacking", "--apart", "--task", "digits"], "cannot honour --apart, --task, --lacking"),
        (["--precision", "bf16", "--protocol", "published"], "cannot honour --protocol, --precision"),
    ):
        assert main([*words, *more]) == 2
        assert problem in capsys.readouterr().err
    monkeypatch.setattr("bench.cli.uci.where", lambda name, folder: None)
    assert main(words) == 2
    assert "no UCI set is on this machine" in capsys.readouterr().err


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


def test_a_full_run_has_the_printed_epochs_of_each_set():
    assert epochs_of("yacht", "network") == (40, 400, 4000)
    assert epochs_of("protein-tertiary-structure", "mc_dropout_2016") == (40, 200, 2000)
    assert epochs_of("yacht", "deep_ensemble") == (40,)
    assert epochs_of("yacht", "linear") == (0,)
    assert epochs_of("yacht", "bayes_by_backprop") == epochs_of("yacht", "ivon") == (40, 400)
    assert epochs_of("kin8nm", "bayes_by_backprop") == (40,)  # of 8,192 rows


def test_wrong_arguments_are_named(tmp_path):
    with pytest.raises(ConfigError, match="mc_dropout_2018"):
        run_set("yacht", "mc_dropout", 40, 0, how(tmp_path))
    with pytest.raises(ConfigError, match="0 epochs given"):
        run_set("yacht", "network", 0, 0, how(tmp_path))
