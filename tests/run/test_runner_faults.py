"""Faults of files: a file that cannot be used is named and its fit trained again; a full disk stops no other."""

from types import SimpleNamespace

import pytest
import torch
from msgspec import structs

from bench.core.errors import StoreError
from bench.core.reasons import in_words
from bench.core.store import Store
from bench.plan.registry import manifests
from bench.plan.trained_runs import Selection, trained_runs
from bench.run import contexts
from bench.run.events import EpochEnded, Options, Recorded, Warned
from bench.run.executors import Inline
from bench.run.recording import existing
from bench.run.runner import run
from tests.run.toys import Recorder, chosen, go, published, records, stopped

pytestmark = pytest.mark.usefixtures("short_intervals")


def trains_anew(tmp_path):
    _, watcher = published(tmp_path, seeds=(0,))
    return [event.epoch for event in watcher.of(EpochEnded)] == [1, 2, 3, 4, 5, 6]


def test_short_epochs_share_a_checkpoint_and_the_last_has_none(tmp_path, monkeypatch):
    """Six epochs of 1.5 s, a checkpoint after 2 s at the earliest: at 3 and 6 s, the ends of epochs 2 and 4.

    At 9 s another one would be due, but this is the end of the last epoch.
    """
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(contexts, "time", clock)
    (trained_run,) = trained_runs(Selection(approaches=("toy_mlp",), recipes=("published",), protocols=("common",)))
    path = tmp_path / "fits" / "checkpoint.safetensors"
    measures, options = [lambda posterior, epoch: {}], Options(str(tmp_path))
    seed_batch = contexts.SeedBatch([trained_run], Store(tmp_path), path, measures, lambda event: None, options)
    written = []
    for epoch in range(1, 7):
        clock.now += 1.5
        seed_batch.contexts[0].epoch_end(epoch, {}, lambda: None, lambda: {"w": torch.zeros(1)})
        written += [epoch] if path.exists() else []
        path.unlink(missing_ok=True)
    assert trained_run.epochs == 6
    assert written == [2, 4]


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"fit_keys": {"0": "e" * 64}}, ""), ({"versions": {"recipe": {"published": 2}}}, "another version"), (None, "")],
    ids=["another fit", "another version", "truncated"],
)
def test_a_checkpoint_that_is_not_of_this_fit_is_named_and_the_fit_starts_anew(
    changes, words, tmp_path, monkeypatch, caplog
):
    """Work of two versions must not be mixed."""
    stopped(tmp_path, monkeypatch, 4, seeds=(0,))  # while it reports epoch 4
    (path,) = tmp_path.glob("fits/*/checkpoint.safetensors")
    store = Store(tmp_path)
    tensors, info = store.read_tensors(path)
    assert (info["fit_keys"].keys(), info["versions"]["recipe"]) == ({"0"}, {"published": 1})
    if changes is None:
        path.write_bytes(path.read_bytes()[:-10])
    else:
        store.write_tensors(path, tensors, {**info, **changes})
    assert trains_anew(tmp_path)
    assert f"checkpoint {path} cannot be used" in caplog.text
    assert words in caplog.text


@pytest.mark.parametrize(
    ("changes", "is_named"),
    [({"fit_key": "e" * 64}, True), ({"versions": None}, False)],
    ids=["another fit", "no versions"],
)
def test_a_posterior_that_is_not_of_this_fit_is_trained_again(tmp_path, caplog, changes, is_named):
    published(tmp_path, seeds=(0,))
    store = Store(tmp_path)
    (path,) = tmp_path.glob("fits/*/posterior.safetensors")
    tensors, info = store.read_tensors(path)
    store.write_tensors(path, tensors, {**info, **changes})
    for record in tmp_path.glob("records/*/*"):
        record.unlink()
    assert trains_anew(tmp_path)
    assert (f"posterior {path} cannot be used" in caplog.text) is is_named
    assert store.read_tensors(path)[1]["versions"]["recipe"] == {"published": 1}


