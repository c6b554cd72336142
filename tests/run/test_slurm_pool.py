"""Jobs of submitit with its local and debug executors: the numbers of one process, a job killed at work."""

import contextlib
import os
import signal

import pytest
import submitit

from bench.core.errors import ConfigError, WorkerCrashed
from bench.core.store import Store
from bench.plan.cells import Selection, cells
from bench.run.options import Options
from bench.run.remote.opening import open_executor
from bench.run.remote.slurm_pool import parameters
from bench.run.remote.task import make_task
from bench.run.runner import run
from tests.run.test_remote import Recorder, assert_equal, interpreter, results

CELLS = cells(Selection(approaches=("toy_mlp",), recipes=("published",), profile="smoke"))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Do not wait 15 seconds for the answer of a job that is dead."""
    monkeypatch.setattr(submitit.core.core.Job, "_results_timeout_s", 0)


@pytest.fixture(scope="module")
def inline(tmp_path_factory):
    root = tmp_path_factory.mktemp("inline")
    run(CELLS, Store(root), Options(str(root), threads=1), Recorder(), "inline")
    return results(Store(root))


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # the debug executor's own logs
@pytest.mark.parametrize("name", ["slurm-local", "slurm-debug"])
def test_jobs_give_the_numbers_of_one_process_and_one_may_be_killed(name, inline, tmp_path):
    """The first local job is killed, by the process that started the child, as soon as the child is heard."""
    killed = []

    def kill(event):
        if event["kind"] == "place" and not killed and name == "slurm-local":
            killed.append(event["parent"])
            os.kill(event["parent"], signal.SIGKILL)

    watcher, target = Recorder(kill), Store(tmp_path / "results")
    with contextlib.closing(open_executor(name, target.root)) as pool:
        ended = run(CELLS, target, Options(str(target.root)), watcher, pool)
    assert [result.outcome for result in ended] == ["done"] * len(CELLS)
    assert watcher.kinds().count("again") == len(killed)
    assert watcher.kinds().count("epoch") >= 1
    assert_equal(inline, results(target))
    assert [path.name for path in tmp_path.iterdir()] == ["results"]  # the jobs' folder and its pickles are gone


def test_jobs_that_die_are_given_up(tmp_path):
    python = interpreter(tmp_path, f"echo x >> {tmp_path}/deaths; kill -9 $PPID; exec sleep 60")
    with contextlib.closing(open_executor("slurm-local", tmp_path / "results")) as pool:
        job = {"kind": "work", "options": {"threads": None}}
        with pytest.raises(WorkerCrashed, match="3 jobs ended in turn"):
            list(pool.do(make_task(job, {}, python)))
    assert (tmp_path / "deaths").read_text() == "x\n" * 3


def test_parameters_are_numbers_or_words():
    assert parameters(["timeout_min=60", "slurm_partition=gpu"]) == {"timeout_min": 60, "slurm_partition": "gpu"}
    with pytest.raises(ConfigError, match="timeout_min=60"):
        parameters(["gpu"])
    assert parameters(["nice=-5"]) == {"nice": -5}


@pytest.mark.parametrize(
    ("name", "slurm", "words"),
    [
        ("slurm", [], "executor 'slurm' cannot be used"),
        ("slurm-local", ["no_such=1"], "executor 'slurm-local' cannot be used"),
        ("slurm-local", ["timeout_min=abc"], "executor 'slurm-local' cannot be used"),
        ("slurm-local", ["timeout_min=²"], "executor 'slurm-local' cannot be used"),
        ("process", ["timeout_min=1"], "--slurm is for the executors slurm, slurm-local, slurm-debug"),
    ],
)
def test_what_slurm_cannot_do_is_said(name, slurm, words, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # whatever this machine has
    with pytest.raises(ConfigError, match=words):
        open_executor(name, tmp_path / "results", slurm=slurm)
    assert list(tmp_path.iterdir()) == []
