"""An approach with its own Python: it is planned and fitted there, and has the same numbers as here."""

import sys

import msgspec
import pytest
from msgspec import structs

import bench.plan.registry
from bench.cli.main import main
from bench.core.errors import FitCrashed
from bench.core.reasons import in_words
from bench.core.store import Store
from bench.plan.cells import Selection, cells
from bench.plan.registry import manifests
from bench.run.jobs import plan_job
from bench.run.remote.interpreters import VARIABLE, interpreters, with_their_cells
from bench.run.supervisor import supervise
from tests.run.watching import interpreter

PUBLISHED = ("--profile", "smoke", "--recipe", "published", "--quiet")


def other(folder, *lines):
    """Return another interpreter: this one, started after `lines` of shell."""
    return interpreter(folder, "\n".join([*lines, f'exec {sys.executable} "$@"']))


def lacking(folder, *packages):
    """Return an interpreter without some packages."""
    text = "import sys\n" + "".join(f"sys.modules[{name!r}] = None\n" for name in packages)
    (folder / "sitecustomize.py").write_text(text)
    return other(folder, f'PYTHONPATH="{folder}:$PYTHONPATH"; export PYTHONPATH')


def test_the_option_goes_before_the_variable(tmp_path, monkeypatch):
    program = other(tmp_path)
    assert interpreters([]) == {}
    monkeypatch.setenv(VARIABLE, f"mlp=/bin/sh:uniform={program}")
    assert interpreters([f"mlp={program}"]) == {"mlp": program, "uniform": program}


def test_a_framework_that_is_missing_here_is_used_there(tmp_path, monkeypatch, capsys):
    """The same fit in both interpreters; for the second, this process believes that the framework is missing."""
    arguments = ["run", "toy_mlp", *PUBLISHED, "--threads", "1", "--results"]
    assert main([*arguments, str(tmp_path / "here"), "--executor", "inline"]) == 0
    entry = manifests()["toy_mlp"]
    without = {**manifests(), "toy_mlp": structs.replace(entry, requires=("not_there",), extra="pyro")}
    monkeypatch.setattr(bench.plan.registry, "manifests", lambda: without)
    assert main([*arguments, str(tmp_path / "skipped"), "--executor", "inline"]) == 3
    (reason,) = {in_words(record.reason) for record in Store(tmp_path / "skipped").all_records()[0]}
    assert "pip install 'bnn-uncertainty-bench[pyro]'" in reason
    monkeypatch.setenv(VARIABLE, f"toy_mlp={other(tmp_path)}")
    assert main([*arguments, str(tmp_path / "there")]) == 0
    here, there = (Store(tmp_path / name).all_records()[0] for name in ("here", "there"))
    assert [(record.key, record.metrics) for record in here] == [(record.key, record.metrics) for record in there]
    assert "wiring fine: 2 of 2" in capsys.readouterr().out


def test_a_framework_that_is_missing_there_is_the_reason(tmp_path):
    selection = Selection(approaches=("uniform", "pyro_random_module"), recipes=("published",), profile="smoke")
    python = lacking(tmp_path, "pyro")
    found = with_their_cells(cells(selection), selection, {"pyro_random_module": python})
    assert [cell.approach for cell in found] == [cell.approach for cell in cells(selection)]
    assert [bool(cell.skip) for cell in found] == [cell.approach != "uniform" for cell in found]
    assert "needs pyro" in in_words(found[-1].skip)


def test_an_interpreter_with_another_harness_is_refused():
    job = msgspec.structs.replace(plan_job(Selection(approaches=("uniform",))), harness="0")
    with pytest.raises(FitCrashed, match="another version"):
        list(supervise(job, sys.executable))
