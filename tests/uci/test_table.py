"""The table of printed values beside our runs: on the screen, as a frame and as a figure, with planted runs."""

import csv
import json
import math
import re

import numpy as np
import pytest
from scipy import stats

import bench
from bench.cli import USAGE
from bench.cli.main import main
from bench.core.errors import ConfigError
from bench.core.project import RESULTS
from bench.judge.comparison import CONFIRMED
from bench.judge.stats.rule import NOT_RUN, TOO_FEW
from bench.posterior.reference import DENSITIES, QUANTILES
from bench.show.figures.style import style
from bench.show.figures.uci import drawn, lines
from bench.show.tables.uci import NOT_TRAINED, hmc_scores, uci_answer
from bench.uci.data import epochs_of, expected_s, facts, load, where
from bench.uci.published import author, printed, spread, tables
from bench.uci.scores import METHODS, stored
from bench.uci.verdicts import NOT_COMPARABLE

HEAD = ("set", "method", "recipe", "epochs", "split", "seed", "metric", "value")
MOST_LINES = 45  # of a screen
NONE = "no whole runs to draw; python -m bench run --group uci makes them"
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


def test_our_methods_stand_side_by_side_with_hmc_on_split_0(root, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["uci", "bostonHousing", "--ours", "--results", str(root)]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= MOST_LINES
    theirs = author()["grid2018", "bostonHousing", "rmse"]
    mean, first = (f"{one:.4g}" for one in (spread("grid2018", "bostonHousing", "rmse").mean, theirs[0]))
    assert re.search(rf"mc_dropout_2018 +4000 +{mean} \+- 0\.00\d+ \(5\) .* {first} ", text)
    methods = re.findall(r"^(mc_dropout_\d+|linear|HMC) .*", text, flags=re.MULTILINE)
    assert methods == ["mc_dropout_2018", "mc_dropout_2016", "mc_dropout_2016", "linear", "HMC"]
    assert re.search(r"HMC \(split 0 alone\) +- +- +- +\S+ +-\d", text)
    assert main(["uci", "yacht", "--ours", "--results", str(tmp_path / "nothing")]) == 0
    text = capsys.readouterr().out
    assert "python -m bench run --group uci yacht" in text
    assert "HMC" not in text
    assert main(["uci", "yacht", "--ours", "--json"]) == USAGE


def test_hmc_has_the_scores_of_the_shipped_reference(tmp_path, monkeypatch):
    with np.load(RESULTS / "posterior" / "boston.npz") as kept:
        draws, logs = kept[QUANTILES].astype(np.float64), kept[DENSITIES].astype(np.float64)
    found, remarks = hmc_scores("boston", tmp_path)
    # tolerance: rounding of sums of eight
    assert found["ll_mixture"] == pytest.approx(np.log(np.exp(logs).mean(axis=0)).mean(), rel=1e-12)
    if where("bostonHousing") is not None:
        rows = load("bostonHousing")
        error = draws.mean(axis=(0, 2)) - rows.y[rows.splits[0].test]
        # tolerance: targets are standardised in float32, and moved back
        assert found["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-5)
    assert remarks == [] or "rmse" not in found
    monkeypatch.setattr("bench.show.tables.uci.where", lambda name, folder: None)
    found, remarks = hmc_scores("boston", tmp_path)
    assert set(found) == {"ll_mixture"}
    assert remarks == ["no RMSE of HMC without the data: python -m bench uci bostonHousing --fetch"]


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


def test_the_figure_has_printed_values_ours_with_their_interval_and_the_floor(root):
    found = stored(root)
    made, floor = lines(found, "bostonHousing", "rmse")
    assert [line.label for line in made] == ["mc_dropout_2016, 400", "mc_dropout_2016, 4000", "mc_dropout_2018, 4000"]
    values = np.array(list(author()["grid2018", "bostonHousing", "rmse"].values()))
    assert made[2].mean == pytest.approx(values.mean(), rel=1e-12)  # tolerance: rounding
    half = stats.t.ppf(0.975, 19) * values.std(ddof=1) * math.sqrt(1 / 20 + 51 / 455)  # Nadeau and Bengio 2003
    assert made[2].half == pytest.approx(half, rel=1e-9)  # tolerance: 1e-10 of SciPy's t
    assert made[2].printed == (2.9,)
    assert sorted(made[1].printed) == [2.8, 2.83]
    assert floor == pytest.approx(spread("bo2016x10", "bostonHousing", "rmse").mean, rel=1e-12)  # tolerance: rounding
    assert lines(found, "protein-tertiary-structure", "ll")[1] is None
    with style():
        panels = drawn(found).axes
    assert [axes.get_title("left") for axes in panels[::2]] == ["bostonHousing", "protein-tertiary-structure"]
    assert floor in [line.get_xdata()[0] for line in panels[0].lines]


def test_the_figure_is_a_file_of_its_ending(root, tmp_path, capsys):
    for name, first in (("uci.svg", b"<svg"), ("uci.png", b"\x89PNG")):
        assert main(["uci", "--results", str(root), "--figure", str(tmp_path / name)]) == 0
        assert first in (tmp_path / name).read_bytes()[:200]
    for words, message in ((["--figure", str(tmp_path / "uci.gif")], "known: png, svg"), (["--figure", "x.svg"], NONE)):
        folder = root if "gif" in words[1] else tmp_path / "nothing"
        capsys.readouterr()
        assert main(["uci", "--results", str(folder), *words]) == USAGE
        assert message in capsys.readouterr().err


def test_the_sentences_count_mistakes_outcomes_and_floors(root, tmp_path):
    opening, mistakes, caps, hours, *others = uci_answer(root)
    assert opening.startswith("527 values are printed in 36 columns; 11 of")
    assert "target column (naval's turbine) (8 columns)" in mistakes
    assert "energy -1.063, naval-propulsion-plant 4.491 and yacht -1.063" in caps
    seconds = [expected_s("yacht", method, epochs) for method in METHODS for epochs in epochs_of("yacht", method)]
    assert len(seconds) == 18  # three lengths of four methods, two of Bayes by Backprop and IVON, one of the others
    assert re.fullmatch(r"One run of every method .* of one quiet core; 5 runs of bostonHousing, .* take .*\.", hours)
    # rmse of readme2018.bo is 2.83, of the others 2.80; -2.40 and -2.39; 400 epochs are not compared
    assert others[0].startswith("`mc_dropout_2016`: ")
    assert "2 not comparable" in others[0]
    assert others[1] == "`mc_dropout_2018`: 2 confirmed, 2 too few seeds."
    assert others[2].startswith("By split, ours correlate with the author's by 1.00 to 1.00; 0 of 6 mean differences")
    ratio = spread("bo2016x10", "bostonHousing", "rmse").mean / spread("grid2018", "bostonHousing", "rmse").mean
    assert others[3].endswith(f"times the author's RMSE: bostonHousing {ratio:.3g}.")
    assert uci_answer(tmp_path / "nothing")[4:] == [NOT_TRAINED]
