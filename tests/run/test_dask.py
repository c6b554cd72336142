"""Workers of Dask: same numbers as in one process, over TLS, after a kill; refused clients; a scheduler that dies."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask
import psutil
import pytest

from bench.core.errors import BenchError, ConfigError, FitCrashed
from bench.core.store import Store
from bench.plan.cells import Selection, cells
from bench.run.events import AtWork, Measuring, Placed, Recorded, Replaced, Started
from bench.run.jobs import work_job
from bench.run.options import Options
from bench.run.remote import dask_pool
from bench.run.remote.opening import open_executor
from bench.run.remote.task import FitAnswer, FitTask, do_task
from bench.run.runner import run
from tests.run.watching import Recorder, assert_equal, interpreter, results

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 600  # far more than anything takes here, on a machine as busy as may be
LOCAL = ("--host", "127.0.0.1", "--no-dashboard")
CHOSEN = cells(Selection(approaches=("mlp", "toy_mlp"), recipes=("published",), profile="smoke"))


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
    """Scheduler and workers are real processes. The worker of the first fit is killed as soon as its child starts."""
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    run(CHOSEN, here, Options(str(here.root), threads=1), Recorder(), "inline")
    options, setting = certificates(tmp_path / "ours")
    _, of_others = certificates(tmp_path / "others")
    killed = []

    def kill(event):
        if isinstance(event, Placed) and not killed:
            killed.append(event.parent)
            os.kill(event.parent, signal.SIGKILL)

    monkeypatch.setattr(dask_pool, "CONNECT_S", PATIENCE_S)
    with processes() as start:
        _, address = scheduler(start, tmp_path, *options["scheduler"], "--protocol", "tls")
        for _ in range(2):
            worker = (f"tls://{address}", *LOCAL, "--nthreads", "1", "--no-nanny", "--memory-limit", "0")
            folder = ("--local-directory", str(tmp_path / "scratch"), "--death-timeout", str(PATIENCE_S))
            start("distributed.cli.dask_worker", *worker, *folder, *options["worker"])
        assert_refused(address, setting, of_others)
        watcher = Recorder(kill)
        with dask.config.set(setting), contextlib.closing(open_executor(f"tls://{address}")) as pool:
            ended = run(CHOSEN, there, Options(str(there.root)), watcher, pool)
            assert pool.width() == 1  # the other is gone
    assert {result.outcome for result in ended} == {"done"}
    assert len(watcher.of(Replaced)) == 1
    assert len(watcher.of(Recorded)) == len(CHOSEN)
    assert all(watcher.of(kind) for kind in (Started, Measuring, AtWork))  # not EpochEnded: the epochs are too short
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
            patch.setattr(dask_pool, "CONNECT_S", seconds)
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
            assert any("fleet" in line for line in runs.stdout)
            process.kill()
            told, said = runs.communicate(timeout=PATIENCE_S)
    assert (told.splitlines()[-1], runs.returncode) == ("2", 2)
    died, unreached = said.splitlines()
    assert died == "error: the Dask scheduler does not answer any more; the same command goes on where it stopped"
    assert unreached.startswith("error: tls://127.0.0.1:9 needs a certificate; ")


@pytest.fixture(scope="module")
def pool():
    """A cluster on this machine with two workers, each for one GPU. No GPU needs to exist."""
    with contextlib.closing(dask_pool.start_local(0, devices=("3", "GPU-7"))) as made:
        yield made


def fit_task(python):
    return FitTask(work_job(CHOSEN[:1], Options("elsewhere", threads=2)), {}, python)


def done(pool, python):
    """Let a worker do a task with the program `python`; return the events, and the answer or the error."""
    events, generator = [], pool.do(fit_task(python))
    try:
        while True:
            events.append(next(generator))
    except StopIteration as end:
        return events, end.value
    except BenchError as error:
        return events, error


def test_a_worker_has_one_gpu_and_a_fit_as_many_threads_as_asked_for(pool, tmp_path):
    assert pool.width() == 2
    place = '{\\"kind\\":\\"place\\",\\"host\\":\\"h\\",\\"pid\\":$OMP_NUM_THREADS,\\"parent\\":0'
    text = f'echo "{place},\\"gpu\\":\\"$CUDA_VISIBLE_DEVICES\\"}}"; sleep 1; echo \'{{"kind":"end"}}\''
    python, seen = interpreter(tmp_path, text), []
    threads = [threading.Thread(target=lambda: seen.append(done(pool, python))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [event for events, _ in seen for event in events if isinstance(event, Placed)]
    assert {event.gpu for event in told} == {"3", "GPU-7"}
    assert {event.pid for event in told} == {2}  # the program writes its number of threads in this field
    assert [answer.failure for _, answer in seen] == ["", ""]


def test_a_task_that_kills_every_worker_is_given_up(pool, tmp_path):
    _, error = done(pool, interpreter(tmp_path, f"echo x >> {tmp_path}/deaths; kill -9 $PPID; sleep 60"))
    assert isinstance(error, FitCrashed)
    assert "3 workers died in turn" in str(error)
    assert (tmp_path / "deaths").read_text() == "x\n" * 3


def test_a_child_that_crashes_does_not_harm_its_worker_and_its_output_comes_back(tmp_path):
    answer = do_task(fit_task(interpreter(tmp_path, "echo why >&2; kill -SEGV $$")), lambda event: None)
    assert answer == FitAnswer({}, "its process was ended by SIGSEGV", printed="why")


def test_a_task_that_the_run_has_released_ends_its_child(tmp_path):
    program = interpreter(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 600")
    answer = do_task(fit_task(program), lambda event: None, wanted=lambda: (tmp_path / "pid").exists() is False)
    assert "does not wait for it any more" in answer.failure
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
