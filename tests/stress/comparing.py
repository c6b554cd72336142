"""What a results folder holds, without times, so that two folders can be compared to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.core.canonical import canonical
from bench.core.files import PART
from bench.core.reasons import RESUMED
from bench.core.store import Store, tensor_hash

NUMBERS = ("metrics", "missing", "arrays", "model", "recipe_values", "scores_sha256", "outcome")

Contents = dict[str, str]
"""What was measured or fitted, by name, as text that differs if a bit differs."""


def contents(root: Path) -> Contents:
    """Return all numbers of a results folder: every record with its curve and scores, and every fitted posterior."""
    store = Store(root)
    found = {}
    for record in store.all_records()[0]:
        epochs = [[epoch.epoch, epoch.metrics] for epoch in record.epochs]
        found[record.key] = canonical([[getattr(record, name) for name in NUMBERS], epochs])
    for path in sorted(root.glob("fits/*/posterior.safetensors")):
        read = store.read_tensors(path)
        if read is not None:
            found[path.parent.name] = tensor_hash(read[0], "")
    return found


def faults(root: Path) -> Iterator[str]:
    """Yield what is wrong with a results folder after a kill: whatever cannot be read."""
    store = Store(root)
    yield from (problem.reason for problem in store.all_records()[1])
    yield from (f"damaged: {path}" for path in root.glob("fits/*/*.safetensors") if store.read_tensors(path) is None)
    for record in store.all_records()[0]:
        if store.has_damaged_scores(record):
            yield f"damaged scores: {record.title}"


def unfinished(root: Path) -> set[Path]:
    """Return the files that killed processes were just writing."""
    return {path for path in root.rglob(".*") if PART.fullmatch(path.name)}


def differences(left: Contents, right: Contents) -> list[str]:
    """Return the names of all that is not in both folders, or differs."""
    return sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))


def resumed(root: Path) -> set[str]:
    """Return the fit keys of the records that say that their fit was interrupted."""
    records = Store(root).all_records()[0]
    return {record.fit_key for record in records if any(why.kind == RESUMED for why in record.timings.reasons)}
