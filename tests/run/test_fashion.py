"""Task fashion: which data it learns, which are out of distribution, and that it never mixes with task mnist."""

import numpy as np
import pytest
import torch

from bench.cli import USAGE
from bench.cli.main import main
from bench.core.errors import ConfigError
from bench.core.store import Store
from bench.data import splits
from bench.data.manifest import MEASURED_NAMES, TASKS, data_hashes
from bench.data.splits import split_hash
from bench.interface import Split
from bench.judge.compare.verified import verify
from bench.measure import protocols
from bench.measure.protocols import protocol_of
from bench.measure.stored import computed_again
from bench.plan.recipes import profile, profile_of_task
from bench.plan.registry import manifest
from bench.plan.trained_runs import Selection, trained_runs
from tests.run.toys import go
from tests.synthetic import Oracle

N = 300  # images of each made-up file


@pytest.fixture
def small(monkeypatch):
    """Replace the images of every file by a few random ones, and return the list of the files that were read."""
    asked = []

    def pair(dataset, part, data_dir):
        asked.append((dataset, part))
        numbers = np.random.default_rng(len(dataset) + len(part))
        return numbers.integers(0, 256, (N, 28, 28), np.uint8), (np.arange(N) % 10).astype(np.uint8)

    monkeypatch.setattr(splits, "_idx_pair", pair)
    return asked


@pytest.mark.parametrize(
    ("task", "train", "test"),
    [
        ("mnist", ("mnist", "train"), ("mnist", "t10k")),
        ("fashion", ("fashion_train", "train"), ("fashion_mnist", "t10k")),
    ],
)
def test_each_task_reads_its_own_files(small, task, train, test):
    splits.load_split("train60k", 0, None, task)
    splits.load_split("test10k", 0, None, task)
    splits.load_shared("train60k", [0, 1], None, task)
    assert small == [train, test, train]


def test_the_learnt_data_set_is_not_out_of_distribution():
    for learnt in TASKS.values():
        assert set(learnt.outside) == set(MEASURED_NAMES) - {learnt.inside}


def test_the_trained_runs_of_task_mnist_keep_their_keys():
    """The key is that of a shipped record: mlp corrected x common, profile full, seed 0."""
    (trained_run,) = trained_runs(Selection(approaches=("mlp",), recipes=("corrected",), protocols=("common",)))
    assert trained_run.key.startswith("83d060e1")


def test_the_trained_runs_of_task_fashion_are_others():
    digits = trained_runs(Selection(approaches=("mlp", "toy_mlp"), recipes=("published",)))
    clothes = trained_runs(Selection(approaches=("mlp", "toy_mlp"), recipes=("published",), profile="full_fashion"))
    assert {trained_run.protocol for trained_run in clothes} == {
        "common"
    }  # no document reports of clothes, and toys learn points
    assert {trained_run.approach for trained_run in clothes} == {"mlp"}
    for name in ("key", "fit_key"):
        assert not {getattr(trained_run, name) for trained_run in digits} & {
            getattr(trained_run, name) for trained_run in clothes
        }


def test_the_first_part_of_a_profiles_name_gives_its_size():
    assert profile_of_task("full", "mnist") == "full"
    found = profile(profile_of_task("smoke", "fashion"))
    assert (found.name, found.task, found.steps_per_epoch) == ("smoke_fashion", "fashion", 2)
    for wrong in ("full_mnist", "full_", "fashion", "fulll_fashion", "full_fashion_fashion"):
        with pytest.raises(ConfigError, match="unknown profile"):
            profile(wrong)
    with pytest.raises(ConfigError, match="unknown task"):
        profile_of_task("full", "fashio")


def test_clothes_are_in_distribution_and_digits_out_of_distribution(monkeypatch):
    y = torch.arange(50) % 10
    x = torch.zeros(50, 784)
    x[:, 0] = y / 10
    asked = []

    def load_split(name, seed, data_dir, task):
        asked.append(task)
        return Split(name, x, y, torch.arange(50))

    monkeypatch.setattr(protocols, "load_split", load_split)
    monkeypatch.setattr(protocols, "load_ood", lambda name, *_: Split(name, x, torch.full((50,), -1), torch.arange(50)))
    found = protocol_of(manifest("mlp"), "common", 0, profile("smoke_fashion"), None).final(Oracle().mean_network(), [])
    assert set(asked) == {"fashion"}
    assert found.metrics["fashion_mnist/accuracy"] == 1
    assert found.metrics["mnist/auroc_predictive_entropy"] == pytest.approx(0.5)
    assert "mnist/accuracy" not in found.metrics
    assert not any(key.startswith("fashion_mnist/auroc") for key in found.metrics)
    assert {"fashion_mnist/reliability", "fashion_mnist/risk_coverage"} <= set(found.arrays)
    bounds = computed_again(found.scores)
    for key in ("fashion_mnist/nll", "fashion_mnist/accuracy", "mnist/predictive_entropy"):
        # tolerance: half precision rounds a number below 4 by at most 2^-10
        assert bounds[key] == pytest.approx((found.metrics[key],) * 2, abs=2**-10)


def test_a_run_learns_clothes_and_says_so(small, tmp_path):
    """Approaches write mnist for any data set; the record has the real name."""
    go(tmp_path, "mlp", recipes=("corrected",), profile="smoke_fashion", seeds=(0,), apart=True)
    (found,), problems = Store(tmp_path).all_records()
    assert problems == []
    assert found.profile == "smoke_fashion"
    assert found.provenance.data_sha256 == data_hashes("fashion")
    assert found.provenance.train_sha256 == split_hash(splits.load_split("train60k", 0, None, "fashion"))
    assert set(found.epochs[0].metrics) == {"fashion_mnist/train60k/train_loss"}
    assert found.metrics["fashion_mnist/accuracy"] is not None
    again = verify([found], Store(tmp_path))
    assert (again.scored, again.differing) == (1, [])


def test_without_the_training_file_a_run_says_in_one_line_how_to_get_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bench.data.files.is_there", lambda path: "fashion_train" not in str(path))
    assert main(["run", "mlp", "--task", "fashion", "--results", str(tmp_path)]) == USAGE
    said = capsys.readouterr().err.strip()
    assert "data fetch fashion_train" in said
    assert "\n" not in said


@pytest.mark.parametrize("command", [["verdict"], ["figures", "--list"], ["ablation", "mlp"], ["table", "accuracy"]])
def test_commands_about_the_documents_refuse_other_tasks(command, capsys):
    assert main([*command, "--profile", "full_fashion"]) == USAGE
    said = capsys.readouterr().err.strip()
    assert "mnist" in said
    assert said.startswith("error: ")
