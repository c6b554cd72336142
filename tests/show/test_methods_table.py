"""The methods' table: places, intervals and costs from records whose numbers are made up."""

import math
import re
from pathlib import Path

import msgspec
import pytest

from bench.cli import USAGE
from bench.cli.main import main
from bench.core.store import Store
from bench.judge.samples import Samples
from bench.measure.metrics.shifts import STEPS, step_key
from bench.plan.registry import manifest, of_group
from bench.show.figures import methods
from bench.show.figures.methods import LINE, front, label_heights
from bench.show.figures.style import style
from bench.show.inputs import Inputs
from bench.show.tables.methods import clothes_table, methods_table
from bench.show.tables.methods_answer import beyond_plain, order_sentence, sentences
from bench.show.tables.methods_rows import Row
from tests.synthetic import record
from tests.tables import shown_rows


def inputs(*records, profile="full"):
    """Return inputs of these records, as if they had been read from a results folder."""
    found = Inputs(Path("no-such-folder"), profile)
    found._read_once[found.store.root, frozenset()] = (list(records), [])
    return found


def made(approach, recipe, seed, nll, draws, epochs):
    return record(
        approach,
        recipe,
        "common",
        seed=seed,
        metrics={"mnist/accuracy": 0.98, "mnist/nll": nll},
        epochs=[{"epoch": number, "mnist/train60k/train_loss": 0.1} for number in range(1, epochs + 1)],
        timings={"predict_draws": draws},
        model={"n_weights": 1000},
    )


def folder(n_seeds=5):
    documents = [made("mlp", "corrected", seed, 0.07 + 0.001 * seed, 1, 10) for seed in range(n_seeds)]
    ensembles = [made("deep_ensemble", "published", seed, 0.05 + 0.001 * seed, 5, 20) for seed in range(n_seeds)]
    return inputs(*documents, *ensembles)


def table(n_seeds=5):
    (found,) = methods_table(folder(n_seeds))
    return found, {row["method"]: row for row in shown_rows(found)}


def test_a_row_has_its_place_the_interval_of_the_mean_and_its_costs():
    """NLL .05 to .054: mean .052, sd .00158, half-width 2.776 .00158 / sqrt 5 = .0020. Differences are all .02.

    Costs: 5 networks for 20 epochs instead of 10 are 10 trainings; 5 draws; 5 times 1000 weights of 4 bytes.
    """
    found, rows = table()
    assert [row[0] for row in found.texts()] == ["deep_ensemble", "mlp corrected"]
    ensemble = rows["deep_ensemble"]
    assert (ensemble["NLL"], ensemble["place"], rows["mlp corrected"]["place"]) == ("0.0520 +- 0.0020", "1", "2")
    assert [ensemble[name] for name in ("training", "answer", "MB", "seeds")] == ["10.0", "5.00", "0.0200", "5"]
    assert rows["mlp corrected"]["training"] == "1.00"
    assert found.lines[0]["NLL half-width"] == pytest.approx(0.00196, abs=1e-5)


def test_a_manifest_without_costs_has_none_in_the_table(monkeypatch):
    entry = msgspec.structs.replace(manifest("deep_ensemble"), cost=None)
    monkeypatch.setattr("bench.show.inputs.of_group", lambda group: {**of_group(group), "deep_ensemble": entry})
    (found,) = methods_table(folder())
    row = {row["method"]: row for row in shown_rows(found)}["deep_ensemble"]
    assert [row[name][0] for name in ("training", "answer", "MB", "seeds")] == ["-", "-", "-", "5"]


def test_one_seed_ranks_nothing_and_has_no_interval():
    _, rows = table(n_seeds=1)
    assert {row["place"] for row in rows.values()} == {"1-2"}
    assert rows["deep_ensemble"]["NLL"] == "0.0500"


def test_the_table_of_clothes_is_printed_and_written_with_the_others(tmp_path, capsys):
    metrics = {"fashion_mnist/accuracy": 0.9, "fashion_mnist/nll": 0.3}
    Store(tmp_path).write(record("deep_ensemble", "published", "common", profile="full_fashion", metrics=metrics))
    place = ["--results", str(tmp_path), "--baseline", "none"]
    assert main(["table", "methods", "--task", "fashion", *place]) == 0
    assert "if it learns clothes?" in capsys.readouterr().out
    assert main(["table", "--write", *place]) == 0
    assert (tmp_path / "tables" / "methods_fashion.csv").read_text().startswith("method,")
    assert not (tmp_path / "tables" / "methods.csv").exists()
    assert main(["table", "--write", "--task", "fashion", *place]) == USAGE
    assert "--write also writes this table" in capsys.readouterr().err


