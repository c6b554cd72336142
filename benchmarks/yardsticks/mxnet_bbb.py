"""rabanser2017's Bayes by Backprop: a step on 128 images, and prediction of 128 by one network after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from bench.interface import Split
from benchmarks.documents import mxnet_bbb as document
from benchmarks.throughput.yardsticks import BATCH, Yardstick
from implementations._mxnet import mx, to_ndarray

BYTES_TO_PIXELS = 255 / 126  # the document divides bytes by 126


class MxnetBbb(Yardstick):
    """The document's parameters; `sizes` leaves out the layer that its forward pass leaves out."""

    smallest: ClassVar = {"hidden_units": 8}
    predict_rows: ClassVar = 128

    def __init__(self, train: Split, seed: int, sizes: Sequence[int] = (784, 400, 10)) -> None:
        super().__init__(train, sizes)
        mx.random.seed(seed)
        mus, rhos = document.initial_parameters(document.layer_shapes(*sizes))
        self.document = document.DocumentBbb(mus, rhos, n_batches=-(-len(train) // BATCH))
        self.x, self.y = to_ndarray(train.x) * BYTES_TO_PIXELS, to_ndarray(train.y.float())
        self.networks: list[list[Any]] = []

    def step(self) -> float:
        """Return the loss of the step."""
        rows = next(self._batches)
        return self.document.step(self.x[rows], self.y[rows])

    def predict(self, images: Tensor, n_draws: int) -> Any:
        """Return log-probabilities [S, B, K]; the document has no such loop, so all batches go through the same draws.

        Drawing comes before the first timed block, which favours the document: each batch its own is slower.
        """
        if len(self.networks) != n_draws:
            self.networks = self.document.draw_networks(n_draws)
            mx.nd.waitall()
        return self.document.predict(to_ndarray(images.contiguous()) * BYTES_TO_PIXELS, self.networks)

    def settle(self) -> None:
        """Wait for MXNet's queue."""
        mx.nd.waitall()


yardstick = MxnetBbb
