"""What a document's own code offers to be timed beside ours, and where it is found.

The yardsticks are `benchmarks/yardsticks/NAME.py`. Each imports a framework, so it is imported when it is timed.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from bench.core.errors import unknown_name
from bench.interface import Noise, Split
from bench.plan.registry import manifest, manifests
from benchmarks.throughput.flops import prediction_flops, training_flops

FOLDER = Path(__file__).parents[1] / "yardsticks"


class Yardstick(ABC):
    """A document's training step and prediction loop, at its own batch sizes, and the arithmetic that ours needs.

    Batches are tensors that lie ready in memory: what a document's data loader costs is not held against it.
    """

    sizes: Sequence[int]  # inputs, hidden units of the layers that are used, outputs
    smallest: ClassVar[Mapping[str, Any]]  # fields that make our network so small that its arithmetic costs nothing
    predict_rows: ClassVar[int]  # rows of a batch of the document's prediction
    refuses: ClassVar[bool] = False  # the document's prediction ends with a rule that can refuse

    @abstractmethod
    def step(self) -> object:
        """Take the next training step, what the document reads of it included; call it inside `session`."""

    @abstractmethod
    def predict(self, images: Tensor, n_draws: int) -> object:
        """Predict images [B, n_inputs], pixels in [0, 1]; call it inside `session`."""

    def session(self) -> AbstractContextManager[object]:
        """Return what the document's code must run in, such as its framework's global state."""
        return nullcontext()

    def settle(self) -> None:  # noqa: B027 - most frameworks have no queue that PyTorch does not know
        """Wait for work that the framework still has in its queue, ours or the document's."""

    def training_flops(self, n_rows: int) -> float:
        """Return the operations of one of our training steps (`benchmarks.throughput.flops`)."""
        return training_flops(self.sizes, n_rows)

    def prediction_flops(self, n_rows: int, n_draws: int, noise: Noise) -> float:
        """Return the operations of our prediction (`benchmarks.throughput.flops`)."""
        return prediction_flops(self.sizes, n_rows, n_draws, noise)


Factory = Callable[[Split, int], Yardstick]
"""(training rows on the device to use, seed) -> yardstick."""


def names() -> list[str]:
    """Return the approaches with a yardstick, in the order of the tables."""
    return [name for name in manifests() if (FOLDER / f"{name}.py").is_file()]


def choose(given: Sequence[str]) -> list[str]:
    """Return the given names once each, or all; raises ConfigError for one without a yardstick."""
    known = names()
    for name in given:
        manifest(name)
        if name not in known:
            raise unknown_name("approach with a yardstick", name, known)
    return list(dict.fromkeys(given)) or known


def load(name: str) -> Factory:
    """Import an approach's yardstick; its framework must be installed."""
    choose([name])
    factory: Factory = importlib.import_module(f"benchmarks.yardsticks.{name}").yardstick
    return factory
