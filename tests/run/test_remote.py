"""Fits elsewhere: a child's words and deaths, a fit's files on their way, workers of Dask and one that is killed."""

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.cli.main import main
from bench.core.errors import BenchError, ConfigError, OutOfTime, StoreError, WorkerCrashed
from bench.core.store import Store
from bench.plan import plugins, registry
from bench.plan.cells import Selection, cells
from bench.run import process
from bench.run.options import Options
from bench.run.remote import __main__ as remote
from bench.run.remote import jobs, opening
from bench.run.remote.child import in_child
from bench.run.remote.parcels import deliver, outgoing
from bench.run.remote.task import do_task, make_task
from bench.run.runner import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMOKE = cells(Selection(approaches=("mlp",), recipes=("published",), profile="smoke"))


class Recorder:
    """A watcher that keeps the events, and may act on one."""

    def __init__(self, act=lambda event: None):
        self.events, self.act = [], act

    def begin(self, groups, done):
        pass

    def event(self, group, event):
        self.events.append(event)
        self.act(event)

    def finish(self):
        pass

    def kinds(self):
        return [event["kind"] for event in self.events]


def interpreter(folder, text):
    """Return a program that is started in place of Python."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def results(store):
    """Return by name all that was measured and learnt, without times."""
    records, problems = store.all_records()
    assert problems == []
    found = {}
    for record in records:
        epochs = [(epoch.epoch, epoch.metrics) for epoch in record.epochs]
        learnt = store.read_tensors(store.fit_path(record.fit_key, "posterior"))[0]
        scores = store.scores(record)
        assert scores or (record.approach, record.protocol) != ("mlp", "common")
        name = (record.approach, record.recipe, record.protocol, record.seed)
        found[name] = (record.metrics, record.arrays, epochs, learnt, scores)
    return found


def assert_equal(left, right):
    assert left.keys() == right.keys()
    for name, (metrics, arrays, epochs, learnt, scores) in left.items():
        other = right[name]
        assert (metrics, arrays, epochs) == other[:3], name
        assert learnt.keys() == other[3].keys()
        assert all(torch.equal(value, other[3][key]) for key, value in learnt.items()), name
        assert scores.keys() == other[4].keys()
        assert all(np.array_equal(value, other[4][key]) for key, value in scores.items()), name


# a child


def listen(python, **options):
    return list(in_child(python, {"kind": "none"}, **options))


def test_a_child_is_heard_line_by_line(tmp_path):
    said = 'read job; printf \'{"kind": "a"}\\n{"ki\'; sleep 0.1; printf \'nd": "b"}\\n{"kind": "end"}\\n\'; sleep 60'
    start = time.monotonic()
    assert [event for event in listen(interpreter(tmp_path, said)) if event["kind"] != "tick"] == [
        {"kind": "a"},
        {"kind": "b"},
    ]
    assert time.monotonic() - start < 30  # what goes on after its last word is ended


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("kill -SEGV $$", WorkerCrashed, "ended by SIGSEGV"),
        ("echo 'no module named bench' >&2; exit 3", WorkerCrashed, "exit code 3: no module named bench"),
        ("echo hello", WorkerCrashed, "what is no event: b'hello'"),
        ("echo '[1]'", WorkerCrashed, "what is no event"),
        ('echo \'{"kind": "refused", "reason": "other code"}\'', WorkerCrashed, "other code"),
        ('echo \'{"kind": "error", "message": "disk full"}\'', StoreError, "disk full"),
        ("sleep 60", OutOfTime, "--time-limit"),
    ],
)
def test_how_a_child_ends_is_said(tmp_path, text, error, words):
    with pytest.raises(error, match=words.replace("[", r"\[")):
        listen(interpreter(tmp_path, text), time_limit_s=None if error is not OutOfTime else 0.3)


def test_an_interpreter_that_is_not_there():
    with pytest.raises(WorkerCrashed, match="/no/python does not start"):
        listen("/no/python")


WAITS = (
    "import os, subprocess as s, sys;"
    "child = s.Popen([sys.executable, '-m', 'bench.run.remote', str(os.getpid())], stdout=s.DEVNULL);"
    "print(child.pid, flush=True); child.wait()"
)


def test_a_child_ends_with_the_process_that_started_it():
    """Its input stays open, here, so that only the end of its parent can tell it."""
    parent = subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with parent:
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 20
        while is_running(child) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not is_running(child)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_childs_memory_is_bounded_and_the_callers_approaches_are_known_to_it(tmp_path, monkeypatch):
    for suffix in (".py", ".toml"):
        shutil.copy(EXAMPLES / f"mc_dropout{suffix}", tmp_path / f"mine{suffix}")
    monkeypatch.setenv(plugins.VARIABLE, str(tmp_path))
    registry._look.cache_clear()
    (cell,) = cells(Selection(approaches=("mine",), recipes=("published",), protocols=("common",), profile="smoke"))
    job = jobs.work_job([cell], Options(str(tmp_path / "results"), memory_mib=123.0))
    monkeypatch.setenv(plugins.VARIABLE, "")
    registry._look.cache_clear()
    bounds, done = [], []
    monkeypatch.setattr(process, "bound_memory", lambda options: bounds.append(options.memory_mib))
    monkeypatch.setattr(process, "work", lambda todo, options, send: done.extend(todo))
    remote._do(job, lambda event: None)
    registry._look.cache_clear()
    assert (bounds, done) == ([123.0], [cell])


# a job and its files


def test_cells_survive_json():
    chosen = [*SMOKE, *cells(Selection(approaches=("linear_bbb", "mxnet_bbb"), seeds=(0, 3)))]
    again = jobs.cells_of(json.loads(json.dumps(jobs.plain_cells(chosen))))
    assert [cell.naming() for cell in again] == [cell.naming() for cell in chosen]
    for cell, other in zip(chosen, again, strict=True):
        assert {**vars(cell), "values": None} == {**vars(other), "values": None}
        assert json.dumps(cell.values) == json.dumps(other.values)
    selection = Selection(approaches=("mlp",), seeds=(1, 2), apart=True)
    assert jobs.selection_of(json.loads(json.dumps(vars(selection)))) == selection


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("harness", "0", "code of the harness"),
        ("approach", "0", "code of the approach"),
        ("data", {}, "manifests of the data sets"),
        ("there", ["mnist", "other"], "data set 'other' is not on"),
    ],
)
def test_a_machine_that_would_give_other_numbers_is_refused(field, value, words):
    found = jobs.here("mlp", None)
    jobs.check(found, found)
    with pytest.raises(ConfigError, match=words):
        jobs.check({**found, field: value}, found)


@pytest.fixture(scope="module")
def inline(tmp_path_factory):
    """Results of two approaches, fitted in this process."""
    root = tmp_path_factory.mktemp("inline")
    chosen = cells(Selection(approaches=("mlp", "toy_mlp"), recipes=("published",), profile="smoke"))
    run(chosen, Store(root), Options(str(root), threads=1), Recorder(), "inline")
    return chosen, Store(root)


def parcel(store, chosen):
    group = [cell for cell in chosen if cell.approach == "mlp"]
    files = outgoing(store, group)
    for cell in group:
        path = store.record_path(cell.naming())
        for each in (path, path.with_suffix(".npz")):
            if each.exists():
                files[each.relative_to(store.root).as_posix()] = each.read_bytes()
    return group, files


@pytest.mark.parametrize("damage", ["its beginning", "its owner"])
def test_a_posterior_that_cannot_be_trusted_stays_here_and_is_set_aside(damage, inline, tmp_path):
    chosen, store = inline
    group = [cell for cell in chosen if cell.approach == "mlp"]
    target = Store(tmp_path)
    path, other = (target.fit_path(key, "posterior") for key in (group[0].fit_key, "0" * 64))
    tensors, info = store.read_tensors(store.fit_path(group[0].fit_key, "posterior"))
    target.write_tensors(path, tensors, info if damage == "its beginning" else {**info, "fit_key": other.parent.name})
    if damage == "its beginning":
        path.write_bytes(b"MARK" + path.read_bytes()[4:])
    content = path.read_bytes()
    assert outgoing(target, group) == {}
    (kept,) = [each for each in (tmp_path / "quarantine").iterdir() if each.name != "reasons.txt"]
    assert kept.read_bytes() == content


def test_a_parcel_brings_everything_and_nothing_else(inline, tmp_path):
    chosen, store = inline
    group, files = parcel(store, chosen)
    strange = {"../outside": b"x", "/etc/outside": b"x", "records/mlp/other.json": b"{}", "fits/0/posterior": b"x"}
    target = Store(tmp_path / "results")
    assert deliver(target, group, {**files, **strange}).keys() == {cell.key for cell in group}
    expected = {name: value for name, value in results(store).items() if name[0] == "mlp"}
    assert_equal(expected, results(target))
    assert len(list(target.root.rglob("*.*"))) == len(files)
    assert not (tmp_path / "outside").exists()


def test_damaged_files_of_a_parcel_count_as_absent(inline, tmp_path):
    chosen, store = inline
    group, files = parcel(store, chosen)
    spoilt = {name: content[: len(content) // 2] for name, content in files.items()}
    target = Store(tmp_path)
    assert deliver(target, group, spoilt) == {}
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_record_of_another_cell_is_not_taken(inline, tmp_path):
    chosen, store = inline
    (first, second), files = parcel(store, chosen)
    names = [store.record_path(cell.naming()).relative_to(store.root).as_posix() for cell in (first, second)]
    assert deliver(Store(tmp_path), [first], {names[0]: files[names[1]]}) == {}


# names of executors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--executor", "dusk"], "did you mean 'dask'"),
        (["--executor", "dask://nowhere"], "unknown executor"),
        (["--executor", "dask://127.0.0.1:1"], "no Dask scheduler answers at 127.0.0.1:1"),
        (["--executor", "inline", "--workers", "2"], "--workers is not for executor 'inline'"),
        (["--workers", "0"], "is not a count"),
    ],
)
def test_what_cannot_be_opened_is_one_line(arguments, words, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bench.run.remote.dask_pool.CONNECT_S", 0.5)
    assert main(["run", "uniform", "--profile", "smoke", "--results", str(tmp_path), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_gpus_are_those_that_this_process_may_see(monkeypatch):
    assert opening.gpus({"CUDA_VISIBLE_DEVICES": "2, GPU-5f"}) == ("2", "GPU-5f")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert opening.gpus({}) == ("0", "1")
    with pytest.raises(ConfigError, match="no CUDA device"):
        opening.gpus({"CUDA_VISIBLE_DEVICES": ""})


# Dask


@contextlib.contextmanager
def processes():
    """Start programs of Python, and kill what is left of them at the end."""
    started = []

    def start(*arguments, **environ):
        command = [sys.executable, "-m", *arguments]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started.append(subprocess.Popen(command, env={**os.environ, **environ}, **silent))
        return started[-1]

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_scheduler_and_its_workers_give_the_numbers_of_one_process_though_one_is_killed(inline, tmp_path):
    """Real processes on the loopback; the worker of the first fit is killed while its child trains or imports."""
    chosen, store = inline
    contact, target = tmp_path / "scheduler.json", Store(tmp_path / "results")
    killed = []

    def kill(event):
        if event["kind"] == "place" and not killed:
            killed.append(event["parent"])
            os.kill(event["parent"], signal.SIGKILL)

    with processes() as start:
        local = ("--host", "127.0.0.1", "--no-dashboard")
        gone = ("--death-timeout", "60")  # neither outlives a test that is killed
        lonely = ("--idle-timeout", "300s")
        start("distributed.cli.dask_scheduler", *local, *lonely, "--port", "0", "--scheduler-file", str(contact))
        for _ in range(2):
            worker = ("--scheduler-file", str(contact), "--nthreads", "1", "--no-nanny", "--memory-limit", "0", *gone)
            start("distributed.cli.dask_worker", *local, *worker, "--local-directory", str(tmp_path / "scratch"))
        deadline = time.monotonic() + 60
        while not contact.exists() or not contact.read_text().strip():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        address = json.loads(contact.read_text())["address"].removeprefix("tcp://")
        watcher = Recorder(kill)
        with contextlib.closing(opening.open_executor(f"dask://{address}", target.root)) as pool:
            ended = run(chosen, target, Options(str(target.root)), watcher, pool)
            assert pool.width() == 1  # the other is gone
    assert {result.outcome for result in ended} == {"done"}
    assert watcher.kinds().count("again") == 1
    assert watcher.kinds().count("record") == len(chosen)
    assert {"start", "epoch", "measure", "fleet"} <= set(watcher.kinds())
    assert_equal(results(store), results(target))


@pytest.fixture(scope="module")
def pool():
    """A cluster of this machine whose two workers have a GPU each, as far as they know."""
    from bench.run.remote.dask_pool import start_local

    with contextlib.closing(start_local(0, devices=("3", "GPU-7"))) as made:
        yield made


def done(pool, python, limit_s=None):
    """Return the events of a task, done by a program in place of Python, and the answer or the error."""
    events = []
    job = {"kind": "work", "options": {"threads": 2}}
    generator = pool.do(make_task(job, {}, python, limit_s))
    try:
        while True:
            events.append(next(generator))
    except StopIteration as end:
        return events, end.value
    except BenchError as error:
        return events, error


def test_a_worker_has_one_gpu_and_a_fit_as_many_threads_as_asked_for(pool, tmp_path):
    assert pool.width() == 2
    text = 'echo "{\\"kind\\": \\"seen\\", \\"gpu\\": \\"$CUDA_VISIBLE_DEVICES\\", \\"threads\\": $OMP_NUM_THREADS}"'
    python = interpreter(tmp_path, f'{text}; sleep 1; echo \'{{"kind": "end"}}\'')
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(done(pool, python))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [event for events, _ in seen for event in events if event["kind"] == "seen"]
    assert {event["gpu"] for event in told} == {"3", "GPU-7"}
    assert {event["threads"] for event in told} == {2}
    assert [answer["failure"] for _, answer in seen] == ["", ""]


def test_a_task_that_kills_every_worker_is_given_up(pool, tmp_path):
    _, error = done(pool, interpreter(tmp_path, f"echo x >> {tmp_path}/deaths; kill -9 $PPID; sleep 60"))
    assert isinstance(error, WorkerCrashed)
    assert "3 workers died in turn" in str(error)
    assert (tmp_path / "deaths").read_text() == "x\n" * 3


def test_a_child_that_crashes_does_not_harm_its_worker(tmp_path):
    python = interpreter(tmp_path, "kill -SEGV $$")
    answer = do_task(make_task({"options": {"threads": None}}, {}, python), lambda event: None)
    assert answer == {"files": {}, "failure": "its process was ended by SIGSEGV", "out_of_time": False}


def test_a_task_that_nobody_waits_for_ends_its_child(tmp_path):
    start = time.monotonic()
    task = make_task({"options": {"threads": None}}, {}, interpreter(tmp_path, "exec sleep 60"))
    answer = do_task(task, lambda event: None, wanted=lambda: False)
    assert "nobody waits" in answer["failure"]
    assert time.monotonic() - start < 30
