"""A results folder of made-up records, written as runs write them, for the tests of the report."""

from __future__ import annotations

import hashlib
from pathlib import Path

from bench.core.records import Record
from bench.core.store import Store
from tests.synthetic import changed, manifests, record

HOSTILE = "<script>alert('made up')</script> & \"quoted\" </td> {{ 7 * 7 }} \\input{x} $_%"
SETS = ("noise_uniform", "fashion_mnist", "letters")


def write_records(root: Path, n_seeds: int = 5, reason: str = "no memory") -> list[Record]:
    """Write finished records of every trained run and seed, and one that failed for a reason."""
    made = [keyed for seed in range(n_seeds) for keyed in of_seed(seed)]
    made.append(_keyed(record("mxnet_bbb", "published+odd", "common", outcome="failed", reason=reason)))
    for one in made:
        Store(root).write(one)
    return made


def of_seed(seed: int) -> list[Record]:
    """Return finished records of every trained run, as a full run leaves them."""
    shift = seed / 10_000
    made = []
    for name, entry in manifests().items():
        log = {"mnist/test10k/accuracy": 0.97 + shift, "mnist/heldout10k-of-train/accuracy": 0.9714 + shift}
        if entry.document:
            epochs = [{"epoch": epoch, **log} for epoch in range(1, 51)]
            made.append(record(name, seed=seed, metrics=log, epochs=epochs))
        common = {"mnist/accuracy": 0.98 + shift, "mnist/ece": 0.01 + shift, "mnist/predictive_entropy": 0.1 + shift}
        common |= {f"{name}/predictive_entropy": 1.0 + shift for name in SETS}
        made += [record(name, recipe, "common", seed=seed, metrics=dict(common)) for recipe in entry.recipes]
    return [_keyed(one) for one in made]


def _keyed(made: Record) -> Record:
    return changed(made, key=hashlib.sha256(made.key.encode()).hexdigest())
