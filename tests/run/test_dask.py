"""Workers of Dask: same numbers as in one process, over TLS, after a kill; refused clients; a scheduler that dies."""

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dask
import msgspec
import psutil
import pytest

from bench.core.errors import BenchError, ConfigError, FitCrashed, OutOfTime, StoreError
from bench.core.files import write_atomically
from bench.core.store import Store
from bench.plan.trained_runs import Selection, trained_runs
from bench.run import remote
from bench.run.events import Options, Recorded, Started
from bench.run.executors import open_executor
from bench.run.remote import Answer, Task, check_same, code_and_data, do_task
from bench.run.runner import run
from tests.run.watching import Recorder, assert_equal, results
from tools.archive import archive_folder

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 600  # far more than anything takes here, on a machine as busy as may be
LOCAL = ("--host", "127.0.0.1", "--no-dashboard")
CHOSEN = trained_runs(Selection(approaches=("mlp", "toy_mlp"), recipes=("published",), profile="smoke"))
COMMON = [trained_run for trained_run in CHOSEN if (trained_run.approach, trained_run.protocol) == ("mlp", "common")]


@contextlib.contextmanager
def processes():
    """Yield a function that starts `python -m ...`; at the end, kill the processes that it started."""
    started = []

    def start(*arguments):
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": ROOT}
        started.append(subprocess.Popen([sys.executable, "-m", *arguments], **silent))
        return started[-1]

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.wait()


def scheduler(start, folder, *arguments):
    """Start a scheduler that ends by itself if the test is killed; return its process and HOST:PORT."""
    contact = folder / "scheduler.json"
    more = ("--port", "0", "--idle-timeout", "300s", "--scheduler-file", str(contact))
    process = start("distributed.cli.dask_scheduler", *LOCAL, *more, *arguments)
    deadline = time.monotonic() + PATIENCE_S
    while not contact.exists() or not contact.read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process, json.loads(contact.read_text())["address"].partition("://")[2]


def certificates(folder):
    """Write certificates of a new authority; return the options of Dask's programs and its configuration for them."""
    pytest.importorskip("cryptography")
    from distributed.security import Security

    made = Security.temporary()
    folder.mkdir()

    def put(name):
        (folder / name).write_text(getattr(made, f"tls_{name}"))
        return str(folder / name)

    authority = put("ca_file")
    roles = {
        role: {kind: put(f"{role}_{kind}") for kind in ("cert", "key")} for role in ("client", "worker", "scheduler")
    }
    tls = "distributed.comm.tls"
    setting = {"distributed.comm.require-encryption": True, f"{tls}.ca-file": authority}
    setting |= {f"{tls}.{role}.{kind}": path for role, files in roles.items() for kind, path in files.items()}
    options = {
        role: ("--tls-ca-file", authority, "--tls-cert", files["cert"], "--tls-key", files["key"])
        for role, files in roles.items()
    }
    return options, setting


def test_over_tls_two_workers_give_the_numbers_of_one_process_though_one_is_killed(tmp_path, monkeypatch):
    """Scheduler and workers are real processes. A worker is killed while its child process works."""
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    run(CHOSEN, here, Options(str(here.root), threads=1), Recorder(), "inline")
    options, setting = certificates(tmp_path / "ours")
    _, of_others = certificates(tmp_path / "others")
    workers, killed = [], []

    def kill(event):
        at_work = [] if killed else [each for each in workers if len(each.children(recursive=True)) > 1]
        if at_work:  # a fork server and its child
            killed.append(at_work[0])
            at_work[0].kill()

    monkeypatch.setattr(remote, "CONNECT_S", PATIENCE_S)
    with processes() as start:
        _, address = scheduler(start, tmp_path, *options["scheduler"], "--protocol", "tls")
        for _ in range(2):
            worker = (f"tls://{address}", *LOCAL, "--nthreads", "1", "--no-nanny", "--memory-limit", "0")
            folder = ("--local-directory", str(tmp_path / "scratch"), "--death-timeout", str(PATIENCE_S))
            workers.append(
                psutil.Process(start("distributed.cli.dask_worker", *worker, *folder, *options["worker"]).pid)
            )
        assert_refused(address, setting, of_others)
        watcher = Recorder(kill)
        with dask.config.set(setting), contextlib.closing(open_executor(f"tls://{address}")) as pool:
            ended = run(CHOSEN, there, Options(str(there.root)), watcher, pool)
            assert len(killed) == 1
            assert pool.width() == 1  # the other is gone
    assert {result.outcome for result in ended} == {"done"}
    assert len(watcher.of(Recorded)) == len(CHOSEN)
    assert watcher.of(Started)
    assert_equal(results(here), results(there))


