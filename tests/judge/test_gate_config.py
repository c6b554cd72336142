"""The gate's file: the committed one, and files with mistakes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from bench.core.errors import ConfigError
from bench.judge.claims import load_claims
from bench.judge.gate.config import GONE, load_gate
from bench.plan.manifests import DOCUMENTS
from bench.plan.registry import of_group
from tests.gate_folders import gate_file

OLD = """
[repeat]
seed = 0
cells = ["mlp/published/common"]
[splits]
train60k = "3f"
[[waiver]]
cell = "mlp/published/common"
until = 2030-01-31
reason = "r"
"""


def test_the_committed_file_gates_both_recipes_of_every_approach_of_the_documents():
    gate = load_gate()
    names = {trained_run.name for trained_run in gate.trained_runs}
    for name, entry in of_group(DOCUMENTS).items():
        if entry.task == "mnist" and entry.document:
            assert {f"{name}/published/common", f"{name}/corrected/common"} <= names
    assert {"toy_mlp/published/published", "toy_bbb/published/published"} <= names
    assert gate.baseline_seeds == 8


def test_margins_of_the_training_losses_are_those_of_the_claims():
    claims = {
        (claim.approach, claim.metric): claim.margin for claim in load_claims() if claim.stage in ("epoch:1", "step:0")
    }
    compared = 0
    for trained_run in load_gate().trained_runs:
        for metric in trained_run.metrics:
            margin = claims.get((trained_run.approach, metric.key.rsplit("/", 1)[-1]))
            if margin and trained_run.recipe == "published" and metric.reason.startswith("as the claim:"):
                assert metric.margin == pytest.approx(margin, rel=0.02), metric.key
                compared += 1
    assert compared >= 5


def test_the_keys_of_an_old_file_are_named_in_one_line(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_gate(gate_file(tmp_path, more=OLD))
    (line,) = str(caught.value).splitlines()
    assert all(f"{name} ({instead})" in line for name, instead in GONE.items() if name != "reference_seeds")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema = 1", "schema = 2", "schema: '2'; known: 1"),
        ('profile = "epoch1"', 'profile = "epoch2"', "did you mean 'epoch1'"),
        ('device = "cpu"', 'device = ""', "device: '' given; give a text$"),
        ('precision = "float32"', 'precision = "float23"', "did you mean 'float32'"),
        ("alpha = 0.05", "alpha = 1.5", "alpha: 1.5"),
        ("baseline_seeds = 8", "reference_seeds = 8", "reference_seeds .its name is now baseline_seeds"),
        ("baseline_seeds = 8", "baseline_seeds = 3", "whole number >= 8"),
        ("[1000, 1001, 1002]", "[1000]", "list of length >= 2"),
        ("[1000, 1001, 1002]", "[1000, 1000]", "fresh seed 1000 appears twice"),
        ("[1000, 1001, 1002]", "[1000, -1]", "fresh_seeds #2: -1 given; give a whole number >= 0"),
        ("seeds = 2", "seeds = 4", "at most 3"),
        ("seeds = 2", "seeds = 1", "gated #2.seeds: 1 given; give a whole number >= 2"),
        ('"toy_bbb"', '"toy_bb"', "did you mean 'toy_bbb'"),
        ('["published", "corrected"]', '["published", "corect"]', "recipe of mlp"),
        ('["published", "corrected"]', '["published", "published"]', "name each once"),
        ('["published", "corrected"]', "[]", "list of length >= 1"),
        ('protocol = "common"', 'protocol = "usual"', "known: common, published"),
        ("margin = 0.02", "margin = -1", "margin: -1"),
        ('reason = "r"', 'reason = " "', "a text"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, old, new, message):
    with pytest.raises(ConfigError, match=message):
        load_gate(gate_file(tmp_path, old=old, new=new))


ROOT = Path(__file__).resolve().parents[2]


def test_a_ci_run_that_ends_before_its_gate_leaves_no_earlier_gates_files(tmp_path):
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "README.md").write_text("<!-- command:test -->\n```\nfalse\n```\n")
    old = tmp_path / "build" / "ci" / "gate.xml"
    old.parent.mkdir(parents=True)
    old.write_text("<testsuite/>")
    ended = subprocess.run(["bash", str(tmp_path / ".ci" / "run")], capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    assert "README's test command" in ended.stdout
    assert not old.exists()
