"""Today's code gives the stored golden traces; what does not must come with a new version (docs/freshness.md)."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from bench.plan.registry import manifest, manifests
from tests.golden import stored
from tests.golden.api import ROOT
from tests.golden.paths import MEASURES, STREAMS, paths, subjects

FOLDERS = ("bench", "implementations", "tests/golden")


def _cases():
    return [pytest.param(name, path, id=f"{name}-{path}") for name in subjects() for path in paths(name)]


@pytest.mark.parametrize(("subject", "path"), _cases())
def test_todays_code_gives_the_stored_trace(subject, path):
    if subject not in (MEASURES, STREAMS) and manifest(subject).missing_framework():
        pytest.skip(manifest(subject).missing_framework())
    assert stored.compare(subject, path) == []


@pytest.mark.parametrize("subject", subjects())
def test_every_path_of_every_recipe_is_stored_and_no_other(subject):
    assert stored.missing(subject) == []


@pytest.mark.parametrize("name", manifests())
def test_our_manifests_state_their_versions(name):
    text = (ROOT / "implementations" / f"{name}.toml").read_text()
    assert text.count("\nversion = ") >= len(manifest(name).recipes)


@pytest.fixture
def copy(tmp_path):
    """Return a copy of the code, with what numba has compiled."""
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def edit(folder, file, old, new):
    path = folder / file
    text = path.read_text()
    assert text.count(old) == 1, (file, old)
    path.write_text(text.replace(old, new))


def run(folder, *arguments):
    """Run Python in a copy of the code, on the data of the repository."""
    here = {**os.environ, "PYTHONPATH": str(folder), "BNN_BENCH_DATA": str(ROOT / "datasets"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True, check=False)


PLANTED = {
    "Adam's beta2 is .998": (
        "bench/core/compiled.py",
        "second[i] * float32(0.999)",
        "second[i] * float32(0.998)",
        "linear_bbb",
        "published/single",
    ),
    "a stream has another name": (
        "implementations/mlp.py",
        'context.generator("shuffle", epoch)',
        'context.generator("shuffled", epoch)',
        "mlp",
        "published/single",
    ),
    "the KL is divided by one batch more": (
        "implementations/linear_bbb.py",
        "n_batches = task.n_train / self.batch_size",
        "n_batches = task.n_train / self.batch_size + 1",
        "linear_bbb",
        "published/single",
    ),
    "dropout is .49": (
        "implementations/dropout_fcn.py",
        "hidden_dropout: float = 0.5 ",
        "hidden_dropout: float = 0.49 ",
        "dropout_fcn",
        "published/single",
    ),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_change_is_caught(copy, what):
    file, old, new, subject, path = PLANTED[what]
    edit(copy, file, old, new)
    found = run(copy, "-m", "tests.golden", "--check", subject, "--path", path)
    assert found.returncode == 1, found.stderr
    assert "deviates by" in found.stdout


STATES = """
import json, sys
from pathlib import Path
from bench.plan.freshness import why_stale
from bench.plan.cells import Selection, cells
from bench.core.store import Store
found = {}
for record in Store(Path(sys.argv[1])).all_records()[0]:
    found[record.key] = why_stale(record)
keys = [cell.key for cell in cells(Selection(approaches=("linear_bbb", "mlp"), profile="smoke"))]
print(json.dumps([found, keys]))
"""


def test_an_edit_that_changes_no_number_leaves_every_record_fresh(copy):
    """A docstring, the name of a function and the place of a module are text: no record looks at them."""
    before = run(copy, "-c", STATES, str(ROOT / "results"))
    assert before.returncode == 0, before.stderr
    edit(copy, "implementations/linear_bbb.py", '"""Bayes by Backprop on MNIST: ', '"""Weights with noise: ')
    seeds = copy / "implementations" / "_seeds.py"
    for file in (seeds, *copy.glob("implementations/*.py")):
        file.write_text(file.read_text().replace("all_rows(", "every_row("))
    shutil.move(copy / "implementations" / "_sampled_seeds.py", copy / "implementations" / "_seeds_of_samples.py")
    for file in copy.glob("implementations/*.py"):
        file.write_text(file.read_text().replace("_sampled_seeds", "_seeds_of_samples"))
    after = run(copy, "-c", STATES, str(ROOT / "results"))
    assert after.returncode == 0, after.stderr
    assert json.loads(after.stdout) == json.loads(before.stdout)
    assert set(json.loads(after.stdout)[0].values()) == {""}


def test_a_trace_is_replaced_only_with_a_new_version(copy):
    """The check names the versions that differ; with the version raised the trace is written, and is then as stored."""
    edit(copy, "implementations/toy_bbb.py", "noise_std: float = 0.1 ", "noise_std: float = 0.11 ")
    refused = run(copy, "-m", "tests.golden", "--write", "toy_bbb")
    assert refused.returncode == 1
    assert "Raise the version" in refused.stderr
    edit(copy, "implementations/toy_bbb.toml", "version = 1", "version = 2")
    told = run(copy, "-m", "tests.golden", "--check", "toy_bbb", "--path", "published/single")
    assert told.returncode == 1
    assert "versions" in told.stdout
    written = run(copy, "-m", "tests.golden", "--write", "toy_bbb")
    assert written.returncode == 0, written.stderr
    assert run(copy, "-m", "tests.golden", "--check", "toy_bbb").returncode == 0