def assert_refused(address, setting, of_others):
    """A client is refused without encryption, without a certificate, and with one of another authority."""
    for name, given, seconds, words in (
        ("dask", {}, 1, "no Dask scheduler answers"),  # Dask tries until CONNECT_S is over
        ("dask", setting, PATIENCE_S, "encryption required"),
        ("tls", {}, PATIENCE_S, "needs a certificate"),
        ("tls", of_others, PATIENCE_S, "certificate verify failed"),
    ):
        with pytest.MonkeyPatch.context() as patch, dask.config.set(given):
            patch.setattr(remote, "CONNECT_S", seconds)
            with pytest.raises(ConfigError, match=words) as caught:
                open_executor(f"{name}://{address}")
        assert "\n" not in str(caught.value)


SOMEBODY_THEN_NOBODY = """
import sys
from bench.cli.main import main
print(main(sys.argv[1:]), flush=True)
sys.exit(main(["run", "uniform", "--executor", "tls://127.0.0.1:9"]))
"""


def test_a_scheduler_that_dies_and_a_connection_that_cannot_be_made_end_a_run_in_one_line_each(tmp_path):
    """One process makes two runs: the fits of the first wait for a worker, and the second has no certificate.

    No message of asyncio or Dask may reach the terminal, even when Python ends with a client that never connected.
    """
    with processes() as start:
        process, address = scheduler(start, tmp_path)
        words = ["run", "uniform", "--profile", "smoke", "--json", "--results", str(tmp_path / "results")]
        command = [sys.executable, "-c", SOMEBODY_THEN_NOBODY, *words, "--executor", f"dask://{address}"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
        with subprocess.Popen(command, **pipes) as runs:
            assert any('"start"' in line for line in runs.stdout)
            process.kill()
            told, said = runs.communicate(timeout=PATIENCE_S)
    assert told, said
    assert (told.splitlines()[-1], runs.returncode) == ("2", 2)
    died, unreached = said.splitlines()
    assert died == "error: the Dask scheduler does not answer any more; the same command goes on where it stopped"
    assert unreached.startswith("error: tls://127.0.0.1:9 needs a certificate; ")


def test_a_task_that_kills_every_worker_is_given_up(tmp_path):
    """The task is not a fit: its options have no place to work in, which the pickle of the worker notices."""
    with processes() as start:
        _, address = scheduler(start, tmp_path)
        start("distributed.cli.dask_worker", f"tcp://{address}", *LOCAL, "--nthreads", "3", "--memory-limit", "0")
        with contextlib.closing(open_executor(f"dask://{address}")) as pool:
            while pool.width() < 3:
                time.sleep(0.05)
            store = Store(tmp_path / "results")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(remote, "_on_worker", kills_its_worker)
                (ended,) = run(CHOSEN[-1:], store, Options(str(store.root)), Recorder(), pool)
    assert "4 workers died in turn while they ran it" in ended.reason


def kills_its_worker(task):
    os.kill(os.getpid(), signal.SIGKILL)


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
    monkeypatch.setattr(remote, "manifests", dict)
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
    """A client that can submit nothing."""

    def __init__(self, status):
        self.status = status

    def submit(self, *_, **__):
        raise TypeError("cannot be pickled\nat all")


def test_only_an_error_of_a_client_that_has_lost_its_scheduler_ends_the_run(tmp_path):
    store = Store(tmp_path)
    (ended,) = run(COMMON, store, Options(str(tmp_path)), Recorder(), remote.DaskPool(Refusing("running"), False, 1))
    assert (ended.outcome, ended.reason) == ("failed", "Dask or its worker raised TypeError: cannot be pickled")
    with pytest.raises(BenchError, match="the Dask scheduler does not answer any more"):
        run(COMMON, store, Options(str(tmp_path)), Recorder(), remote.DaskPool(Refusing("closed"), False, 1))


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
