"""What a child process does for a GPU, tested without one: it sends rows there, waits for it, and asks its memory."""

import dataclasses

import torch

from bench.core.store import Store
from bench.plan.trained_runs import Selection, trained_runs
from bench.run import contexts, fitting
from bench.run.events import Options

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
