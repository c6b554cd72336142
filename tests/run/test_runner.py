"""Real runs with two steps an epoch (second runs, kills, damage), and what an approach reports before it is stored."""

import dataclasses
import io
import time
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from msgspec import structs

from bench.cli.main import main
from bench.core.metric_table import metrics
from bench.core.reasons import LONGEST, Reason, in_words, message_reason
from bench.core.records import LONGEST_DETAIL, Versions
from bench.core.store import Store
from bench.data.manifest import data_hashes
from bench.plan import freshness, registry
from bench.plan.freshness import is_stale, why_stale
from bench.plan.trained_runs import Selection, trained_runs
from bench.run.events import EpochEnded, Options, Recorded, Tick, decode, encode, losses
from bench.run.recording import existing, why_again
from bench.run.runner import run
from bench.run.supervisor import process_context
from tests import synthetic
from tests.run.toys import Recorder, chosen, go, put, put_waiting


def test_a_missing_framework_skips_its_own_trained_runs_alone(tmp_path, monkeypatch):
    entry = structs.replace(registry.manifest("toy_mlp"), requires=("not_there",), extra="pyro")
    known = {**registry.manifests(), "toy_mlp": entry}
    monkeypatch.setattr(registry, "manifests", lambda: known)
    results, _ = smoke(tmp_path, "toy_mlp", "uniform", recipes=("published",), protocols=("common",))
    assert [one.outcome for one in results] == ["skipped", "done"]
    assert "pip install -c constraints.txt -e '.[pyro]'" in results[0].reason


def smoke(tmp_path, *names, **options):
    return go(tmp_path, *names, **{"seeds": (0,), **options})


def test_protocols_share_one_fit_and_a_record_has_what_a_reader_needs(tmp_path):
    _, watcher = smoke(tmp_path, "mlp")
    assert len(watcher.of(EpochEnded)) == 2  # of the two recipes
    assert len(watcher.of(Recorded)) == 3
    records, problems = Store(tmp_path).all_records()
    assert problems == []
    assert {(r.recipe, r.protocol) for r in records} == {
        ("published", "published"),
        ("published", "common"),
        ("corrected", "common"),
    }
    for record in records:
        assert record.provenance.versions["torch"] != "absent"
        assert record.provenance.data_sha256 == data_hashes()
        assert record.timings.valid is False  # two steps an epoch are no timing
        assert record.epochs[0].seconds > 0
        assert record.recipe_values["epochs"] == 1


def test_damaged_scores_are_made_again(tmp_path):
    smoke(tmp_path, "mlp", recipes=("published",), protocols=("common",))
    (path,) = tmp_path.glob("records/mlp/*.npz")
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    ((again,), watcher) = smoke(tmp_path, "mlp", recipes=("published",), protocols=("common",))
    assert (again.outcome, again.was_there) == ("done", False)
    assert watcher.of(EpochEnded) == []  # the fit was kept
    with np.load(io.BytesIO(whole)) as before, np.load(path) as after:
        np.testing.assert_equal(dict(after.items()), dict(before.items()))


def test_a_record_is_stale_by_its_versions_and_not_by_the_text_of_the_code(tmp_path):
    """A stale record is named and made again. Without versions it is stale; of an unknown approach it is not."""
    results, _ = smoke(tmp_path, "uniform")
    record = existing(results[0].trained_run, Store(tmp_path))
    assert record.versions == Versions(recipe={"published": 1}, protocol=2)
    assert not is_stale(record)
    assert not is_stale(structs.replace(record, provenance=structs.replace(record.provenance, source_sha256="0" * 64)))
    for other, words in (
        (Versions(recipe={"published": 2}, protocol=2), "recipe part published had version 2 and has 1"),
        (Versions(recipe={"published": 1}, protocol=1), "protocol had version 1 and has 2"),
        (Versions(recipe={"published": 1}, protocol=2, metrics={"nll": 3}), "metric nll had version 3 and has 1"),
        (None, "does not say at which versions"),
    ):
        assert words in why_stale(structs.replace(record, versions=other))
    assert not is_stale(structs.replace(record, approach="elsewhere", versions=None))
    assert "has no recipe" in why_stale(structs.replace(record, recipe="gone"))
    store = Store(tmp_path)
    store.write(structs.replace(record, versions=None, sha256=""), store.scores(record))
    assert (
        why_again(existing(results[0].trained_run, store), store)
        == "the record does not say at which versions it was made"
    )
    again, _ = smoke(tmp_path, "uniform")
    assert [each.was_there for each in again] == [False]
    assert not is_stale(existing(results[0].trained_run, store))


