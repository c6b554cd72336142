"""Today's code gives the stored golden traces, and what is read from the text of approaches.

Code that gives other numbers needs new versions (docs/freshness.md).
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import structs

from bench.core.canonical import plain
from bench.core.errors import ConfigError
from bench.core.project import RESULTS, TOP
from bench.core.store import Store
from bench.plan import source_code
from bench.plan.recipes import build, profile, recipe_names, resolve, values_of
from bench.plan.registry import manifest, manifests
from bench.plan.source_code import source_files
from bench.plan.trained_runs import Selection, trained_runs
from tests.golden import fits, stored
from tests.golden.__main__ import main
from tests.golden.plants import ENOUGH, PLANTS, deviation
from tests.golden.stored import missing_framework, paths, subjects


def _cases():
    return [pytest.param(name, path, id=f"{name}-{path}") for name in subjects() for path in paths(name)]


def skip_without_framework(subject):
    """Skip where an optional library is not installed: MXNet, or one of the extra `libraries`; the reason names it."""
    if without := missing_framework(subject):
        pytest.skip(without)


@pytest.mark.parametrize(("subject", "path"), _cases())
def test_todays_code_gives_the_stored_trace(subject, path):
    skip_without_framework(subject)
    assert stored.compare(subject, path) == []


@pytest.mark.parametrize("subject", subjects())
def test_every_path_of_every_recipe_is_stored_and_no_other(subject):
    assert stored.missing(subject) == []


@pytest.mark.parametrize("name", manifests())
def test_our_manifests_state_their_versions(name):
    text = (TOP / "implementations" / f"{name}.toml").read_text()
    assert text.count("\nversion = ") >= len(manifest(name).recipes)


def test_only_a_metric_that_no_stored_trace_has_is_left_out(monkeypatch):
    """A new metric changes no stored file; a known metric under a new name is a difference."""
    monkeypatch.setattr(stored, "new_metrics", lambda: ["skill"])
    numbers = {"mnist/skill": 1.0, "mnist/skill@0.5": 1.0, "mnist/no_skill": 1.0, "letters/accuracy": 1.0}
    assert stored.without_new_metrics(numbers).keys() == {"mnist/no_skill", "letters/accuracy"}


@pytest.fixture
def fits_anew():
    """Forget all fits before a change is planted and after it."""
    fits.fitted.cache_clear()
    yield
    fits.fitted.cache_clear()


PLANTED = {
    "Adam's beta2 is .998": ("linear_bbb", "mlp", "toy_bbb"),
    "stream shuffle is renamed": ("mlp", "blundell_sgd"),
    "KL / (M + 1)": ("linear_bbb", "mxnet_bbb", "blundell_bbb"),
    "dropout .01 less": ("dropout_fcn", "mc_dropout"),
    "learning rate x 1.000001": ("mlp", "toy_mlp", "mxnet_bbb"),
    "prior sd x 1.0001": ("linear_bbb", "mxnet_bbb"),
    "one bias is missing in the KL": ("linear_bbb", "blundell_bbb"),
    "batches of 127": ("mlp",),
    "two rows are swapped": ("dropout_fcn", "pyro_random_module"),
}
"""Some of the trainings that each change reaches; `python -m tests.golden --plants` plants it in all of them."""


def golden(monkeypatch, *words):
    """Run `python -m tests.golden` in this process and return its exit code."""
    monkeypatch.chdir(TOP)
    monkeypatch.setattr("sys.argv", ["golden", *words])
    return main()


@pytest.mark.parametrize(("what", "subject"), [(what, name) for what in PLANTS for name in PLANTED[what]])
def test_a_planted_change_moves_a_trace_a_thousand_tolerances(what, subject, fits_anew):
    skip_without_framework(subject)
    assert deviation(what, subject, "published") > ENOUGH


def test_the_check_says_what_deviates(monkeypatch, fits_anew, capsys):
    with PLANTS["learning rate x 1.000001"][0]():
        assert golden(monkeypatch, "--check", "toy_mlp", "--path", "published/single") == 1
    assert "deviates by" in capsys.readouterr().out


def test_a_trace_is_replaced_only_with_a_new_version(tmp_path, monkeypatch, fits_anew, capsys):
    """Without a raised version, `--write` refuses. With it, the check names the versions that differ, until `--write`.

    A number that the stored file lacks is added without a new version.
    """
    monkeypatch.setattr(stored, "FILE", Path(shutil.copy(stored.FILE, tmp_path)))
    before, traces = stored.read("toy_bbb"), stored.read("toy_bbb")
    traces["published/single"]["numbers"].popitem()
    stored.store("toy_bbb", traces)
    assert golden(monkeypatch, "--check", "toy_bbb", "--path", "published/single") == 1
    assert golden(monkeypatch, "--write", "toy_bbb") == 0
    capsys.readouterr()
    assert stored.read("toy_bbb")["published/single"]["numbers"].keys() == before["published/single"]["numbers"].keys()
    before = stored.FILE.read_text()
    whole = fits.build
    monkeypatch.setattr(fits, "build", lambda *given: dataclasses.replace(whole(*given), noise_std=0.11))
    assert golden(monkeypatch, "--write", "toy_bbb") == 1
    assert "Raise the version" in capsys.readouterr().err
    assert stored.FILE.read_text() == before
    entry = manifest("toy_bbb")
    raised = {name: structs.replace(spec, version=spec.version + 1) for name, spec in entry.recipes.items()}
    monkeypatch.setitem(manifests(), "toy_bbb", structs.replace(entry, recipes=raised))
    assert golden(monkeypatch, "--check", "toy_bbb", "--path", "published/single") == 1
    assert "versions" in capsys.readouterr().out
    assert golden(monkeypatch, "--write", "toy_bbb") == 0
    assert golden(monkeypatch, "--check", "toy_bbb") == 0


STATES = """
import json, sys
from pathlib import Path
from bench.plan.freshness import why_stale
from bench.plan.trained_runs import Selection, trained_runs
from bench.core.store import Store

