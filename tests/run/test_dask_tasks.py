"""A task for a worker of Dask: which files come back, what a worker refuses, what a run makes of its answer."""

import asyncio
import dataclasses
from concurrent.futures import CancelledError
from pathlib import Path
from types import MappingProxyType

import msgspec
import pytest
from distributed.client import FutureCancelledError
from msgspec import structs

from bench.core.errors import BenchError, ConfigError, FitCrashed, OutOfTime, StoreError
from bench.core.files import write_atomically
from bench.core.reasons import message_reason
from bench.core.store import Store
from bench.plan.trained_runs import Selection, trained_runs
from bench.run import alike, remote
from bench.run.alike import check_same, code_and_data
from bench.run.events import Options
from bench.run.remote import Answer, Task, do_task
from bench.run.runner import run
from tests.run.toys import Recorder
from tools.archive import archive_folder

CHOSEN = trained_runs(Selection(approaches=("mlp", "toy_mlp"), recipes=("published",), profile="smoke"))
COMMON = [trained_run for trained_run in CHOSEN if (trained_run.approach, trained_run.protocol) == ("mlp", "common")]


def fit_task(folder, **changes):
    chosen = COMMON
    task = Task(chosen, Options(str(folder), threads=1), {}, None, code_and_data(chosen[0].approach, None))
    return task._replace(**changes)


def test_a_task_returns_the_files_of_its_fit_alone(tmp_path):
    answer = do_task(fit_task(tmp_path))
    assert answer.error is None
    assert sorted(Path(name).suffix for name in answer.files) == [".json", ".npz", ".safetensors"]
    assert list(tmp_path.iterdir()) == []


def test_a_stored_posterior_travels_and_is_not_trained_again(tmp_path):
    first = do_task(fit_task(tmp_path)).files
    again = do_task(fit_task(tmp_path, files={name: content for name, content in first.items() if "fits" in name}))
    (posterior,) = [name for name in first if "fits" in name]
    assert again.files[posterior] == first[posterior]


def test_a_task_that_the_run_has_released_or_that_takes_too_long_ends(tmp_path):
    assert "does not wait for it any more" in str(do_task(fit_task(tmp_path), wanted=lambda: False).error)
    answer = do_task(fit_task(tmp_path, time_limit_s=0.0))
    assert isinstance(answer.error, OutOfTime)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"code of the suite": "0"}, "lacks the code of the suite of the run, or has another"),
        ({"code of mlp": "0"}, "lacks the code of mlp of the run"),
        ({"list of data files": "0"}, "lacks the list of data files"),
        ({"data set 'mnist'": None}, "lacks the data set 'mnist' of the run"),
    ],
)
def test_a_machine_that_would_give_other_numbers_is_refused(found, words):
    here = code_and_data("mlp", None)
    check_same(here, here)
    with pytest.raises(ConfigError, match=words):
        check_same(here, {name: value for name, value in {**here, **found}.items() if value is not None})


def test_an_approach_that_a_worker_does_not_know_is_one_line(tmp_path, monkeypatch):
    expected = code_and_data("mlp", None)
    monkeypatch.setattr(alike, "manifests", dict)
    assert "lacks the code of mlp of the run" in str(do_task(fit_task(tmp_path, expected=expected)).error)


class Answering:
    """A client whose every task has one answer."""

    def __init__(self, answer):
        self.answer = answer

    def submit(self, *_, **__):
        return self

    def done(self):
        return True

    def result(self):
        return self.answer

    def cancel(self):
        pass


def put_lacking(store, files):
    """Write a worker's files; then, in the record's place, one that lacks metrics, so that a run measures it again.

    Return both records.
    """
    for name, content in files.items():
        write_atomically(store.root / name, content)
    done = store.find(COMMON[0].naming())
    lacks = structs.replace(done, sha256="", metrics={"mnist/accuracy": done.metrics["mnist/accuracy"]})
    store.write(lacks, store.scores(done))
    return done, lacks