def test_a_raised_metric_makes_stale_the_records_that_have_it_and_no_others(tmp_path, monkeypatch):
    results, _ = smoke(tmp_path, "uniform", protocols=("common",))
    record = existing(results[0].trained_run, Store(tmp_path))
    for name, words in (("nll", "metric nll had version 1 and has 2"), ("accuracy_area", "")):
        raised = {**metrics(), name: dataclasses.replace(metrics()[name], version=2)}
        with monkeypatch.context() as patch:
            patch.setattr(freshness, "metrics", lambda raised=raised: raised)
            assert why_stale(record) == words
            again, _ = smoke(tmp_path, "uniform", protocols=("common",))
            assert [each.was_there for each in again] == [not words]
            made = existing(again[0].trained_run, Store(tmp_path))
            assert not is_stale(made)
            if words:
                assert made.versions.metrics == {name: 2}
            Store(tmp_path).write(structs.replace(record, sha256=""), Store(tmp_path).scores(record))


def test_a_time_limit_ends_a_trained_run_and_keeps_what_was_trained(tmp_path):
    selection = Selection(approaches=("dropout_fcn",), recipes=("published",), protocols=("common",), profile="epoch1")
    results = run(
        trained_runs(selection), Store(tmp_path), Options(str(tmp_path)), Recorder(), "process", time_limit_s=0.1
    )
    assert [result.outcome for result in results] == ["out-of-time"]
    assert "--time-limit" in results[0].reason


def test_a_killed_run_goes_on_where_it_stopped(tmp_path, monkeypatch, look_again):
    """Kill a real run between two epochs. The second call resumes there, and its times are marked as not valid."""
    go_on, root = put_waiting(tmp_path, monkeypatch), tmp_path / "results"
    command = ["run", "waits", "--approach-path", str(tmp_path), "--protocol", "common", "--checkpoint-every", "0"]
    command += ["--executor", "inline", "--quiet", "--threads", "1", "--results", str(root)]
    (trained_run,) = chosen("waits")
    store = Store(root)
    checkpoint = store.fit_path(trained_run.fit_key, "checkpoint")
    process = process_context().Process(target=main, args=(command,), daemon=True)
    process.start()
    while not checkpoint.exists():
        assert process.is_alive(), "the run ended before it could be killed"
        time.sleep(0.05)
    process.kill()
    process.join()
    _, info = store.read_tensors(checkpoint)
    trained = info["seeds"]["0"]["epochs"]
    assert len(trained) in (1, 2)
    assert existing(trained_run, store) is None
    go_on.touch()
    assert main(command) == 0
    record = existing(trained_run, store)
    assert len(record.epochs) == 6
    assert [entry.seconds for entry in record.epochs][: len(trained)] == [entry["seconds"] for entry in trained]
    assert not record.timings.valid
    assert "interrupted and resumed" in in_words(*record.timings.reasons)


@pytest.mark.parametrize("lacking", ["notmnist459", "notmnist459/all 459/refusal_rate"])
def test_a_record_that_lacked_a_data_set_is_measured_again_once_it_is_there(tmp_path, monkeypatch, lacking):
    """Protocol common records the missing data set; a document's protocol records the missing metric."""
    lacked = synthetic.record("pyro_random_module", missing={lacking: message_reason("no-data", "it is not there")})
    measured = synthetic.record("mlp", missing={"notmnist459/disagreement_rate": Reason("one-draw")})
    for present in (False, True):
        row = SimpleNamespace(name="notmnist459", optional=True, present=present)
        monkeypatch.setattr("bench.data.inventory.list_datasets", lambda _, row=row: [row])
        assert why_again(lacked, Store(tmp_path)) == ("a data set that it lacked is present" if present else "")
        assert why_again(measured, Store(tmp_path)) == ""  # of one draw, whatever data sets come