found = {record.key: why_stale(record) for record in Store(Path(sys.argv[1])).all_records()[0]}
keys = [run.key for run in trained_runs(Selection(approaches=("linear_bbb", "mlp"), profile="smoke"))]
print(json.dumps([found, keys]))
"""


def states_by(folder):
    """Return why each of our records is stale, and today's keys, by the code in a folder."""
    here = {**os.environ, "PYTHONPATH": str(folder), "BNN_BENCH_DATA": str(TOP / "datasets")}
    command = [sys.executable, "-c", STATES, str(TOP / "results")]
    return json.loads(subprocess.run(command, cwd=folder, env=here, capture_output=True, check=True).stdout)


def test_an_edit_that_changes_no_number_leaves_every_record_fresh(tmp_path):
    """A docstring, the name of a function and the file of a module may change: records do not depend on them."""
    before = states_by(TOP)
    for folder in ("bench", "implementations"):
        shutil.copytree(TOP / folder, tmp_path / folder)
    approaches = tmp_path / "implementations"
    text = (approaches / "linear_bbb.py").read_text()
    assert text.count('"""Bayes by Backprop on MNIST: ') == 1
    (approaches / "linear_bbb.py").write_text(
        text.replace('"""Bayes by Backprop on MNIST: ', '"""Weights with noise: ')
    )
    shutil.move(approaches / "_sampled_seeds.py", approaches / "_seeds_of_samples.py")
    for file in approaches.glob("*.py"):
        text = file.read_text().replace("all_rows(", "every_row(").replace("_sampled_seeds", "_seeds_of_samples")
        file.write_text(text)
    assert states_by(tmp_path) == before
    assert set(before[0].values()) == {""}


@pytest.mark.parametrize("name", [name for name, entry in manifests().items() if not entry.missing_framework()])
@pytest.mark.parametrize("budget", ["smoke", "full"])
def test_the_values_in_the_text_are_those_of_the_approach(name, budget):
    entry = manifest(name)
    for recipe in recipe_names(entry):
        given = entry, resolve(entry, recipe), profile(budget)
        assert list(values_of(*given).items()) == list(dataclasses.asdict(build(*given)).items())


def test_every_shipped_record_has_the_key_and_the_values_of_today():
    for record in Store(RESULTS).all_records()[0]:
        selection = Selection(
            approaches=(record.approach,),
            recipes=(record.recipe,),
            protocols=(record.protocol,),
            seeds=(record.seed,),
            profile=record.profile,
            device=record.device,
            precision=record.precision,
        )
        (trained_run,) = trained_runs(selection)
        assert (trained_run.key, trained_run.fit_key) == (record.key, record.fit_key)
        assert plain(trained_run.values) == record.recipe_values


TEXT = """
from dataclasses import dataclass, field
from typing import ClassVar
from bench.interface import Approach
from .others import Above
import bases


class Broad(Approach):
    noise: ClassVar[str] = "none"
    epochs: int = 3
    rate: float = 1 / 4
    sizes: tuple[int, ...] = (1, -2)


class Narrow(Broad):
    rate: float = 2.0
    given: int


class Listed(Broad):
    sizes: list[int] = field(default_factory=list)


class Named(Broad):
    rate: float = LIMIT


class Foreign(bases.Base):
    pass


class Infinite(Broad):
    rate: float = 1 / 0


class Huge(Broad):
    rate: float = HUGE / 2


class Itself(Itself):
    pass
""".replace("HUGE", "9" * 400)


def read(tmp_path, class_name, text=TEXT):
    (tmp_path / "mine.py").write_text(text)
    return source_code._values("package.mine", class_name, {"package": tmp_path})


def test_a_class_has_the_fields_of_those_that_it_extends(tmp_path):
    assert read(tmp_path, "Narrow") == {"epochs": 3, "rate": 2.0, "sizes": (1, -2)}


@pytest.mark.parametrize("name", ["Listed", "Named", "Foreign", "Infinite", "Huge", "Absent"])
def test_what_is_not_in_the_text_is_one_line(tmp_path, name):
    with pytest.raises(ConfigError, match="cannot be read from the text of") as caught:
        read(tmp_path, name)
    assert "\n" not in str(caught.value)


def test_a_text_that_is_no_python_is_one_line(tmp_path):
    for text in ("class Mine(:", "\0"):
        with pytest.raises(ConfigError, match=r"of class Mine cannot be read from the text of package\.mine"):
            read(tmp_path, "Mine", text)


@pytest.fixture
def restless():
    """Make threads switch inside the parser too, as a collection of garbage sometimes does."""
    before = gc.get_threshold()

    def give_way(*_):
        time.sleep(0)

    gc.callbacks.append(give_way)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(give_way)


def test_many_threads_may_ask_for_the_sources(restless):
    """Without a lock, CPython 3.11 raises SystemError: AST constructor recursion depth mismatch."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(source_files, ["pyro_hidden_layer"] * 24))
    assert found == [source_files("pyro_hidden_layer")] * 24
