"""What a document's own code offers to be timed beside ours, and where it is found.

The yardsticks are `benchmarks/yardsticks/NAME.py`. Each imports a framework, so it is imported when it is timed.

Floating-point operations are those of the matrix products that a step or a prediction needs: a product
[B, n_in] x [n_in, n_out] counts 2 B n_in n_out. Noise, activations, losses and optimisers do not count, so that the
share of the product rate that code reaches says how much of its time goes elsewhere.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from bench.core.errors import check_known
from bench.interface import Noise, Split
from bench.plan.registry import manifest, manifests
from benchmarks.throughput.blocks import cycle

FOLDER = Path(__file__).parents[1] / "yardsticks"
BATCH = 128  # rows of a training step of every document


class Yardstick(ABC):
    """A document's training step and prediction loop, at its own batch sizes, and the arithmetic that ours needs.

    Batches are tensors that lie ready in memory: what a document's data loader costs is not held against it.
    """

    smallest: ClassVar[Mapping[str, Any]]  # fields that make our network so small that its arithmetic costs nothing
    predict_rows: ClassVar[int]  # rows of a batch of the document's prediction
    refuses: ClassVar[bool] = False  # the document's prediction ends with a rule that can refuse

    def __init__(self, train: Split, sizes: Sequence[int]) -> None:
        """Take the training rows; `sizes` are inputs, hidden units of the layers that are used, outputs."""
        self.train, self.sizes, self._batches = train, sizes, cycle(len(train), BATCH)

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """Return the images and labels of the next training step."""
        rows = next(self._batches)
        return self.train.x[rows], self.train.y[rows]

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

    def layer_flops(self, n_rows: int) -> list[float]:
        """Return the operations of one forward pass of each layer."""
        return [2.0 * n_rows * n_in * n_out for n_in, n_out in pairwise(self.sizes)]

    def training_flops(self, n_rows: int) -> float:
        """Return the operations of our step: forward, gradients of the weights, and of all inputs but the first's."""
        layers = self.layer_flops(n_rows)
        return 3 * sum(layers) - layers[0]

    def prediction_flops(self, n_rows: int, n_draws: int, noise: Noise) -> float:
        """Return the operations of our prediction.

        With noise "shared" the first layer's mean and variance are one product each, whatever the number of draws.
        """
        first, *rest = self.layer_flops(n_rows)
        return 2 * first + n_draws * sum(rest) if noise == "shared" else n_draws * (first + sum(rest))


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
        check_known("approach with a yardstick", known, name)
    return list(dict.fromkeys(given)) or known


def load(name: str) -> Factory:
    """Import an approach's yardstick; its framework must be installed."""
    choose([name])
    factory: Factory = importlib.import_module(f"benchmarks.yardsticks.{name}").yardstick
    return factory