CHANGED = """
_fit = McDropout.fit


def fit(self, train, task, ctx):
    report = ctx.epoch_end
    ctx.epoch_end = lambda epoch, trace, *rest: report({epoch}, {trace}, *rest)
    return _fit(self, train, task, ctx)


McDropout.fit = fit
"""
FAILING = """
def fit(self, train, task, ctx):
    raise ValueError("a\\n" * 1_000_000 + "b" * 12_000_000)


McDropout.fit = fit
"""


def stored(tmp_path, monkeypatch, text):
    """Run an approach of this code, and return the record that a reader gets of its one trained run."""
    put(tmp_path, monkeypatch, "reports", text)
    store = Store(tmp_path / "results")
    trained_runs = chosen("reports", profile="faults", seeds=(0,))
    (result,) = run(trained_runs, store, Options(str(store.root), threads=1), Recorder(), "inline")
    (record,), problems = store.all_records()
    assert problems == []
    assert record == existing(trained_runs[0], store)
    assert record.outcome == result.outcome
    return record


def changed(epoch="epoch", trace="trace"):
    return CHANGED.format(epoch=epoch, trace=trace)


def test_a_report_that_is_not_changed_is_stored(tmp_path, monkeypatch):
    record = stored(tmp_path, monkeypatch, changed())
    assert [epoch.epoch for epoch in record.epochs] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("epoch", "found"),
    [
        ("10**30", "epoch 1000000000000000000000000000000 after 0"),
        ("6", "epoch 6 after 0"),  # the approach has five
        ("0", "epoch 0 after 0"),
        ("6 - epoch", "epoch 4 after 5"),
        ("1", "epoch 1 after 1"),
    ],
)
def test_an_impossible_epoch_ends_the_fit_with_one_line(epoch, found, tmp_path, monkeypatch):
    record = stored(tmp_path, monkeypatch, changed(epoch))
    assert record.outcome == "failed"
    assert f"epoch_end was called with {found}; epochs are whole numbers" in in_words(record.reason)


@pytest.mark.parametrize("epoch", ["1.5", "'1'", "None"])
def test_an_epoch_that_is_no_whole_number_ends_the_fit(epoch, tmp_path, monkeypatch):
    record = stored(tmp_path, monkeypatch, changed(epoch))
    assert record.outcome == "failed"
    assert in_words(record.reason).startswith("TypeError")


def test_a_metric_with_an_endless_name_is_not_written_and_the_record_says_why(tmp_path, monkeypatch):
    record = stored(tmp_path, monkeypatch, changed(trace='{"x" * 12_000_000: 1.0}'))
    assert record.outcome == "failed"
    assert "cannot be written" in in_words(record.reason)


def test_a_long_message_and_a_long_traceback_are_cut(tmp_path, monkeypatch):
    record = stored(tmp_path, monkeypatch, FAILING)
    assert in_words(record.reason).startswith("ValueError: a")
    assert len(record.detail) <= LONGEST_DETAIL
    assert len(in_words(message_reason("crashed", "x" * 12_000_000))) == LONGEST + len("...")


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (Tick(), b'{"kind":"tick"}'),
        (
            EpochEnded(1, 9, losses({"loss": float("nan")}), 2),
            b'{"kind":"epoch","epoch":1,"of":9,"trace":{"loss":null}',
        ),
        (Recorded("k", "failed", "two\nlines\x1b[2J"), b'"reason":"two\\nlines\\u001b[2J"'),
    ],
)
def test_an_event_is_one_line_and_comes_back(event, line):
    assert line in encode(event)
    assert b"\n" not in encode(event)
    assert decode(encode(event)) == event


def test_a_file_name_that_is_not_utf_8_does_not_stop_an_event():
    assert decode(encode(Recorded("k", "failed", "no file a\udc80"))).reason == r"no file a\udc80"


@pytest.mark.parametrize("line", [b"hello", b"[1]", b'{"kind":"other"}', b'{"kind":"start"}', b""])
def test_a_line_that_is_not_an_event_is_refused(line):
    with pytest.raises(msgspec.DecodeError):
        decode(line)
