"""Several fits at a time on this machine: the same numbers, crashes, interrupts, and the plan."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bench.cli.main import main
from bench.core.errors import ConfigError
from bench.core.reasons import in_words
from bench.core.store import Store
from bench.judge.gate import baseline
from bench.judge.gate.config import GATE, load_gate
from bench.plan.costs import time_for
from bench.plan.trained_runs import Selection, trained_runs
from bench.run import process
from bench.run.events import EpochEnded, Options, Recorded, Started
from bench.run.executors import FILES, MOST, Processes, most_at_once, open_executor, threads_of_a_fit
from bench.run.runner import run
from tests.run.toys import Recorder, assert_equal, chosen, put_waiting, results
from tests.stress import processes

needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
SMOKE = trained_runs(Selection(approaches=("mlp", "toy_mlp"), profile="smoke"))


def smoke(folder, executor, watcher=None):
    return run(SMOKE, Store(folder), Options(str(folder), threads=1), watcher or Recorder(), executor)


class AtOnce(Recorder):
    """Counts the fits that have begun and not ended."""

    def __init__(self):
        super().__init__()
        self.most, self._open = 0, {}

    def event(self, group, event):
        super().event(group, event)
        if isinstance(event, Started):
            self._open.setdefault(group[0].fit_key, {trained_run.key for trained_run in group})
        elif isinstance(event, Recorded):
            self._open[group[0].fit_key].discard(event.key)
        self.most = max(self.most, sum(map(bool, self._open.values())))


def two(name):
    """Return two fits, which an executor for two does at the same time."""
    return chosen(name, seeds=(0, 1), apart=True)


def test_two_at_a_time_give_the_numbers_of_one_after_the_other(tmp_path):
    watcher = AtOnce()
    at_once = smoke(tmp_path / "two", Processes(2), watcher)
    in_turn = smoke(tmp_path / "one", "inline")
    assert [result.outcome for result in at_once] == [result.outcome for result in in_turn] == ["done"] * 5
    assert_equal(results(Store(tmp_path / "two")), results(Store(tmp_path / "one")))
    assert len(watcher.groups) == 3
    # Three fits, two at a time: two are begun before any has ended, and never a third.
    assert watcher.most == 2


@needs_proc
def test_a_crash_harms_the_trained_runs_of_its_fit_alone(tmp_path):
    killed = []

    def act(event):
        if isinstance(event, Started) and not killed:
            killed.append(event.key)
            server = next(pid for pid in processes.children(os.getpid()) if processes.children(pid))
            os.kill(processes.children(server)[0], signal.SIGKILL)

    failed = [result for result in smoke(tmp_path, Processes(2), Recorder(act)) if result.outcome == "failed"]
    assert 1 <= len(failed) <= 2
    assert len({result.trained_run.fit_key for result in failed}) == 1
    assert all("SIGKILL" in result.reason for result in failed)


@needs_proc
def test_an_exception_ends_the_processes_and_makes_no_record_of_a_failure(tmp_path, monkeypatch, look_again):
    def act(event):
        if isinstance(event, EpochEnded):
            raise ZeroDivisionError

    put_waiting(tmp_path, monkeypatch)
    root = tmp_path / "results"
    with pytest.raises(ZeroDivisionError):
        run(two("waits"), Store(root), Options(str(root), threads=1), Recorder(act), Processes(2))
    assert Store(root).all_records() == ([], [])
    assert processes.grandchildren(os.getpid()) == []


INTERRUPTIBLE = (  # a shell that runs something in the background has it ignore Ctrl-C
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from bench.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


@needs_proc
def test_ctrl_c_ends_all_of_them_and_the_same_command_goes_on(tmp_path, monkeypatch, look_again):
    put_waiting(tmp_path, monkeypatch)
    root = tmp_path / "results"
    words = ["waits", "--seeds", "2", "--apart", "--workers", "2", "--results", str(root), "--quiet"]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "run", *words, "--checkpoint-every", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=processes.PACKAGE,
    ) as process:
        while len(list(root.glob("fits/*/checkpoint.safetensors"))) < 2:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        at_work = processes.grandchildren(process.pid)
        assert len(at_work) == 2
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate()[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert not any(map(processes.is_alive, at_work))
    assert Store(root).all_records() == ([], [])
    assert len(list(root.glob("fits/*/checkpoint.safetensors"))) == 2  # where the next call goes on


@needs_proc
def test_ctrl_c_while_the_fork_server_imports_is_one_line(tmp_path):
    words = ["uniform", "--profile", "smoke", "--results", str(tmp_path), "--quiet"]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "run", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=processes.PACKAGE,
    ) as process:
        while not any("forkserver" in " ".join(child.cmdline()) for child in psutil.Process(process.pid).children()):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate()[1]
    assert process.returncode == 130
    assert said.strip().splitlines() == [
        "interrupted; records and checkpoints are kept, and the same command uses them"
    ]


def test_a_gate_of_several_workers_shares_the_cores(monkeypatch, tmp_path):
    calls = []

    def note(chosen, store, options, watcher, executor):
        calls.append((executor.width(), options.threads))

    monkeypatch.setattr(baseline, "run", note)
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    baseline.run_fresh(load_gate(GATE), tmp_path, None, Recorder(), workers=2)
    assert calls == [(2, 1)]


def test_one_gpu_is_not_shared():
    with pytest.raises(ConfigError, match="start a run for each GPU"):
        open_executor("process", "cuda", workers=2)


@pytest.mark.parametrize(
    ("name", "threads", "workers", "expected"),
    [
        ("process", None, None, None),  # one fit at a time has all cores
        ("process", None, 1, None),
        ("process", None, 2, 4),
        ("process", None, 3, 2),
        ("process", None, 99, 1),
        ("process", 3, 2, 3),
        ("dask://host:1", None, 2, None),  # its workers say how many
    ],
)
def test_a_fits_threads_are_its_share_of_the_cores(name, threads, workers, expected, monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: 8)
    assert threads_of_a_fit(name, threads, workers) == expected


def test_time_for_jobs_by_hand():
    """5 and 3 begin. At 3, 4 begins and ends at 7. At 5, 2 begins and ends at 7. One more of 1 ends at 8."""
    assert time_for([5, 3, 4, 2], 2) == 7
    assert time_for([5, 3, 4, 2, 1], 2) == 8
    assert time_for([5, 3, 4, 2], 1) == 14
    assert time_for([5, 3], 9) == 5
    assert time_for([], 2) == 0
    assert time_for([5, 3], 10**12) == 5


def test_times_of_fits_at_a_time_do_not_count(tmp_path):
    """Even if no other fit runs at this moment: a fit that has half of the cores does not show the speed of all."""
    (trained_run,) = trained_runs(
        Selection(approaches=("toy_mlp",), protocols=("published",), profile="smoke", apart=True)
    )
    process.work([trained_run], Options(str(tmp_path), at_once=2), lambda event: None)
    assert "2 fits at a time" in in_words(*Store(tmp_path).all_records()[0][0].timings.reasons)


def test_a_plan_for_two_at_a_time(tmp_path, capsys):
    """The trained runs of one fit are one job. With two jobs at a time, the plan takes as long as the longer one."""
    planned = {}
    for workers in ("1", "2"):
        arguments = ["plan", "mlp", "--threads", "1", "--workers", workers, "--results", str(tmp_path), "--json"]
        assert main(arguments) == 0
        planned[workers] = json.loads(capsys.readouterr().out)
    jobs = {"published": 0.0, "corrected": 0.0}
    for row in planned["2"]["trained runs"]:
        jobs["corrected" if "corrected" in row["trained run"] else "published"] += row["training"] + row["measuring"]
    assert planned["2"]["expected_s"] == pytest.approx(max(jobs.values()))
    assert planned["1"]["expected_s"] == pytest.approx(
        sum(row["training"] + row["measuring"] for row in planned["1"]["trained runs"])
    )


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "most"),
    [
        (256, 4096, 4096, 4096 // FILES),
        (1024, resource.RLIM_INFINITY, MOST * FILES, MOST),
        (1 << 20, 1 << 20, None, MOST),
        (8, 8, None, 1),
    ],
)
def test_no_more_seed_batches_at_a_time_than_there_are_open_files_for(soft, hard, raised, most, monkeypatch):
    limits = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))
    assert most_at_once() == most
    assert limits == ([] if raised is None else [(raised, hard)])