def test_records_that_no_manifest_names_are_said_where_there_is_no_table(tmp_path, capsys):
    Store(tmp_path).write(made("my_cnn", "published", 0, 0.07, 1, 10))
    assert main(["table", "methods", "--results", str(tmp_path), "--baseline", "none"]) == USAGE
    assert "--approach-path gives the manifests of its my_cnn" in capsys.readouterr().err


def test_only_mine_shows_the_users_methods(tmp_path, capsys):
    own, baseline = Store(tmp_path / "own"), Store(tmp_path / "baseline")
    baseline.write(made("mlp", "corrected", 0, 0.07, 1, 10))
    baseline.write(made("sghmc", "published", 0, 0.06, 20, 10))
    own.write(made("deep_ensemble", "published", 0, 0.05, 5, 20))
    place = ["--results", str(own.root), "--baseline", str(baseline.root)]
    for form in ("csv", "md"):
        assert main(["table", "methods", *place, "--only", "mine", "--format", form]) == 0
        names = re.findall(r"^[| ]*(mine: deep_ensemble|sghmc|mlp corrected)\b", capsys.readouterr().out, re.MULTILINE)
        assert names == ["mine: deep_ensemble"]


def learnt(means, seeds=(0, 1, 2)):
    """Return rows whose NLL differs between seeds by what all share, so that every difference is told apart."""
    return [
        Row(name, {"NLL": Samples({seed: mean + seed + 0.001 * index * seed for seed in seeds})}, {})
        for index, (name, mean) in enumerate(means.items())
    ]


def test_the_order_of_methods_is_compared_where_the_seeds_tell_it_on_both_tasks():
    """On digits a < b < c < d. On clothes c and d swap, and a is as good as b; e learnt clothes alone.

    Differences of one seed to another are .001 to .003, those of means 1: p is far below .05 / 6, and 0 is not told.
    So of 6 pairs ac, ad, bc and bd keep their order, cd turns round, and ab is told apart on digits alone.

    By the means (b minus a: .0017) cd alone turns round: (5 - 1) / 6 = .67. With seed 1, ba does too: (4 - 2) / 6.
    """
    digits = learnt({"a": 1, "b": 2, "c": 3, "d": 4})
    clothes = learnt({"a": 1, "b": 1, "d": 3, "c": 4, "e": 5})
    clothes[1].numbers["NLL"] = Samples({0: 1.005, 1: 1.995, 2: 3.005})  # b minus a: .005, -.005, .005
    said = order_sentence(digits, clothes)
    assert "4 methods learnt digits and clothes: 6 pairs." in said
    assert "tell 5 of them apart on both: 4 in the same order, 1 in the opposite one" in said
    assert "1 more apart on digits alone and 0 more on clothes alone" in said
    assert "two orders of means is 0.67" in said
    assert "with single seeds, 0.33 to 0.67 (n = 3)" in said


def test_each_method_is_compared_with_the_plain_network_seed_by_seed():
    """NLL minus that of mlp corrected, seeds 0 to 2: a -1, -.999, -.998; b +.5, .502, .504; c -.5, .5, 0.

    t of a is -.999 / (.001 / sqrt 3) = -1730, so p = 3e-7; of b 435, p = 5e-6; of c 0. `other` has no costs.
    """
    found = learnt({"mlp corrected": 2, "a": 1, "b": 2.5, "c": 2, "other": 1})
    found[3].numbers["NLL"] = Samples({0: 1.5, 1: 3.5, 2: 4.0})
    for row in found[:4]:
        row.costs["training"] = 1.0
    (one,) = beyond_plain(found)
    assert one.better == {"a": pytest.approx(-0.999)}
    assert one.worse == {"b": pytest.approx(0.502)}
    assert str(one) == "NLL: better with a (-0.999); worse with b (+0.502); 1 cannot be told from it."
    assert sentences(found)[0].startswith("Which of the 3 methods and recipes beat the plain network (mlp corrected)")
    assert beyond_plain(found[1:]) == []  # without the plain network
    assert sentences(found[:1]) == []


@pytest.mark.parametrize("profile", ["full", "full_fashion"])
def test_methods_that_learnt_clothes_have_a_table_of_their_own(profile):
    """One seed: nothing is told apart, and the columns are of clothes."""
    metrics = {"fashion_mnist/accuracy": 0.9, "fashion_mnist/nll": 0.3, "mnist/auroc_predictive_entropy": 0.95}
    digits = [made("deep_ensemble", "published", 0, 0.05, 5, 20)]
    clothes = record("deep_ensemble", "published", "common", profile="full_fashion", metrics=metrics)
    (found,) = clothes_table(inputs(*digits, clothes, profile=profile))
    assert found.name == "methods_fashion"
    (row,) = shown_rows(found)
    shown = [row[name] for name in ("method", "accuracy", "NLL", "digits")]
    assert shown == ["deep_ensemble", "0.9000", "0.3000", "0.950"]
    assert "clothes" not in found.columns
    assert any("Fewer than two methods have records" in note for note in found.notes)
    assert "full of task fashion" in found.caption


