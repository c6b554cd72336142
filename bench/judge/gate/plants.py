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

from bench.core.errors import unknown_name
from bench.data.splits import load_split
from bench.interface import Approach, Posterior, Split, Task
from bench.run import contexts, fitting, process


@dataclass(frozen=True)
class Fault:
    """A fault, what it stands for, and which exact check catches it ('': the metrics must)."""

    name: str
    title: str
    caught_by: str
    plant: Callable[[], AbstractContextManager[None]]


@contextlib.contextmanager
def _replaced(owner: Any, name: str, change: Callable[[Any], Any]) -> Iterator[None]:
    """Put what `change` makes of an attribute in its place."""
    before = getattr(owner, name)
    setattr(owner, name, change(before))
    try:
        yield
    finally:
        setattr(owner, name, before)


def _kl_scale() -> AbstractContextManager[None]:
    """The task says half the rows, the only source of every 1/N in an objective: the KL weighs twice as much."""

    def halved(*arguments: Any, **named: Any) -> Task:
        task = Task(*arguments, **named)
        return dataclasses.replace(task, n_train=max(1, task.n_train // 2))

    return _replaced(fitting, "Task", lambda _: halved)


def _learning_rate() -> AbstractContextManager[None]:
    def doubled(build: Callable[..., Any]) -> Callable[..., Approach]:
        def build_doubled(*arguments: Any) -> Approach:
            approach = build(*arguments)
            if hasattr(approach, "learning_rate"):  # the blind network has none
                approach = dataclasses.replace(approach, learning_rate=2 * approach.learning_rate)
            return approach  # type: ignore[no-any-return]

        return build_doubled

    return _replaced(process, "build", doubled)


@contextlib.contextmanager
def _wrong_split() -> Iterator[None]:
    def test_rows(name: str, seed: int, data_dir: Path | None = None) -> Split:
        return dataclasses.replace(load_split("test10k", seed, data_dir), name=name)

    def of_all(name: str, seeds: Sequence[int], data_dir: Path | None = None) -> tuple[Split, Tensor]:
        split = test_rows(name, seeds[0], data_dir)
        return split, torch.arange(len(split)).expand(len(seeds), -1)

    with _replaced(fitting, "load_split", lambda _: test_rows), _replaced(fitting, "load_shared", lambda _: of_all):
        yield


def _dropout_on() -> AbstractContextManager[None]:
    from implementations.dropout_fcn import DropoutPosterior

    def still_dropping(self: Posterior) -> Posterior:
        return self

    return _replaced(DropoutPosterior, "mean_network", lambda _: still_dropping)


def _seed_ignored() -> AbstractContextManager[None]:
    def without_seed(begin: Callable[..., None]) -> Callable[..., None]:
        def begin_without(self: contexts.RunContext, *arguments: Any) -> None:
            begin(self, *arguments)
            self.seed = 0

        return begin_without

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