def test_a_training_that_fails_leaves_the_record_that_is_finished(tmp_path):
    """As `Store.write` does it in one process."""
    store, (one,) = Store(tmp_path), COMMON
    done, lacks = put_lacking(store, do_task(fit_task(tmp_path)).files)
    for path in tmp_path.glob("fits/*/*"):
        path.unlink()
    worker = Store(tmp_path / "worker")
    reason = message_reason("no-data", "a planted fault")
    failed = structs.replace(done, sha256="", outcome="diverged", reason=reason, metrics={}, scores_sha256=None)
    path = worker.write(failed)
    answer = Answer({path.relative_to(worker.root).as_posix(): path.read_bytes()})
    options = Options(str(tmp_path), lacking=True)
    (ended,) = run(COMMON, store, options, Recorder(), remote.DaskPool(Answering(answer), gpu=False, workers=1))
    assert ended.outcome == "diverged"
    kept = Store(tmp_path).find(one.naming())
    assert (kept.outcome, kept.metrics) == ("done", lacks.metrics)
    assert store.scores(kept).keys() == store.scores(done).keys()


def test_only_the_expected_files_of_a_worker_are_written(tmp_path):
    answer = do_task(fit_task(tmp_path))
    files = answer.files
    strange = {"../outside": b"x", "/etc/outside": b"x", "records/mlp/other.json": b"{}", "fits/0/posterior": b"x"}
    store = Store(tmp_path / "results")
    pool = remote.DaskPool(Answering(answer._replace(files={**files, **strange})), gpu=False, workers=1)
    (ended,) = run(COMMON, store, Options(str(store.root)), Recorder(), pool)
    assert ended.outcome == "done"
    written = {path.relative_to(store.root).as_posix() for path in store.root.rglob("*") if path.is_file()}
    assert {name for name in written if not name.startswith("locks/")} == set(files)
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("change", ["cut", "of another trained_run"])
def test_a_record_that_does_not_arrive_whole_is_none(tmp_path, change):
    answer = do_task(fit_task(tmp_path))
    files = answer.files
    (name,) = [name for name in files if name.endswith(".json")]
    other = do_task(fit_task(tmp_path, trained_runs=CHOSEN[:1])).files
    found = files[name][:200] if change == "cut" else next(each for key, each in other.items() if key.endswith(".json"))
    store = Store(tmp_path / "results")
    pool = remote.DaskPool(Answering(answer._replace(files={**files, name: found})), gpu=False, workers=1)
    (ended,) = run(COMMON, store, Options(str(store.root)), Recorder(), pool)
    assert (ended.outcome, ended.reason) == ("failed", "its record did not arrive whole")


@pytest.mark.parametrize("ending", [".json", ".npz"])
def test_a_record_that_does_not_arrive_whole_replaces_none(tmp_path, ending):
    """Without its record, the scores that arrived are of no use either."""
    answer = do_task(fit_task(tmp_path))
    store = Store(tmp_path / "results")
    _, lacks = put_lacking(store, answer.files)
    before = {path: path.read_bytes() for path in store.records.rglob("*") if path.is_file()}
    cut = {name: each[:200] if name.endswith((".json", ending)) else each for name, each in answer.files.items()}
    pool = remote.DaskPool(Answering(answer._replace(files=cut)), gpu=False, workers=1)
    (ended,) = run(COMMON, store, Options(str(store.root)), Recorder(), pool)
    assert (ended.outcome, ended.was_there) == ("failed", False)
    assert {path: path.read_bytes() for path in store.records.rglob("*") if path.is_file()} == before
    assert Store(store.root).find(lacks).metrics == lacks.metrics


def test_a_full_disk_ends_no_other_fit(tmp_path, monkeypatch):
    def full(*_):
        raise StoreError("no space left")

    answer = do_task(fit_task(tmp_path))
    monkeypatch.setattr(remote, "write_atomically", full)
    store = Store(tmp_path / "results")
    pool = remote.DaskPool(Answering(answer), gpu=False, workers=1)
    (ended,) = run(COMMON, store, Options(str(store.root)), Recorder(), pool)
    assert (ended.outcome, ended.reason) == ("failed", "no space left")


