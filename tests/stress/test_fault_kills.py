"""Kills of real runs; fifty by `python -m bench faults`."""

from bench.core.store import Store
from tests import synthetic
from tests.stress import comparing
from tests.stress.kills import kill_runs


def test_five_kills_lose_no_finished_epoch_and_change_no_bit():
    found = kill_runs(5, seed=0, say=lambda line: None, approaches=("toy_bbb",))
    assert found.faults == []
    assert (found.kills, found.of_workers) == (5, 4)
    assert found.identical == found.rounds >= 1
    assert found.finished_epochs_lost <= 1


def record(**changes):
    epochs = [{"epoch": 1, "mnist/loss": 0.5, "seconds": 1.0}]
    fields = {"key": "a" * 64, "metrics": {"mnist/accuracy": 0.98}, "epochs": epochs}
    return synthetic.record("mlp", protocol="common", **{**fields, **changes})


def test_a_comparison_sees_every_number_and_no_time(tmp_path):
    Store(tmp_path / "a").write(record())
    Store(tmp_path / "b").write(record(epochs=[{"epoch": 1, "mnist/loss": 0.5, "seconds": 2.0}]))
    Store(tmp_path / "c").write(record(epochs=[{"epoch": 1, "mnist/loss": 0.5000000000000001, "seconds": 1.0}]))
    calm, slower, other = (comparing.contents(tmp_path / name) for name in "abc")
    assert comparing.differences(calm, slower) == []
    assert comparing.differences(calm, other) == ["a" * 64]
    assert comparing.differences(calm, {}) == ["a" * 64]


def test_a_comparison_names_what_cannot_be_trusted(tmp_path):
    path = Store(tmp_path).write(record())
    assert list(comparing.faults(tmp_path)) == []
    path.write_text(path.read_text().replace("0.98", "0.99"))
    assert any(str(path) in fault for fault in comparing.faults(tmp_path))
