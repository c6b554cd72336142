"""Faults to plant in a fresh run: the gate must catch each, and how surely it does is measured with them.

Each changes what the real code does, in this process, without changing what `plan` says: the fault of a slip in the
code, not of an edited recipe, which the gate sees at once by its key.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench import contexts, worker
from bench.data import load_split
from bench.errors import unknown_name
from bench.interface import Approach, Posterior, Split, Task


@dataclass(frozen=True)
class Fault:
    """A fault, what it stands for, and which exact check catches it ('': the metrics must)."""

    name: str
    title: str
    caught_by: str
    plant: Callable[[], AbstractContextManager[None]]


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _kl_scale() -> AbstractContextManager[None]:
    """The task says half the rows, the only source of every 1/N in an objective: the KL weighs twice as much."""

    def halved(*arguments: Any, **named: Any) -> Task:
        task = Task(*arguments, **named)
        return dataclasses.replace(task, n_train=max(1, task.n_train // 2))

    return _replaced(worker, "Task", halved)


def _learning_rate() -> AbstractContextManager[None]:
    original = worker.build

    def doubled(*arguments: Any) -> Approach:
        approach: Any = original(*arguments)
        if not hasattr(approach, "learning_rate"):
            return approach  # type: ignore[no-any-return]  # nothing is learnt
        return dataclasses.replace(approach, learning_rate=2 * approach.learning_rate)  # type: ignore[no-any-return]

    return _replaced(worker, "build", doubled)


@contextlib.contextmanager
def _wrong_split() -> Iterator[None]:
    def test_rows(name: str, seed: int, data_dir: Path | None = None) -> Split:
        return dataclasses.replace(load_split("test10k", seed, data_dir), name=name)

    def of_all(name: str, seeds: Sequence[int], data_dir: Path | None = None) -> tuple[Split, Tensor]:
        split = test_rows(name, seeds[0], data_dir)
        return split, torch.arange(len(split)).expand(len(seeds), -1)

    with _replaced(worker, "load_split", test_rows), _replaced(worker, "load_shared", of_all):
        yield


def _dropout_on() -> AbstractContextManager[None]:
    from implementations.dropout_fcn import DropoutPosterior

    def still_dropping(self: Posterior) -> Posterior:
        return self

    return _replaced(DropoutPosterior, "mean_network", still_dropping)


def _seed_ignored() -> AbstractContextManager[None]:
    original = contexts.RunContext.__init__

    def without_seed(self: contexts.RunContext, *arguments: Any) -> None:
        original(self, *arguments)
        self.seed = 0

    return _replaced(contexts.RunContext, "__init__", without_seed)


_ALL = (
    Fault("kl-scale", "the KL weighs twice as much", "", _kl_scale),
    Fault("learning-rate", "the learning rate is twice as high", "", _learning_rate),
    Fault("dropout-on", "dropout stays on where it should be off", "", _dropout_on),
    Fault("wrong-split", "training on the test rows", "rows learnt from", _wrong_split),
    Fault("seed-ignored", "every seed draws what seed 0 draws", "seeds", _seed_ignored),
)
FAULTS = {fault.name: fault for fault in _ALL}


def fault(name: str) -> Fault:
    """Return a fault by name."""
    if name not in FAULTS:
        raise unknown_name("fault", name, FAULTS)
    return FAULTS[name]
