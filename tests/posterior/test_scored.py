"""Models that are trained already, scored on a task: by a function, by a file, and what is refused."""

import re

import numpy as np
import pytest
import torch

import bench
from bench.cli.main import main
from bench.posterior import columns, tasks
from tests.close import close

TASKS = tasks.all_tasks()


def test_a_scored_model_stands_beside_the_shipped_methods_by_function_and_by_file(tmp_path, capsys):
    pytest.importorskip("sklearn")

    def predict(x):
        return torch.from_numpy(x[:, 20:30]).double().softmax(1).numpy()

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
