"""Printed values and the author's results: what their columns are agrees with their own digits."""

import json
import math

import pytest

from bench.cli import USAGE
from bench.cli.main import main
from bench.uci.data import facts, sets
from bench.uci.published import (
    YARDSTICK,
    Printed,
    author,
    cuts_to,
    kind_by_size,
    printed,
    prints_as,
    spread,
    tables,
)


def of(column):
    return [one for one in printed() if one.column == column]


def test_every_value_has_a_column_and_every_column_a_source():
    columns = tables().columns
    assert {one.column for one in printed()} == set(columns)
    assert {name.partition(".")[0] for name in columns} == set(tables().sources)
    assert len(printed()) == len({one[:3] for one in printed()}) == 527
    assert {one.set for one in printed()} == {*sets(), "YearPredictionMSD"}
    runs = {run for run, _, _ in author()}
    for column in columns.values():
        assert not column.run or column.run in runs
        assert {column.copied_from, column.same_as} <= {"", *columns}


def test_the_author_has_a_number_for_every_split():
    for run, name, metric in author():
        assert sorted(author()[run, name, metric]) == list(range(facts()[name].splits)), (run, name, metric)
    assert set(author()["grid2018", "yacht", "tau"].values()) <= set(facts()["yacht"].taus)
    assert {round(tau, 8) for tau in author()[YARDSTICK, "yacht", "tau"].values()} == {
        round(facts()["yacht"].tau_2016, 8)
    }
    grid = spread("grid2018", "energy", "rmse")
    assert prints_as(grid.mean, "0.54")
    assert prints_as(grid.se, "0.014")
    assert spread("grid2018", "YearPredictionMSD", "rmse") is None


def test_the_kind_of_an_error_shows_in_its_size():
    found = {name: kind_by_size(of(name)) for name in tables().columns}
    for name, column in tables().columns.items():
        if column.error in ("se", "sd") and column.obtained == "read":
            assert found[name] == column.error, name
    assert found["ensembles2017t1.five"] == found["ensembles2017t2.one"] == "sd"  # which the paper leaves open
    assert found["baselines.one"] is None


def test_copies_have_the_numbers_of_their_originals():
    for name, column in tables().columns.items():
        if column.copied_from:
            originals = {(one.set, one.metric): one for one in of(column.copied_from)}
            shared = [(one, originals[one.set, one.metric]) for one in of(name) if (one.set, one.metric) in originals]
            assert len(shared) >= 18
            # both are rounded, the original to two decimals or more: half of its last place, and the binary fraction
            differing = [one for one, its in shared if abs(one.number - its.number) > 0.0051]
            assert differing == [], name


def test_rounded_and_cut_digits():
    assert prints_as(4.826, "4.83")
    assert not prints_as(4.826, "4.82")
    assert cuts_to(4.826, "4.82")
    assert cuts_to(-2.9367, "-2.93")
    assert not cuts_to(-2.9367, "-2.94")
    assert prints_as(2.5, "2")
    assert prints_as(2.5, "3")  # halves may go either way


def test_a_printed_nll_is_a_log_likelihood_with_the_other_sign():
    one = Printed("mine", "yacht", "nll", "1.18", "0.21")
    assert (one.metric, one.number, one.of(-1.2), one.n_splits) == ("ll", -1.18, 1.2, 20)
    assert Printed("mine", "protein-tertiary-structure", "rmse", "4.3", "").n_splits == 5
    assert spread(YARDSTICK, "protein-tertiary-structure", "ll").n == 5
    known = spread(YARDSTICK, "yacht", "ll")
    assert known.se == known.sd / math.sqrt(20)


def test_the_command_lists_the_sets_and_shows_one(capsys, monkeypatch):
    monkeypatch.delenv("BNN_BENCH_UCI", raising=False)
    assert main(["uci"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n{name}: " in f"\n{text}" for name in sets())
    assert "527 printed values of 36 columns" in text
    assert main(["uci", "energy", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["rows"], row["splits"]) == (768, 20)
    assert "+- 0.06: sd" in row["printed"]["readme2018.grid rmse"]
    assert main(["uci", "energy"]) == 0
    shown = capsys.readouterr().out
    assert "its cap is -1.063" in shown
    assert "grid2018: rmse 0.5" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["uci", "boston"], "unknown UCI set 'boston'"),
        (["uci", "--from", "/"], "give --fetch too"),
        (["uci", "yacht", "--fetch", "--from", "/proc/self/task"], "has no yacht/data.txt"),
        (["uci", "--data-dir", "/no/folder"], "/no/folder is not a folder"),
    ],
)
def test_a_wrong_command_is_one_line(capsys, words, message):
    assert main(words) == USAGE
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_audit_of_data_names_the_mistakes_of_printed_tables(capsys):
    assert main(["audit", "data", "--rule", "uci-capped"]) == 0  # they are no mistakes of this suite
    text = capsys.readouterr().out
    assert "uci-capped                 energy" in text
    assert "printed UCI tables (audit data): 3 fails" in text
    assert main(["audit", "--rules"]) == 0
    assert "uci-sd-as-se" in capsys.readouterr().out
