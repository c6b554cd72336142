"""Approaches from outside, by path and by entry point. A broken one is listed and does not affect the others."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import pytest

from bench.cli import FAILED, INCOMPLETE, USAGE
from bench.cli.main import main
from bench.core.errors import BrokenApproach
from bench.judge.audit.check import approaches_of
from bench.plan import plugins, registry
from bench.plan.registry import broken, load_class, manifests
from bench.plan.source_code import source_files
from bench.plan.trained_runs import Selection, trained_runs

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


pytestmark = pytest.mark.usefixtures("own_approaches")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the example under the name `mine`, on the path."""
    place = tmp_path / "approaches"
    place.mkdir()
    for suffix in (".py", ".toml"):
        shutil.copy(EXAMPLES / f"my_dropout{suffix}", place / f"mine{suffix}")
    monkeypatch.setenv(plugins.VARIABLE, str(place))
    return place


def put(folder, name, code="", manifest=None):
    text = (EXAMPLES / "my_dropout.toml").read_text() if manifest is None else manifest
    (folder / f"{name}.toml").write_text(text)
    (folder / f"{name}.py").write_text(textwrap.dedent(code))


def test_an_approach_by_path_is_one_of_them(folder):
    assert list(manifests())[-1] == "mine"
    assert load_class("mine").__name__ == "McDropout"
    assert source_files("mine") == [folder / "mine.py"]
    assert not broken()


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed")
def test_an_ordinary_script_may_import_torchvision_which_a_torch_without_cuda_cannot(folder):
    code = (
        (folder / "mine.py")
        .read_text()
        .replace("import torch\n", "import torch\nfrom torchvision import datasets\n", 1)
    )
    (folder / "mine.py").write_text(code)
    loads = "from bench.plan.registry import load_class; print(load_class('mine').__name__)"
    alone = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=False)
    assert (alone.stdout, alone.stderr) == ("McDropout\n", "")


