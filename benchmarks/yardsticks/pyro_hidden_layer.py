"""alsibahi2019's Bayesian network: a step on 128 images, passes of one image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from bench.interface import Noise, Split
from benchmarks.documents.pyro_hidden_layer import DocumentNetwork
from benchmarks.throughput.yardsticks import BATCH
from benchmarks.yardsticks._pyro import PyroYardstick


class PyroHiddenLayer(PyroYardstick):
    """The document's model, guide and optimiser."""

    predict_rows: ClassVar = 1

    def __init__(self, train: Split, seed: int, sizes: Sequence[int] = (784, 1024, 1024, 1024, 10)) -> None:
        del seed
        super().__init__(train, sizes)
        self.document = DocumentNetwork(len(train), n_hidden=sizes[1], n_inputs=sizes[0], batch_size=BATCH)

    def step(self) -> tuple[float, int]:
        """Return the loss of the step and how many images the draw after it gets right."""
        return self.document.training_step(*self.next_batch())

    def predict(self, images: Tensor, n_draws: int) -> Tensor:
        """Return log-probabilities [S, B, K]."""
        return self.document.predict(images, n_draws)

    def training_flops(self, n_rows: int) -> float:
        """Return those of means and variances, each a product, and of the draw for the accuracy after the step."""
        return 2 * (super().training_flops(n_rows) + sum(self.layer_flops(n_rows)))

    def prediction_flops(self, n_rows: int, n_draws: int, noise: Noise) -> float:
        """Return those of means and variances, the first layer's once for all draws.

        With noise "shared" the later layers' weights are drawn: one product each.
        """
        if noise != "row":
            return super().prediction_flops(n_rows, n_draws, noise)
        first, *rest = self.layer_flops(n_rows)
        return 2 * (first + n_draws * sum(rest))


yardstick = PyroHiddenLayer
