"""A child process that fits: what it does for a GPU, its memory, what it prints, the approaches that it knows."""

import dataclasses
import gc
import json
import os
import platform
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch

from bench.core.store import Store
from bench.plan import plugins, registry
from bench.plan.trained_runs import Selection, trained_runs
from bench.run import child, contexts, fitting, process
from bench.run.events import EpochEnded, Measuring, Options, Recorded, Started
from bench.run.runner import run
from tests.run.toys import ROOT, TOY, Recorder, outside, put

MLP = trained_runs(Selection(approaches=("mlp",), profile="smoke"))[0]


def on(device):
    return dataclasses.replace(MLP, device=device)


def contexts_of(trained_run, store):
    """Return the contexts of a seed batch that measures nothing and has no checkpoint."""
    options, measures = Options(str(store.root)), [lambda posterior, epoch: {}]
    return contexts.SeedBatch([trained_run], store, store.root / "none", measures, lambda event: None, options).contexts


def test_training_rows_are_sent_to_the_device_at_once_and_their_names_stay():
    train, rows, task = fitting._load_train([on("meta")], Options("unused"))
    assert rows is None
    assert (train.x.device.type, train.y.device.type, train.rows.device.type) == ("meta", "meta", "cpu")
    assert len(train) == task.n_train == 60_000


def test_the_clock_of_an_epoch_waits_for_the_gpu(tmp_path, monkeypatch):
    """The GPU works on the epoch until second 5, and on measuring until second 7. The CPU is done at once."""
    clock = {"now": 0.0}
    busy_until = iter([5.0, 7.0])
    monkeypatch.setattr(contexts.time, "perf_counter", lambda: clock["now"])
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: clock.update(now=next(busy_until)))

    (context,) = contexts_of(on("cuda"), Store(tmp_path))
    context.epoch_end(1, {"loss": 1.0}, lambda: None, dict)
    assert context.epochs[0].seconds == 5.0
    assert context.epochs[0].with_measuring_s == 7.0


def test_a_resumed_state_lies_on_the_device_of_the_fit(tmp_path, monkeypatch):
    store, trained_run = Store(tmp_path), on("meta")
    (context,) = contexts_of(trained_run, store)
    kept = {f"{context.name}/weights": torch.ones(2), f"{context.name}/step": torch.tensor(3.0)}  # a fused Adam's count
    seeds = {context.name: {"epochs": [], "diverged": None}}
    info = {"epoch": 4, "seeds": seeds, "fit_keys": {}, "versions": {"recipe": {"published": 1}}}
    monkeypatch.setattr(store, "read_tensors", lambda *_: (kept, info))
    epoch, state = context.restore()
    assert epoch == 4
    assert {name: (tuple(t.shape), t.device.type) for name, t in state.items()} == {
        "weights": ((2,), "meta"),
        "step": ((), "meta"),
    }


def test_peak_memory_of_a_gpu_is_that_of_its_tensors(monkeypatch):
    forgotten = []
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3 * 2**20)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", forgotten.append)
    for device, peak in ((torch.device("cuda"), 3.0), (torch.device("cpu"), None)):
        fitting._forget_peak_memory(device)
        assert fitting._peak_device_memory(device) == peak
    assert forgotten == [torch.device("cuda")]


class Node:
    pass


def cycle():
    """Make an object that only a collection can free, and return a reference that does not keep it."""
    node = Node()
    node.itself = node
    return weakref.ref(node)


@pytest.fixture
def collected_by_hand():
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.parametrize(
    ("event", "wait_s", "is_tidied"),
    [
        (Measuring("key"), 0.0, True),
        (EpochEnded(1, 2, {}, 1), 0.0, False),
        (EpochEnded(1, 2, {}, 1), child.TIDY_EVERY_S, True),
        (Started("key"), 9.0, False),
    ],
)
def test_garbage_is_collected_after_long_epochs_and_before_measuring(
    event, wait_s, is_tidied, monkeypatch, collected_by_hand
):
    now, answer = [0.0], []
    monkeypatch.setattr(child.time, "monotonic", lambda: now[0])
    tell = child._tidying(answer.append)
    garbage = cycle()
    now[0] += wait_s
    tell(event)
    assert answer == [event]
    assert (garbage() is None) == is_tidied


HOLES = """
import json
from tests.stress.processes import resident_mib
from bench.run.child import tidy
small, large = [], []
for _ in range(2000):  # 200 MB in pieces that the C library takes from its heap, each followed by one that stays
    large.append(bytearray(100_000))
    small.append(bytearray(1_000))
full = resident_mib()
del large
freed = resident_mib()
tidy()
print(json.dumps([full, freed, resident_mib()]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's malloc_trim")
def test_the_system_gets_memory_that_lies_between_pieces_in_use():
    root = Path(__file__).resolve().parents[2]
    said = subprocess.run([sys.executable, "-c", HOLES], check=True, capture_output=True, text=True, cwd=root)
    full, freed, tidied = json.loads(said.stdout)
    assert freed > full - 50  # glibc by itself keeps what lies below a piece in use
    assert tidied < full - 150


@pytest.mark.parametrize(
    ("end", "reason"), [("raise ZeroDivisionError", "ZeroDivisionError"), ("os.abort()", "ended by SIGABRT")]
)
def test_a_failed_trained_runs_record_has_what_its_child_printed(end, reason, tmp_path, monkeypatch, look_again):
    text = f"\ndef _fit(*_):\n    import os\n    print('the last word', flush=True)\n    {end}\nMcDropout.fit = _fit\n"
    chosen = outside(tmp_path, monkeypatch, "noisy", text)
    store = Store(tmp_path / "results")
    watcher = Recorder()
    run(chosen, store, Options(str(store.root), threads=1), watcher, "process")
    (event,) = watcher.of(Recorded)
    (record,) = store.all_records()[0]
    assert reason in event.reason
    assert record.detail.endswith("the last word")


def test_a_lock_that_an_approach_makes_leaves_no_warning_at_the_end_of_the_run(tmp_path, monkeypatch, look_again):
    put(tmp_path, monkeypatch, "locking", "\nimport multiprocessing\nLOCK = multiprocessing.RLock()\n", TOY)
    place = ("--recipe", "published", "--protocol", "common", "--profile", "smoke", "--results", str(tmp_path / "r"))
    command = [sys.executable, "-m", "bench", "run", "locking", *place, "--quiet"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert ended.stderr == ""


def test_a_childs_memory_is_bounded_and_the_callers_approaches_are_known_to_it(tmp_path, monkeypatch, look_again):
    (trained_run,) = outside(tmp_path, monkeypatch, "mine")
    options = Options(str(tmp_path / "results"), memory_mib=123.0)
    bounds, done = [], []
    monkeypatch.setattr(child, "bound_memory", lambda options: bounds.append(options.memory_mib))
    monkeypatch.setattr(process, "work", lambda todo, options, send: done.extend(todo))
    monkeypatch.setenv(plugins.VARIABLE, "")
    registry._look.cache_clear()
    child.do([trained_run], options, lambda event: None)
    assert (bounds, done) == ([123.0], [trained_run])
    assert os.environ[plugins.VARIABLE] == options.approaches
