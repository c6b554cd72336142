"""The table of printed values beside our runs: on the screen, as a frame and as a figure, with planted runs."""

import csv
import json
import re

import pytest

import bench
from bench.cli import USAGE
from bench.cli.main import main
from bench.core.errors import ConfigError
from bench.judge.comparison import CONFIRMED
from bench.judge.stats.rule import NOT_RUN, TOO_FEW
from bench.uci.data import facts
from bench.uci.published import author, printed, tables
from bench.uci.verdicts import NOT_COMPARABLE

HEAD = ("set", "method", "recipe", "epochs", "split", "seed", "metric", "value")
MOST_LINES = 45  # of a screen
FIVE = (-2, -1, 0, 1, 2)


def put(root, name, method, epochs, run, seeds=FIVE, scatter=0.001):
    """Store the author's number of each split, moved by `scatter` times a number for each seed."""
    (root / "uci").mkdir(parents=True, exist_ok=True)
    rows = [
        (name, method, "", epochs, split, seed, metric, value + scatter * moved)
        for seed, moved in enumerate(seeds)
        for metric, key in (("rmse", "rmse"), ("ll_mixture", "ll"), ("ll_gaussian", "ll"))
        for split, value in author()[run, name, key].items()
    ]
    with (root / "uci" / f"{name}-{method}-{epochs}.csv").open("w", newline="") as file:
        csv.writer(file).writerows([HEAD, *rows])


@pytest.fixture
def root(tmp_path):
    """Boston in five runs and protein in one, of several methods."""
    put(tmp_path, "bostonHousing", "mc_dropout_2018", 4000, "grid2018")
    put(tmp_path, "bostonHousing", "mc_dropout_2016", 4000, "bo2016x100")
    put(tmp_path, "bostonHousing", "mc_dropout_2016", 400, "bo2016x10")
    put(tmp_path, "bostonHousing", "linear", 0, "bo2016x10", (0,))
    put(tmp_path, "protein-tertiary-structure", "mc_dropout_2018", 2000, "grid2018", (0,))
    return tmp_path


def test_the_frame_has_every_value_with_ours_and_its_verdict(root):
    frame = bench.table("uci", root)
    assert len(frame) == sum(one.set in facts() for one in printed())
    rows = {(row["column"], row["set"], row["quantity"]): row for row in frame.to_dict("records")}
    boston = rows["readme2018.grid", "bostonHousing", "rmse"]
    assert (boston["outcome"], boston["ours n"], boston["value"]) == (CONFIRMED, 5, 2.9)
    assert boston["correlation by split"] == pytest.approx(1, rel=1e-9)  # tolerance: rounding of equal numbers
    assert boston["difference by split"] == pytest.approx(0, abs=1e-12)  # tolerance: rounding of sums of 20
    protein = rows["readme2018.grid", "protein-tertiary-structure", "ll"]
    assert (protein["outcome"], protein["ours n"]) == (TOO_FEW, 1)
    # -2.870 prints as -2.87; at 2,000 epochs, which the column's 4,000 are for this set
    assert protein["distance"] == 0
    assert rows["readme2018.grid", "yacht", "rmse"]["outcome"] == NOT_RUN
    other = rows["readme2016se.400", "bostonHousing", "rmse"]
    assert (other["outcome"], other["ours n"]) == (NOT_COMPARABLE, 5)
    assert "batches of 32" in other["reason"]
    nll = rows["ensembles2017t1.dropout", "bostonHousing", "nll"]
    assert nll["ours"] > 0  # with the sign of what is printed


def test_without_runs_there_is_no_table(tmp_path):
    with pytest.raises(ConfigError, match=r"no table 'uci' can be made from .*; python -m bench run --group uci"):
        bench.table("uci", tmp_path)


def test_a_screen_holds_the_values_of_a_set_or_method(root, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["uci", "--results", str(root)]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= MOST_LINES
    assert re.search(r"readme2018\.grid +2 confirmed, 14 not run, 2 too few seeds; ours: mc_dropout_2018", text)
    assert main(["uci", "bostonHousing", "--results", str(root)]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= MOST_LINES
    assert re.search(r"readme2018.grid +rmse 2.90 \+- 0.18 .* 2.904 \+- 0.002 \(5\) .* confirmed +1.00", text)
    assert "readme2018.grid: 20 splits (author), of the mean or mixture, 4000 epochs, tuned: validation" in text
    assert "not compared: batches of 32; ours have 128" in " ".join(text.split())
    assert "readme2016sd.4000" not in text  # the same numbers as readme2016se.4000
    assert main(["uci", "bostonHousing", "--all", "--results", str(root)]) == 0
    text = capsys.readouterr().out
    assert all(one.column in text for one in printed() if one.set == "bostonHousing")
    assert main(["uci", "--method", "mc_dropout_2018", "--results", str(root)]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= MOST_LINES
    assert set(re.findall(r"\b\w+\.[a-z]\w+\b", text)) & set(tables().columns) == {"readme2018.grid"}
    assert main(["uci", "bostonHousing", "--json", "--results", str(root)]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert {one["outcome"] for one in row["values"] if one["column"] == "readme2018.grid"} == {CONFIRMED}


def test_an_unknown_method_is_one_line(root, capsys):
    assert main(["uci", "--method", "dropout", "--results", str(root)]) == USAGE
    error = capsys.readouterr().err
    assert "mc_dropout_2018" in error
    assert error.count("\n") == 1


def test_a_damaged_file_of_another_set_is_no_matter(tmp_path, capsys):
    (tmp_path / "yacht").mkdir()
    (tmp_path / "yacht" / "data.txt").write_text("broken")
    assert main(["uci", "energy", "--data-dir", str(tmp_path)]) == 0
    assert main(["uci", "yacht", "--data-dir", str(tmp_path)]) == USAGE
    assert "remove this file" in capsys.readouterr().err