def test_a_stale_record_is_no_result_of_a_worker_that_crashed(tmp_path):
    """The folder has the record of an older recipe, in an archive."""
    answer = do_task(fit_task(tmp_path))
    store = Store(tmp_path / "results")
    for name, content in answer.files.items():
        write_atomically(store.root / name, content)
    made = store.find(COMMON[0].naming())
    stale = msgspec.structs.replace(made, versions=msgspec.structs.replace(made.versions, protocol=1))
    store.write(stale)
    archive_folder(store.folder)
    store = Store(store.root)
    crashed = Answer({}, FitCrashed("its process was ended by SIGSEGV"))
    pool = remote.DaskPool(Answering(crashed), gpu=False, workers=1)
    (ended,) = run(COMMON, store, Options(str(store.root)), Recorder(), pool)
    assert (ended.outcome, ended.reason) == ("failed", "its process was ended by SIGSEGV")
    assert Store(store.root).find(COMMON[0].naming()).outcome == "failed"


class Refusing:
    """A client that can submit nothing; `workers` is None if its scheduler does not answer."""

    def __init__(self, status, error, workers=MappingProxyType({})):
        self.status, self.error, self.workers = status, error, workers

    def submit(self, *_, **__):
        raise self.error

    def scheduler_info(self, n_workers):
        if self.workers is None:
            raise OSError("connection refused")
        return {"workers": self.workers}


PICKLE = TypeError("cannot be pickled\nat all")
CANCELLED = FutureCancelledError("fit-1", "cancelled by somebody")


@pytest.mark.parametrize(
    ("error", "words"),
    [(PICKLE, "TypeError: cannot be pickled"), (CANCELLED, f"FutureCancelledError: {CANCELLED}")],
)
def test_an_error_of_a_client_whose_scheduler_answers_ends_one_fit(tmp_path, error, words):
    store, pool = Store(tmp_path), remote.DaskPool(Refusing("running", error), False, 1)
    (ended,) = run(COMMON, store, Options(str(tmp_path)), Recorder(), pool)
    assert (ended.outcome, ended.reason) == ("failed", f"Dask or its worker raised {words}".splitlines()[0])


@pytest.mark.parametrize(
    "client",
    [
        Refusing("closed", PICKLE),
        Refusing("running", CANCELLED, workers=None),
        Refusing("connecting", CancelledError()),
    ],
    ids=["closed", "silent", "connecting"],
)
def test_an_error_of_a_client_that_has_lost_its_scheduler_ends_the_run(tmp_path, client):
    with pytest.raises(BenchError, match="the Dask scheduler does not answer any more"):
        run(COMMON, Store(tmp_path), Options(str(tmp_path)), Recorder(), remote.DaskPool(client, False, 1))


def test_a_worker_uses_its_own_data_where_the_runs_folder_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv(remote.plugins.VARIABLE, str(tmp_path))
    options = Options("results", data_dir=tmp_path, approaches="/nowhere")
    found = remote._as_here(options)
    assert (found.data_dir, found.approaches) == (tmp_path, str(tmp_path))
    assert remote._as_here(dataclasses.replace(options, data_dir=Path("/nowhere"))).data_dir is None


@pytest.mark.parametrize(
    ("error", "cause", "words"),
    [
        (OSError("timed out"), OSError(111, "Connection refused"), "[Errno 111] Connection refused"),
        (OSError("timed out"), asyncio.CancelledError(), "timed out"),  # the first cause has no words
        (RuntimeError(), None, "RuntimeError"),
    ],
)
def test_a_scheduler_that_does_not_answer_is_told_in_the_words_of_the_first_cause_that_has_some(error, cause, words):
    error.__cause__ = cause
    text = remote._why_no_answer("tcp://127.0.0.1:1", error)
    assert f"no Dask scheduler answers at tcp://127.0.0.1:1 ({words})" in text