def test_two_folders_may_have_files_of_one_name_beside_them(folder, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    for place, number in ((folder, 1), (other, 2)):
        (place / "_helper.py").write_text(f"NUMBER = {number}\n")
    code = "from ._helper import NUMBER\nfrom bench.interface import Approach\n"
    code += "class McDropout(Approach): number = NUMBER\n"
    put(folder, "one", code)
    put(other, "two", code)
    monkeypatch.setenv(plugins.VARIABLE, os.pathsep.join([str(folder), str(other)]))
    assert (load_class("one").number, load_class("two").number) == (1, 2)
    assert source_files("two") == [other / "_helper.py", other / "two.py"]
    assert "_helper" not in sys.modules


def test_the_code_of_an_approach_includes_its_packages_and_what_they_import(folder):
    parts, rates = folder / "parts" / "__init__.py", folder / "parts" / "rates.py"
    parts.parent.mkdir()
    parts.write_text("from .rates import RATE\nfrom .... import beyond\n")
    rates.write_text("RATE = 0.5\n")
    put(
        folder,
        "mine",
        "from .parts import RATE\nfrom bench.interface import Approach\nclass McDropout(Approach): pass\n",
    )
    assert source_files("mine") == [folder / "mine.py", parts, rates]


BROKEN = {
    "no_import": ("import no_such_module", None, "No module named 'no_such_module' (no_import.py:1)"),
    "no_syntax": ("def", None, "no_syntax.py:1"),
    "exits": ("raise SystemExit(3)", None, "SystemExit: 3"),
    "no_class": ("class Other: ...", None, "lacks as a subclass of Approach"),
    "no_toml": ("", "title = ", "cannot be read"),
    "no_key": ("", 'title = "x"', "'class' is missing"),
    "no_recipe": (
        "",
        'title="x"\nclass="X"\ntask="mnist"\nnoise="row"\n[recipes.other]\nsplit="train60k"',
        "published",
    ),
    "linear_bbb": ("", None, "the name is taken by an approach of this suite"),
    "no-name": ("", None, "no Python name"),
}


def test_broken_ones_are_listed_with_their_errors_and_harm_no_other(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    for name, (code, manifest, _) in BROKEN.items():
        put(folder, name, code, manifest)
    assert main(["list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    for name, (_, _, message) in BROKEN.items():
        line = [line for line in listed if line.startswith(f"{name}: ")][-1]
        assert message in line
        assert "runs here: no: " in line
    assert main(["plan", "--all", "--profile", "smoke", "--results", str(folder)]) == 0
    assert "mine published x common" in capsys.readouterr().out


def test_asking_for_a_broken_one_says_why(folder, capsys):
    put(folder, "bad", "", "title = ")
    assert main(["plan", "bad", "--results", str(folder)]) == USAGE
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "bad" in error
    assert "cannot be read" in error
    put(folder, "worse", "1 / 0")
    registry._look.cache_clear()
    with pytest.raises(BrokenApproach, match=r"ZeroDivisionError.*worse\.py:1"):
        load_class("worse")


def test_a_run_of_a_name_that_is_taken_ends_before_any_training(folder, tmp_path, capsys):
    """The user may mean either approach; the one of the suite would train for minutes."""
    put(folder, "linear_bbb")
    results = tmp_path / "results"
    assert main(["run", "linear_bbb", "--profile", "smoke", "--results", str(results)]) == USAGE
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "the name is taken by an approach of this suite; rename both files" in error
    assert not results.exists()
    assert main(["plan", "mlp", "--profile", "smoke", "--results", str(results)]) == 0  # harms no other


@pytest.mark.parametrize(("default", "rate"), [("0.5", 0.5), ("1 / LIMIT", None)])
def test_without_its_framework_it_has_the_values_in_its_text(folder, default, rate):
    """Where a default is no constant, only the values of the recipe are known."""
    manifest = (EXAMPLES / "my_dropout.toml").read_text().replace("title", 'requires = ["not_there"]\ntitle', 1)
    code = f"from bench.interface import Approach\nclass McDropout(Approach):\n    rate: float = {default}"
    put(folder, "mine", code, manifest)
    (trained_run,) = trained_runs(Selection(approaches=("mine",), recipes=("published",), protocols=("common",)))
    assert trained_run.skip.kind == "no-framework"
    assert trained_run.values.get("rate") == rate


def test_places_that_hold_nothing_are_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    unusable = tmp_path / f"{'x' * 300}.py"  # no system can look at a name of this length
    places = (tmp_path / "empty", tmp_path / "nowhere", unusable)
    monkeypatch.setenv(plugins.VARIABLE, os.pathsep.join(map(str, places)))
    assert [each.name for each in broken()] == ["empty", "nowhere", unusable.stem]
    assert main(["list", "--approach-path", str(tmp_path / "gone")]) == USAGE
    assert "is not a folder" in capsys.readouterr().err


def test_an_entry_point_registers_a_package(tmp_path, monkeypatch):
    package = tmp_path / "their_package" / "approaches"
    package.mkdir(parents=True)
    for file in (package.parent / "__init__.py", package / "__init__.py"):
        file.write_text("")
    for suffix in (".py", ".toml"):
        shutil.copy(EXAMPLES / f"my_dropout{suffix}", package / f"theirs{suffix}")
    for name, code in {"their_bad": "1 / 0", "their_end": "raise SystemExit('all ends here')"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(code)
    values = {"theirs": "their_package.approaches", "gone": "no_such_package", "bad": "their_bad.approaches"}
    values["end"] = "their_end.approaches"
    points = [metadata.EntryPoint(name, value, plugins.GROUP) for name, value in values.items()]
    monkeypatch.setattr(plugins.metadata, "entry_points", lambda group: points if group == plugins.GROUP else [])
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_class("theirs").__module__ == "their_package.approaches.theirs"
    assert source_files("theirs") == [package / "theirs.py"]
    found = {each.name: each.error for each in broken()}
    assert "no_such_package is no package" in found["gone"]
    assert "ZeroDivisionError" in found["bad"]
    assert "all ends here" in found["end"]


@pytest.mark.parametrize("package", ["no_such_package", "implementations"])
def test_an_entry_point_is_not_audited_in_the_place_of_a_file(folder, monkeypatch, package):
    monkeypatch.setenv(plugins.VARIABLE, "")
    point = metadata.EntryPoint("theirs", package, plugins.GROUP)
    monkeypatch.setattr(plugins.metadata, "entry_points", lambda group: [point])
    assert approaches_of(str(folder / "mine.py")) == ["mine"]


def test_run_trains_it_in_a_process_of_its_own(folder, tmp_path, capsys, monkeypatch):
    results = tmp_path / "results"
    monkeypatch.setenv(plugins.VARIABLE, "")
    arguments = ["mine", "--approach-path", str(folder), "--profile", "smoke", "--results", str(results)]
    assert main(["run", *arguments, "--threads", "1", "--quiet"]) == 0
    assert main(["status", *arguments]) == 0
    (record,) = (json.loads(path.read_text()) for path in (results / "records" / "mine").glob("*.json"))
    assert record["outcome"] == "done"
    assert record["versions"]["recipe"] == {"published": 1}
    (folder / "mine.py").write_text((folder / "mine.py").read_text() + "\n# changed\n")
    assert main(["status", *arguments]) == 0
    manifest = folder / "mine.toml"
    manifest.write_text(manifest.read_text().replace("version = 1", "version = 2"))
    registry._look.cache_clear()
    capsys.readouterr()
    main(["status", *arguments])
    assert "made at other versions" in capsys.readouterr().out
    monkeypatch.setenv(plugins.VARIABLE, "")
    assert main(["table", "accuracy", "--profile", "smoke", "--results", str(results)]) == 0  # its record stays


def test_one_that_cannot_be_imported_ends_as_a_skipped_record(folder, tmp_path, capsys):
    put(folder, "bad", "import no_such_module")
    place = str(tmp_path / "results")
    assert (
        main(["run", "bad", "uniform", "--profile", "smoke", "--results", place, "--executor", "inline"]) == INCOMPLETE
    )
    captured = capsys.readouterr()
    assert "skipped: bad" in captured.err
    assert "1 of 2 trained runs done" in captured.out


@pytest.mark.parametrize("name", ["my_dropout", "conv_net"])
def test_the_examples_pass_every_check(name, capsys):
    assert main(["audit", str(EXAMPLES / f"{name}.py"), "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert {line["outcome"] for line in lines} <= {"passed", "not applicable", "not measured"}
    assert {line["part"] for line in lines} == {"contract", "audit"}
    assert all(line["detail"] for line in lines)


def test_the_example_is_short():
    assert len((EXAMPLES / "my_dropout.py").read_text().splitlines()) < 100


MISTAKES = {
    "global generator": (
        'order = torch.randperm(len(train), generator=ctx.generator("shuffle", epoch))',
        "order = torch.randperm(len(train))",
        {"seed-repeats", "global-state"},
    ),
    "no log-softmax": (
        'return torch.log_softmax(hidden @ w["w2"] + w["b2"], 1)',
        'return hidden @ w["w2"] + w["b2"]',
        {"prediction-shape", "unnormalised-probabilities"},
    ),
    "noise named by place": (
        "row_noise(self._seed, draw, rows,",
        "row_noise(self._seed, draw, torch.arange(len(x)),",
        {"blocks-do-not-matter"},
    ),
    "arrays raises": (
        "def arrays(self) -> Mapping[str, Tensor]:\n",
        "def arrays(self) -> Mapping[str, Tensor]:\n        1 / 0\n",
        {"rebuild"},
    ),
    "fit raises": ("start = self._start(", "1 / 0; start = self._start(", {"fit"}),
    "epoch not reported": ("ctx.epoch_end(epoch, trace,", "(lambda *given: None)(epoch, trace,", {"epochs-reported"}),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found_and_explained(mistake, folder, capsys):
    right, wrong, names = MISTAKES[mistake]
    code = (folder / "mine.py").read_text()
    assert right in code
    (folder / "mine.py").write_text(code.replace(right, wrong))
    assert main(["audit", "mine", "--json"]) == FAILED
    lines = json.loads(capsys.readouterr().out)
    failed = {line["name"]: line for line in lines if line["outcome"] == "failed"}
    assert names <= set(failed)
    assert mistake != "fit raises" or names == {line["name"] for line in lines}  # one failure, not one of each check
    assert all(line["remedy"] for line in failed.values())
    if mistake.endswith("raises"):
        (detail,) = (failed[name]["detail"] for name in names)
        assert "ZeroDivisionError" in detail
        assert "mine.py:" in detail


@pytest.mark.parametrize("given", ["nonsense", "nowhere/none.py", "."])
def test_nothing_to_check_is_one_line(given, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["audit", given]) == USAGE
    assert capsys.readouterr().err.count("\n") == 1
