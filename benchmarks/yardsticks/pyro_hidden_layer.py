"""alsibahi2019's Bayesian network: a step on 128 images, passes of one image."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

from torch import Tensor

from bench.interface import Noise, Split
from benchmarks.documents.pyro_hidden_layer import DocumentNetwork
from benchmarks.throughput.blocks import cycle
from benchmarks.throughput.flops import layer_flops, prediction_flops, training_flops
from benchmarks.throughput.yardsticks import Yardstick
from benchmarks.yardsticks._pyro import empty_store, with_store


class PyroHiddenLayer(Yardstick):
    """The document's model, guide and optimiser."""

    smallest: ClassVar = {"n_hidden": 8}
    predict_rows: ClassVar = 1

    def __init__(
        self, train: Split, seed: int, sizes: Sequence[int] = (784, 1024, 1024, 1024, 10), batch: int = 128
    ) -> None:
        del seed
        self.sizes = sizes
        self.train, self.batches = train, cycle(len(train), batch)
        self.document = DocumentNetwork(len(train), n_hidden=sizes[1], n_inputs=sizes[0], batch_size=batch)
        self.store = empty_store()

    def session(self) -> AbstractContextManager[object]:
        """Return a context with the document's parameters."""
        return with_store(self.store)

    def step(self) -> tuple[float, int]:
        """Return the loss of the step and how many images the draw after it gets right."""
        rows = next(self.batches)
        return self.document.training_step(self.train.x[rows], self.train.y[rows])

    def predict(self, images: Tensor, n_draws: int) -> Tensor:
        """Return log-probabilities [S, B, K]."""
        return self.document.predict(images, n_draws)

    def training_flops(self, n_rows: int) -> float:
        """Return those of means and variances, each a product, and of the draw for the accuracy after the step."""
        return 2 * (training_flops(self.sizes, n_rows) + sum(layer_flops(self.sizes, n_rows)))

    def prediction_flops(self, n_rows: int, n_draws: int, noise: Noise) -> float:
        """Return those of means and variances, the first layer's once for all draws.

        With noise "shared" the later layers' weights are drawn: one product each.
        """
        if noise != "row":
            return prediction_flops(self.sizes, n_rows, n_draws, noise)
        first, *rest = layer_flops(self.sizes, n_rows)
        return 2 * (first + n_draws * sum(rest))


yardstick = PyroHiddenLayer
