"""For tests of runs: runs of toy_mlp, what stops or harms them, what they report, and their records.

Approaches can lie in a folder of their own.
"""

import contextlib
from pathlib import Path

import numpy as np
import pytest
import torch

import implementations.toy_mlp
from bench.core import locks
from bench.core.store import Store
from bench.plan import plugins, registry
from bench.plan.trained_runs import Selection, trained_runs
from bench.run import contexts
from bench.run.events import Options
from bench.run.runner import run


def go(root, *names, executor="inline", lacking=False, **options):
    selection = Selection(approaches=names, **{"seeds": (0, 1, 2), "profile": "smoke", **options})
    watcher = Recorder()
    asked = Options(str(root), threads=1, lacking=lacking)
    results = run(trained_runs(selection), Store(root), asked, watcher, executor)
    return results, watcher


def published(root, **options):
    """Run the published toy_mlp with all its six epochs."""
    return go(root, "toy_mlp", profile="full", recipes=("published",), **options)


def records(root):
    """Return the records by seed and protocol, and check that none is damaged."""
    found, problems = Store(root).all_records()
    assert problems == []
    return {(record.approach, record.seed, record.protocol): record for record in found}


def numbers(record):
    """Return the numbers that a record has, without times."""
    return record.metrics, [{"epoch": epoch.epoch, **epoch.metrics} for epoch in record.epochs]


def close(left, right):
    (metrics, epochs), (other_metrics, other_epochs) = numbers(left), numbers(right)
    assert metrics == pytest.approx(other_metrics, rel=1e-3, abs=1e-5)
    assert len(epochs) == len(other_epochs)
    for epoch, other in zip(epochs, other_epochs, strict=True):
        assert epoch == pytest.approx(other, rel=1e-3, abs=1e-5)


def stopped(root, monkeypatch, when, owner=contexts.RunContext, name="take", **options):
    """Run `published` with a checkpoint after every epoch; stop it like Ctrl-C at call number `when` of a function.

    The default function is the one that takes the report of each seed and epoch.
    """
    original, calls = getattr(owner, name), []

    def stopping(*arguments, **named):
        calls.append(1)
        if len(calls) == when:
            raise KeyboardInterrupt
        return original(*arguments, **named)

    monkeypatch.setattr(contexts, "CHECKPOINT_EVERY_S", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, stopping)
        with pytest.raises(KeyboardInterrupt):
            published(root, **options)


def another_run_holds(root, monkeypatch, seed):
    """Hold the lock of a seed. When a run first waits for it, release it and do that seed in another run."""
    (first, *_) = trained_runs(Selection(approaches=("toy_mlp",), seeds=(seed,), profile="smoke"))
    held = contextlib.ExitStack()
    held.enter_context(locks.lock(root, first.fit_key))

    def wait(_):
        held.close()
        go(root, "toy_mlp", seeds=(seed,))

    monkeypatch.setattr("bench.run.runner.time.sleep", wait)


def ill_seed(monkeypatch, *seeds):
    original = implementations.toy_mlp.Seeds.epoch

    def epoch(self, number):
        traces = original(self, number)
        here = [context.seed for context in self._contexts]
        return [dict.fromkeys(t, float("nan")) if s in seeds else t for s, t in zip(here, traces, strict=True)]

    def init(self, recipe, train, rows, task, contexts):
        self._contexts = contexts
        original_init(self, recipe, train, rows, task, contexts)

    original_init = implementations.toy_mlp.Seeds.__init__
    monkeypatch.setattr(implementations.toy_mlp.Seeds, "__init__", init)
    monkeypatch.setattr(implementations.toy_mlp.Seeds, "epoch", epoch)


ROOT = Path(__file__).resolve().parents[2]
EXAMPLE, TOY = ROOT / "examples" / "my_dropout", ROOT / "implementations" / "toy_mlp"
WAITING = """
_interval = Seeds.epoch


def _wait(self, epoch):
    from pathlib import Path
    from time import sleep

    while epoch == 3 and not Path({file!r}).exists():
        sleep(0.01)
    self._n_steps = 5
    return _interval(self, epoch)


Seeds.epoch = _wait
"""


def put(folder, monkeypatch, name, text="", source=EXAMPLE):
    """Copy an approach, without its document and with some more code, to a folder; let the suite find it there."""
    manifest = source.with_suffix(".toml").read_text().splitlines(keepends=True)
    (folder / f"{name}.py").write_text(source.with_suffix(".py").read_text() + text)
    (folder / f"{name}.toml").write_text("".join(line for line in manifest if not line.startswith("document")))
    monkeypatch.setenv(plugins.VARIABLE, str(folder))
    registry._look.cache_clear()


def put_waiting(folder, monkeypatch):
    """Put an approach `waits` there. It has six short epochs; the third begins when the returned file exists.

    A process that is killed while it waits has trained two of six epochs, however fast the machine is.
    """
    file = folder / "go"
    put(folder, monkeypatch, "waits", WAITING.format(file=str(file)), TOY)
    return file


def chosen(name, **options):
    """Return the trained runs of an approach with recipe published and protocol common."""
    return trained_runs(Selection(approaches=(name,), recipes=("published",), protocols=("common",), **options))


def outside(folder, monkeypatch, name, text=""):
    """Put an approach in a folder of its own and return its one trained run."""
    put(folder, monkeypatch, name, text)
    return chosen(name, profile="smoke")


class Recorder:
    """A watcher that keeps groups and events, and calls `act` with every event."""

    def __init__(self, act=lambda event: None):
        self.groups, self.events, self.act = [], [], act

    def begin(self, groups, done):
        self.groups = list(groups)

    def event(self, group, event):
        self.events.append(event)
        self.act(event)

    def finish(self):
        pass

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


def results(store):
    """Return the numbers, scores and posteriors of a store by the names of their trained runs, without times."""
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
