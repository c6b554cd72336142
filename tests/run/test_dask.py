"""Workers of Dask: same numbers as in one process, over TLS, after a kill; refused clients; a scheduler that dies."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dask
import psutil
import pytest

from bench.core.errors import ConfigError
from bench.core.store import Store
from bench.plan.trained_runs import Selection, trained_runs
from bench.run import remote
from bench.run.events import Options, Recorded, Started
from bench.run.executors import open_executor
from bench.run.runner import run
from tests.run.toys import Recorder, assert_equal, results

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 600  # far more than anything takes here, on a machine as busy as may be
LOCAL = ("--host", "127.0.0.1", "--no-dashboard")
CHOSEN = trained_runs(Selection(approaches=("mlp", "toy_mlp"), recipes=("published",), profile="smoke"))


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
            answer, said = runs.communicate(timeout=PATIENCE_S)
    assert answer, said
    assert (answer.splitlines()[-1], runs.returncode) == ("2", 2)
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
