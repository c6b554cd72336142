"""Folders of records as a gate reads them: the plan's real keys, numbers made up by the tests."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from bench.core.store import Store
from bench.judge.gate.config import Gate, load_gate
from tests import synthetic

TEXT = """
schema = 1
profile = "epoch1"
device = "cpu"
precision = "float32"
alpha = 0.05
baseline_seeds = 8
fresh_seeds = [1000, 1001, 1002]
limit_s = 720

[[gated]]
approach = "mlp"
recipes = ["published", "corrected"]
protocol = "common"
metrics = [
    { key = "last epoch/mnist/{train}/train_loss", margin = 0.02, reason = "r" },
    { key = "mnist/nll", margin = 0.02, reason = "r" },
]

[[gated]]
approach = "toy_bbb"
recipes = ["published"]
protocol = "common"
seeds = 2
metrics = [{ key = "toy/rmse", margin = 0.1, reason = "r" }]
"""


def gate_file(folder, more="", old="", new=""):
    path = folder / "gate.toml"
    assert old in TEXT
    path.write_text(TEXT.replace(old, new, 1) + more)
    return path


def record(planned, metrics, epochs, **changes):
    made = {
        "commit": "0123456789abcdef",
        "cpu": "made-up CPU",
        "threads": 2,
        "versions": {"torch": "2.13.0"},
        "source_sha256": "s",
    }
    naming = msgspec.structs.asdict(planned.naming())
    fields = {
        "metrics": metrics,
        "epochs": epochs,
        "recipe_values": dict(planned.values),
        "versions": planned.versions,
        "provenance": made,
        **changes,
    }
    return synthetic.record(**{**naming, **fields})


def numbers(trained_run, seed, shift=0.0):
    """Return metrics and epochs of a trained run: normal, sd .01, named by the seed."""
    source = np.random.default_rng([seed, len(trained_run.name)])
    values = 0.3 + 0.01 * source.normal(size=2) + shift
    if trained_run.approach == "toy_bbb":
        return {"toy/rmse": values[0]}, []
    return {"mnist/nll": values[0]}, [{"epoch": 1, "seconds": 1.0, "mnist/train60k/train_loss": values[1]}]


def write(store, made):
    store.record_path(made).unlink(missing_ok=True)  # a failed record would not replace a finished one
    return store.write(made)


def planned_records(gate, trained_run, seeds, shift=0.0):
    return [
        record(planned, *numbers(trained_run, planned.seed, shift))
        for planned in gate.planned(trained_run, tuple(seeds))
    ]


def baseline_folder(root, gate, n_seeds=8):
    store = Store(root)
    for trained_run in gate.trained_runs if n_seeds else ():
        for made in planned_records(gate, trained_run, range(n_seeds)):
            write(store, made)
    return store


def fresh_folder(root, gate, shift=0.0, shifted="mlp/published/common"):
    store = Store(root)
    for trained_run in gate.trained_runs:
        for made in planned_records(
            gate, trained_run, gate.seeds_of(trained_run), shift=shift if trained_run.name == shifted else 0.0
        ):
            write(store, made)
    return store


@functools.cache
def _written(text):
    """Return what the folders of a gate with this text hold, by name: records are written once and copied often."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        (root / "gate.toml").write_text(text)
        gate = load_gate(root / "gate.toml")
        baseline_folder(root / "baseline", gate)
        fresh_folder(root / "fresh", gate)
        return {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}


class Folders(NamedTuple):
    path: Path  # of the gate's file
    gate: Gate
    baseline: Store
    fresh: Store


def folders(tmp_path, **options):
    """Return the gate's file, its content and an unchanged baseline and fresh run."""
    path = gate_file(tmp_path, **options)
    for name, content in _written(path.read_text()).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return Folders(path, load_gate(path), Store(tmp_path / "baseline"), Store(tmp_path / "fresh"))