def test_a_missing_row_of_ten_times_the_budget_is_named():
    plain = [made("mlp", "corrected", 0, 0.07, 1, 10)]
    short, long = (made("sghmc", recipe, 0, 0.05, 20, 10) for recipe in ("published", "published+ten-times"))
    for records, is_missing in (([short], True), ([short, long], False)):
        (found,) = methods_table(inputs(*plain, *records))
        (note,) = (note for note in found.notes if note.startswith("Methods with a recipe of ten times the budget:"))
        assert "bench run torchbnn_mlp --recipe corrected+ten-times makes" in note  # its published recipe is no ELBO
        assert ("Missing row: sghmc ten-times (python -m bench run sghmc" in note) == is_missing


def shifted(approach, recipe, seed, metrics):
    """Return a record of protocol shift."""
    return record(approach, recipe, "shift", seed=seed, metrics=metrics)


def test_turned_and_moved_digits_have_their_columns_where_they_were_measured():
    """Means of 2 and 2.2, and of 3 and 3.2; half-widths 12.706 s / sqrt 2, with s = .1414. Accuracies: .6 and .62."""
    documents, ensembles = (
        [made(name, recipe, seed, 0.07 + 0.01 * seed, 1, 10) for seed in (0, 1)]
        for name, recipe in (("mlp", "corrected"), ("deep_ensemble", "published"))
    )
    for seed in (0, 1):
        areas = {
            f"mnist/{kind}/{name}_area": first + step * seed
            for kind, nll in (("rotated", 2), ("translated", 3))
            for name, first, step in (("accuracy", 0.6, 0.02), ("nll", nll, 0.2))
        }
        ensembles.append(shifted("deep_ensemble", "published", seed, areas))
    (found,) = methods_table(inputs(*documents, *ensembles))
    rows = {row["method"]: row for row in shown_rows(found)}
    columns = ("NLL, turned", "NLL, moved")
    assert [rows["deep_ensemble"][name] for name in columns] == ["2.100 +- 1.271", "3.100 +- 1.271"]
    assert [found.lines[-1][name] for name in ("accuracy, turned", "accuracy, moved")] == pytest.approx([0.61, 0.61])
    assert "accuracy, turned" not in found.columns
    assert [rows["mlp corrected"][name] for name in columns] == ["-", "-"]
    assert any("--protocol shift" in note for note in found.notes)


def test_the_figure_of_turned_digits_has_a_panel_for_each_method():
    curves = {
        step_key("rotated", step, name): 1 - 0.5 * step / STEPS["rotated"][-1] if name == "accuracy" else 0.5
        for step in STEPS["rotated"]
        for name in ("accuracy", "sure@0.99")
    }
    digits = [made("mlp", "corrected", seed, 0.07, 1, 10) for seed in (0, 1)]
    assert list(methods.make(inputs(*digits))) == []
    (found,) = methods.make(inputs(*digits, *(shifted("mlp", "corrected", seed, curves) for seed in (0, 1))))
    assert found.name == "shift"
    assert "Seeds: 2." in found.caption
    with style():
        (panel,) = (axes for axes in found.draw().axes if axes.get_title("left"))
    assert panel.get_title("left") == "mlp corrected"
    right, sure = (line.get_ydata() for line in panel.lines)
    assert (right[0], right[-1], set(sure)) == (1, pytest.approx(0.5), {0.5})


def test_the_front_is_of_the_points_that_no_other_beats_in_both():
    """(2, 3) costs more than (1, 2) and is worse; of the equal points the first counts."""
    assert front([(1, 2), (2, 3), (5, 1), (1, 4), (5, 1), (0.5, 9)]) == [5, 0, 2]
    assert front([(3, 3)]) == [0]


def test_the_figure_names_every_method_with_costs():
    (found,) = methods.make(folder())
    with style():
        drawn = [text.get_text() for axes in found.draw().axes for text in axes.texts]
    assert drawn == ["mlp corrected", "deep_ensemble"] * 2


def test_without_records_of_methods_there_is_no_table():
    assert list(methods_table(inputs(made("mlp", "corrected", 0, 0.07, 1, 10)))) == []


def test_names_of_similar_cost_stand_a_line_apart():
    # losses 1 and e: the range is 1, a line LINE. The losses of costs 1 and 1.2 are .01 apart, so that their names move
    # by (LINE - .01) / 2 each; the third point has a cost of its own.
    found = label_heights([(1.0, 1.0), (1.2, math.exp(0.01)), (2.0, math.e)])
    moved = (LINE - 0.01) / 2
    assert [math.log(height) for height in found] == pytest.approx([-moved, 0.01 + moved, 1.0])