def test_without_room_for_a_checkpoint_training_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(contexts, "CHECKPOINT_EVERY_S", 0.0)

    def full(self, path, tensors, info):
        raise StoreError(f"cannot write {path}: No space left on device; free space or choose another folder")

    monkeypatch.setattr(Store, "write_tensors", full)
    results, watcher = published(tmp_path, seeds=(0,))
    assert {result.outcome for result in results} == {"done"}
    warnings = [event.message for event in watcher.of(Warned)]
    assert len(warnings) == 5 + 1  # after epochs 1 to 5 of 6, and the posterior
    assert all("No space left" in warning for warning in warnings)


def test_without_room_for_scores_the_trained_run_says_so_and_the_next_is_done(tmp_path, monkeypatch):
    write = Store.write

    def full(self, record, scores=None):
        if record.protocol == "published" and record.outcome == "done":
            raise StoreError("cannot write it: No space left on device; free space or choose another folder")
        return write(self, record, scores)

    monkeypatch.setattr(Store, "write", full)
    results, _ = go(tmp_path, "toy_mlp", seeds=(0,))
    assert {(each.trained_run.protocol, each.outcome) for each in results} == {
        ("published", "failed"),
        ("common", "done"),
    }
    record = existing(results[0].trained_run, Store(tmp_path))
    assert "No space left" in in_words(record.reason)


def test_a_raised_version_trains_again_in_the_place_of_the_old_records(tmp_path, monkeypatch):
    go(tmp_path, "toy_mlp", seeds=(0,))
    before = set(records(tmp_path))
    _, watcher = go(tmp_path, "toy_mlp", seeds=(0,))
    assert watcher.events == []
    entry = manifests()["toy_mlp"]
    raised = {name: structs.replace(spec, version=2) for name, spec in entry.recipes.items()}
    monkeypatch.setitem(manifests(), "toy_mlp", structs.replace(entry, recipes=raised))
    results, watcher = go(tmp_path, "toy_mlp", seeds=(0,))
    assert {(each.outcome, each.was_there) for each in results} == {("done", False)}
    assert [event.epoch for event in watcher.of(EpochEnded)] == [1]
    after = Store(tmp_path).all_records()[0]
    assert len(after) == len(before)
    assert {record.versions.recipe["published"] for record in after} == {2}
    results, _ = go(tmp_path, "toy_mlp", seeds=(0,))
    assert all(each.was_there for each in results)


def test_an_event_about_another_trained_run_is_the_fits_fault(tmp_path):
    """As a plug-in may write it into the pipe of its child process."""

    class Lying(Inline):
        def run_group(self, trained_runs, options, time_limit_s):
            yield Recorded("\x1bno such key", "done", "")

    (ended,) = run(chosen("uniform", profile="smoke"), Store(tmp_path), Options(str(tmp_path)), Recorder(), Lying())
    assert (ended.outcome, ended.reason) == (
        "failed",
        r"its process reported a trained run that it was not given: '\x1bno such key'",
    )


def test_trained_runs_that_cannot_be_locked_are_reported(tmp_path):
    (tmp_path / "locks").write_text("in the way")
    results, watcher = published(tmp_path, seeds=(0,))
    events = watcher.of(Recorded)
    assert len(events) == len(results) == 2
    assert [(event.outcome, event.reason) for event in events] == [("failed", one.reason) for one in results]
    assert "cannot lock" in events[0].reason


def test_a_checkpoint_that_cannot_be_removed_costs_no_fit(tmp_path, monkeypatch):
    def refuse(*_):
        raise StoreError("cannot remove it")

    monkeypatch.setattr(Store, "drop_checkpoint", refuse)
    results, watcher = published(tmp_path, seeds=(0,))
    assert {result.outcome for result in results} == {"done"}
    assert [event.message for event in watcher.of(Warned)] == ["cannot remove it"]
