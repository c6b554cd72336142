"""An approach of one's own: `new` starts one, and a script becomes one."""

import argparse
import dataclasses
import errno
import json
import re
import runpy
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

import bench
from bench.cli import FAILED, USAGE
from bench.cli.ending import ending
from bench.cli.main import main
from bench.core.project import OWN
from bench.plan import plugins
from bench.run.runner import Result
from tests.cli.test_approach_tools import some_rows, whole_epochs
from tests.run.toys import chosen

TOP = Path(__file__).resolve().parents[2]
MOST_CHANGED = 30  # lines, so that a script becomes an approach in minutes


pytestmark = pytest.mark.usefixtures("own_approaches")


def test_a_new_approach_passes_every_check_and_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "my_cnn", "--to", "mine here"]) == 0
    assert sorted(path.name for path in Path("mine here").iterdir()) == ["my_cnn.py", "my_cnn.toml"]
    _, audit, run = capsys.readouterr().out.splitlines()
    assert audit == "    python -m bench audit 'mine here/my_cnn.py'"
    assert main(["audit", "mine here/my_cnn.py"]) == 0
    capsys.readouterr()
    assert "run my_cnn --approach-path 'mine here' --profile smoke --results my-try" in run
    how = ["--approach-path", "mine here", "--profile", "smoke", "--results", "my-try", "--executor", "inline"]
    assert main(["run", "my_cnn", *how, "--quiet"]) == 0
    assert "wiring fine: 1 of 1" in capsys.readouterr().out


def test_one_cause_of_many_failures_is_told_once_and_what_the_code_prints_is_no_part_of_the_report(tmp_path, capsys):
    assert main(["new", "my_cnn", "--to", str(tmp_path)]) == 0
    path = tmp_path / "my_cnn.py"
    code = (
        path.read_text()
        .replace("            nn.Dropout(0.25),\n", "")
        .replace("total = 0.0", "total = print('hello') or 0.0")
    )
    path.write_text(code.replace("loss.item()", "loss"))  # a tensor with a gradient is a number, too
    capsys.readouterr()
    assert main(["audit", str(path)]) == FAILED
    answer = capsys.readouterr()
    assert answer.out.count("give it one, or set noise") == 1
    assert (
        answer.out.count("  as above") == answer.out.count("\nfailed") > 1
    )  # the first says it, a last is not measured
    assert "asked:" not in answer.out
    assert "to do:" not in answer.out
    assert "hello" in answer.err
    assert "hello" not in answer.out
    assert main(["audit", str(path), "--json"]) == FAILED
    assert {line["detail"] for line in json.loads(capsys.readouterr().out) if line["outcome"] == "failed"} == {
        'the network has no nn.Dropout (F.dropout is not seen): give it one, or set noise = "none"'
    }


@pytest.mark.parametrize("there", ["my_cnn.py", "my_cnn.toml"])
def test_a_file_that_is_there_is_never_overwritten(there, tmp_path, capsys):
    (tmp_path / there).write_text("my work")
    assert main(["new", "my_cnn", "--to", str(tmp_path)]) == USAGE
    assert f"{there} is there already; give another name" in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["my work"]


def test_a_full_disk_leaves_no_half_of_an_approach(tmp_path, monkeypatch):
    files, read = [], Path.read_text

    def full(path, **how):
        files.extend(tmp_path.iterdir())
        if path.suffix == ".toml":
            raise OSError(errno.ENOSPC, "No space left on device")
        return read(path, **how)

    monkeypatch.setattr(Path, "read_text", full)
    assert main(["new", "my_cnn", "--to", str(tmp_path)]) != 0
    assert files  # the first was there
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    assert main(["new", "my_cnn", "--to", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mlp", "is an approach of this suite"),
        ("torch", "would hide Python's module torch"),
        ("wave", "would hide Python's module wave"),
        *((name, "cannot name an approach") for name in ("", "My", "a-b", "a b", "2x", "_x", "../x", "é", "class")),
        ("x\ny", "'x y' cannot name an approach"),
        ("x" * 51, "at most 50"),
    ],
)
def test_a_name_that_cannot_be_used_is_one_line(name, reason, tmp_path, capsys):
    assert main(["new", name, "--to", str(tmp_path / "to")]) == USAGE
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert reason in error
    assert not (tmp_path / "to").exists()


def test_the_documented_change_makes_an_approach_of_the_script(tmp_path):
    page = (TOP / "docs" / "your-approach.md").read_text(encoding="utf-8")
    (diff,) = re.findall(r"^```diff\n@@\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert 0 < len(re.findall(r"^[+-]", diff, re.MULTILINE)) <= MOST_CHANGED
    code = (TOP / "examples" / "mnist_script.py").read_text(encoding="utf-8")
    for hunk in diff.split("@@\n"):
        lines = [(line[:1], line[1:]) for line in hunk.splitlines()]
        old, new = ("".join(f"{text}\n" for sign, text in lines if sign != left_out) for left_out in "+-")
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    (tmp_path / "my_cnn.py").write_text(code, encoding="utf-8")
    shutil.copy(TOP / "examples" / "conv_net.toml", tmp_path / "my_cnn.toml")
    manifest = (tmp_path / "my_cnn.toml").read_text().replace('class = "ConvNet"', 'class = "MyCnn"')
    (tmp_path / "my_cnn.toml").write_text(manifest)
    assert main(["audit", str(tmp_path / "my_cnn.py")]) == 0
    net, batches = nn.Linear(6, 3), bench.loader(some_rows(), 16, whole_epochs(2), 1)
    losses = [nn.functional.cross_entropy(net(x), y).item() for x, y in batches]
    still = torch.optim.SGD(net.parameters(), lr=0.0)
    found = runpy.run_path(str(tmp_path / "my_cnn.py"))["train"](net, batches, still, 1)
    assert found == sum(losses) / 2  # of the batches that a short profile trains on, not of all rows


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, "table choice (row mine: my_dropout)"),
        ({"approach_path": "my own"}, "table choice --approach-path 'my own' (row mine: my_dropout)"),
        ({"profile": "epoch1"}, "table choice --profile epoch1 (row my_dropout)"),  # no shipped records beside it
        ({"protocol": "shift"}, "verdict"),  # not in the table
        ({"approach": "mlp"}, "verdict"),
    ],
)
def test_the_end_names_the_row_of_an_approach_of_ones_own(changes, shown, monkeypatch):
    monkeypatch.setenv(plugins.VARIABLE, str(TOP / "examples"))
    of_run = {name: value for name, value in changes.items() if name != "approach_path"}
    made = dataclasses.replace(chosen("mlp")[0], **{"approach": "my_dropout", "protocol": "common", **of_run})
    given = argparse.Namespace(
        profile=made.profile, approach_path=changes.get("approach_path"), results=OWN, device="cpu", precision="float32"
    )
    last = ending([Result(made, "done", "", was_there=False)], 1, given)[-1].plain
    assert last == f"next: python -m bench {shown}"
