"""Compares two folders: pairs, equal numbers, intervals over seeds and rows, and what differs besides numbers."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.cli import INCOMPLETE, USAGE
from bench.cli.main import main
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.judge.compare.differences import IDENTICAL, NO_SPREAD, ONE_SEED, row_test
from tests.synthetic import record


def folder(root, values, recipe="published", scores=None, **changes):
    """Write a record for each seed, with its value as mnist/nll and the same mnist/accuracy."""
    by_seed = {seed: {"mnist/nll": value, "mnist/accuracy": 0.9} for seed, value in values.items()}
    return metrics_folder(root, by_seed, recipe=recipe, scores=scores, **changes)


def metrics_folder(root, by_seed, missing=None, recipe="published", scores=None, **changes):
    """Write a record for each seed, with these metrics."""
    store = Store(root)
    for seed, metrics in by_seed.items():
        made = record("mlp", recipe, "common", seed=seed, metrics=metrics, missing=missing or {}, **changes)
        store.write(made, scores)
    return store


def compared(capsys, tmp_path, *more):
    code = main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), *more, "--json"])
    return code, json.loads(capsys.readouterr().out)


def by_metric(found):
    return {row["metric"]: row for row in found["differences"]}


def test_a_worked_example(tmp_path, capsys):
    # differences .1, .2, .3: mean .2, sd .1, standard error .057735, t(2, .975) = 4.302653: half-width .248414;
    # t = 3.4641, two-sided p of t(2) is .074180; one hypothesis
    folder(tmp_path / "a", {0: 0.5, 1: 0.6, 2: 0.7})
    folder(tmp_path / "b", {0: 0.6, 1: 0.8, 2: 1.0})
    code, found = compared(capsys, tmp_path)
    row = by_metric(found)["mnist/nll"]
    assert code == 0
    assert row["difference"] == pytest.approx(0.2)
    assert row["half_width"] == pytest.approx(0.248414, abs=1e-6)
    assert row["p_adjusted"] == pytest.approx(0.074180, abs=1e-6)
    assert row["outcome"] == "no difference seen"
    assert by_metric(found)["mnist/accuracy"]["outcome"] == IDENTICAL
    assert by_metric(found)["mnist/accuracy"]["p_adjusted"] is None


def test_two_seeds_that_differ_by_the_same_have_no_spread_to_judge_by(tmp_path, capsys):
    """For shares of few images this is often chance, but t would be infinite and p zero."""
    folder(tmp_path / "a", {0: 0.99, 1: 1.0})
    folder(tmp_path / "b", {0: 0.97, 1: 0.98})
    row = by_metric(compared(capsys, tmp_path)[1])["mnist/nll"]
    assert (row["outcome"], row["p"], row["half_width"]) == (NO_SPREAD, None, None)


def test_the_same_folder_is_identical(tmp_path, capsys):
    folder(tmp_path / "a", {0: 0.5, 1: 0.6})
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "a")]) == 0
    text = capsys.readouterr().out
    assert "2 metrics, 2 of them identical in every seed" in text
    assert "differs" not in text


def test_what_only_one_has_is_told(tmp_path, capsys):
    folder(tmp_path / "a", {0: 0.5, 1: 0.6, 3: 0.1})
    folder(tmp_path / "b", {0: 0.5, 1: 0.7})
    folder(tmp_path / "b", {0: 0.5}, recipe="corrected")
    _, found = compared(capsys, tmp_path)
    assert found["only_a"] == ["mlp published x common, seed 3"]
    assert found["only_b"] == ["mlp corrected x common, seed 0"]
    assert by_metric(found)["mnist/nll"]["seeds"] == [0, 1]
    assert by_metric(found)["mnist/nll"]["n_equal"] == 1


def test_other_conditions_are_named(tmp_path, capsys):
    folder(tmp_path / "a", {0: 0.5, 1: 0.6})
    changed = {"cpu": "another", "threads": 1, "versions": {"torch": "9"}}
    folder(tmp_path / "b", {0: 0.5, 1: 0.6}, device="cuda", provenance=changed, timings={"batched": 2})
    _, found = compared(capsys, tmp_path)
    answer = " | ".join(found["conditions"])
    for words in (
        "device: cpu and cuda",
        "cpu differs in 2 of 2",
        "threads",
        "versions of packages differ: mxnet, python, torch",
    ):
        assert words in answer
    assert "trained together" in answer


def test_of_several_conditions_the_one_that_both_folders_have_is_taken_or_the_user_chooses(tmp_path, capsys):
    folder(tmp_path / "a", {0: 0.5, 1: 0.6})
    folder(tmp_path / "b", {0: 0.5, 1: 0.6})
    folder(tmp_path / "b", {0: 0.7, 1: 0.8}, precision="bf16", key="of-bf16")
    _, found = compared(capsys, tmp_path)
    assert by_metric(found)["mnist/nll"]["difference"] == 0
    _, found = compared(capsys, tmp_path, "--precision", "float32,bf16")
    assert by_metric(found)["mnist/nll"]["difference"] == pytest.approx(0.2)
    folders = [str(tmp_path / "a"), str(tmp_path / "b")]
    folder(tmp_path / "c", {0: 0.5}, profile="smoke", key="of-smoke")
    assert main(["compare", str(tmp_path / "c"), folders[1]]) == USAGE
    assert "A has smoke, cpu, float32; B has full, cpu, bf16; full, cpu, float32; choose" in capsys.readouterr().err
    folder(tmp_path / "a", {0: 0.7}, precision="bf16", key="of-bf16")
    assert main(["compare", *folders]) == USAGE
    assert "full, cpu, bf16; full, cpu, float32; choose with" in capsys.readouterr().err


def test_a_run_is_compared_with_the_shipped_records(tmp_path, capsys):
    """They have several profiles, and records without numbers of trained runs that the user has not."""
    shipped = Store(RESULTS).all_records()[0]
    (mine,) = (one for one in shipped if one.title == "uniform published x common, seed 0" and one.profile == "full")
    Store(tmp_path).write(mine)
    assert main(["compare", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert " identical in every seed" in said
    assert said.count("only in B: ") == 11
    assert said.splitlines()[-1].endswith(" more; --json lists all")


BOTH = {"mnist/nll": 0.5, "mnist/accuracy": 0.9}


def test_a_metric_that_one_seed_lacks_is_told(tmp_path, capsys):
    metrics_folder(tmp_path / "a", dict.fromkeys(range(3), BOTH))
    metrics_folder(tmp_path / "b", {0: BOTH, 1: {**BOTH, "mnist/nll": None}, 2: {"mnist/accuracy": 0.9}})
    code, found = compared(capsys, tmp_path)
    assert (code, list(by_metric(found))) == (INCOMPLETE, ["mnist/accuracy"])
    lack = {"trained_run": ["mlp", "published", "common"], "metric": "mnist/nll", "side": "B"}
    assert found["not_compared"] == [
        {**lack, "seeds": [1], "reason": "the measured 'mnist/nll' is not a finite number"},
        {**lack, "seeds": [2], "reason": "the record has no 'mnist/nll'"},
    ]
    for form in ("text", "md"):
        assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--format", form]) == INCOMPLETE
        text = capsys.readouterr().out
        assert "mlp/published/common mnist/nll: B, seed 2: the record has no 'mnist/nll'" in text
        assert "not compared" in text.lower()


LOSS = {"epochs": [{"epoch": 1, "mnist/train60k/train_loss": 0.2}]}


@pytest.mark.parametrize(
    ("only_a", "metrics_b", "missing", "lacks"),
    [
        (
            {},
            {"mnist/accuracy": 0.9, "mnist/ece": 0.1},
            {"mnist/nll": "no probabilities"},
            [("mnist/nll", "B", "no probabilities"), ("mnist/ece", "A", "the record has no 'mnist/ece'")],
        ),
        (LOSS, BOTH, {}, [("last epoch/mnist/train60k/train_loss", "B", "the record has no epochs")]),
        (
            {},
            dict.fromkeys(BOTH),
            {},
            [(key, "B", f"the measured '{key}' is not a finite number") for key in ("mnist/accuracy", "mnist/nll")],
        ),
    ],
    ids=["another metric", "an entry of the trace", "nothing in common"],
)
def test_what_only_one_side_has_is_told_with_the_records_reason(tmp_path, capsys, only_a, metrics_b, missing, lacks):
    metrics_folder(tmp_path / "a", dict.fromkeys(range(2), BOTH), **only_a)
    metrics_folder(tmp_path / "b", dict.fromkeys(range(2), metrics_b), missing)
    code, found = compared(capsys, tmp_path)
    assert code == INCOMPLETE
    assert {lack["metric"] for lack in found["differences"]} == set(BOTH) - {metric for metric, *_ in lacks}
    said = [(lack["metric"], lack["side"], lack["reason"]) for lack in found["not_compared"]]
    assert (said, {tuple(lack["seeds"]) for lack in found["not_compared"]}) == (lacks, {(0, 1)})


def test_what_neither_side_has_or_nobody_asked_for_is_not_missed(tmp_path, capsys):
    reasons = {"mnist/draw_accuracy_std": "one network", "notmnist459": "it is not there"}
    numbers = {**BOTH, "mnist/ece": None}  # no number in any record
    metrics_folder(tmp_path / "a", {0: {**numbers, "mnist/brier": 0.1}, 1: numbers}, missing=reasons)
    metrics_folder(tmp_path / "b", {0: numbers, 1: numbers}, missing=reasons)
    code, found = compared(capsys, tmp_path)  # the Brier score is none of the main metrics
    assert (code, found["not_compared"], len(found["differences"])) == (0, [], 2)
    code, found = compared(capsys, tmp_path, "--metric", "*")
    lacks = [(lack["metric"], lack["side"], lack["seeds"]) for lack in found["not_compared"]]
    assert (code, lacks) == (INCOMPLETE, [("mnist/brier", "A", [1]), ("mnist/brier", "B", [0, 1])])


def test_other_profiles_say_which_amounts_are_not_the_same(tmp_path, capsys):
    folder(tmp_path / "a", {0: 0.5, 1: 0.6}, profile="epoch1")
    folder(tmp_path / "b", {0: 0.5, 1: 0.6})
    _, found = compared(capsys, tmp_path)
    answer = " | ".join(found["conditions"])
    assert "profile: epoch1 and full" in answer
    assert (
        "epochs 1 and all, draws of the common protocol 30 and 100, rows of the common protocol 2,000 and all" in answer
    )


def test_unfinished_records_are_a_problem(tmp_path, capsys):
    folder(tmp_path / "a", {0: 0.5, 1: 0.6})
    store = folder(tmp_path / "b", {0: 0.5})
    store.write(record("mlp", "published", "common", seed=1, outcome="failed", reason="out of memory"))
    code, found = compared(capsys, tmp_path)
    assert code == INCOMPLETE
    assert "out of memory" in found["problems"][0]
    store.write(record("linear_bbb", "published", "common", outcome="failed", reason="no such file"))
    assert len(compared(capsys, tmp_path)[1]["problems"]) == 1  # A has nothing of linear_bbb


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "nowhere"], "not a folder"),
        (["a", "empty"], "folder B has no record that fits; empty has 0 records in all"),
        (["a", "other"], "in common"),
        (["a", "a", "--metric", "mnist/nlll"], "no common metric"),
        (["a", "a", "--profile", "x,y,z"], "has 3 values"),
        (["a", "other", "--verify"], "B does not apply to --verify"),
    ],
)
def test_nonsense_is_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    folder(tmp_path / "a", {0: 0.5})
    folder(tmp_path / "other", {7: 0.5})
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *arguments]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def predictions(label, right):
    return {"mnist/label": label, "mnist/predicted": np.where(right, label, (label + 1) % 10)}


def test_one_seed_is_compared_over_rows(tmp_path, capsys):
    # 10 rows that only B has right, 2 that only A has: difference 8/100, variance .12 - .0064, half-width
    # 1.96 sqrt(.1136/100) = .06606; exact McNemar: 2 (1 + 12 + 66) / 2^12 = .038574
    label = np.arange(100, dtype=np.int8) % 10
    right_a, right_b = np.ones(100, bool), np.ones(100, bool)
    right_a[:10] = False
    right_b[10:12] = False
    right_a[50:60] = right_b[50:60] = False
    folder(tmp_path / "a", {0: 0.5}, scores=predictions(label, right_a))
    folder(tmp_path / "b", {0: 0.6}, scores=predictions(label, right_b))
    _, found = compared(capsys, tmp_path)
    (row,) = found["rows"]
    assert (row["only_a"], row["only_b"], row["n_rows"]) == (2, 10, 100)
    assert row["accuracy_difference"] == pytest.approx(0.08)
    assert row["half_width"] == pytest.approx(0.06606, abs=1e-5)
    assert row["p"] == pytest.approx(0.038574, abs=1e-6)
    assert by_metric(found)["mnist/nll"]["outcome"] == ONE_SEED
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--format", "md"]) == 0
    assert "| mlp/published/common | 0" in capsys.readouterr().out


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_swapping_the_sides_turns_the_sign(rights):
    label = np.zeros(len(rights), dtype=np.int8)
    a, b = (predictions(label, np.array(side)) for side in zip(*rights, strict=True))
    one, other = row_test(("c", "r", "p"), 0, a, b), row_test(("c", "r", "p"), 0, b, a)
    assert one.accuracy_difference == -other.accuracy_difference
    assert (one.p, one.half_width) == (other.p, other.half_width)
    # the plain way: standard error of the mean of the differences in -1, 0, 1
    steps = np.array([int(right_b) - int(right_a) for right_a, right_b in rights])
    assert one.half_width == pytest.approx(1.959964 * steps.std() / math.sqrt(len(steps)), abs=1e-9)


def test_other_rows_are_not_compared():
    label = np.zeros(5, dtype=np.int8)
    right = np.ones(5, bool)
    assert row_test(("c", "r", "p"), 0, predictions(label, right), predictions(label + 1, right)) is None
    assert row_test(("c", "r", "p"), 0, predictions(label, right), {}) is None


def test_rows_of_clothes_are_compared_where_clothes_are_learnt():
    """There the digits are out of distribution, so they have no labels."""
    label, none = np.zeros(5, dtype=np.int8), np.full(5, -1, dtype=np.int8)
    sides = [
        {
            "fashion_mnist/label": label,
            "fashion_mnist/predicted": np.array([wrong] * 5, dtype=np.int8),
            **predictions(none, np.zeros(5, bool)),
        }
        for wrong in (0, 1)
    ]
    assert row_test(("c", "r", "p"), 0, *sides, inside="fashion_mnist").only_a == 5
    assert row_test(("c", "r", "p"), 0, *sides).only_a == 0
