"""rabanser2017's Bayes by Backprop: a step on 128 images, and prediction of 128 by one network after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from bench.interface import Split
from bench.throughput.blocks import cycle
from bench.throughput.yardsticks import Yardstick
from benchmarks.documents import mxnet_bbb as document
from implementations._mxnet import mx, to_ndarray

BYTES_TO_PIXELS = 255 / 126  # the document divides bytes by 126


class MxnetBbb(Yardstick):
    """The document's parameters; `sizes` leaves out the layer that its forward pass leaves out."""

    smallest: ClassVar = {"hidden_units": 8}
    predict_rows: ClassVar = 128

    def __init__(self, train: Split, seed: int, sizes: Sequence[int] = (784, 400, 10), batch: int = 128) -> None:
        self.sizes = sizes
        mx.random.seed(seed)
        mus, rhos = document.initial_parameters(document.layer_shapes(*sizes))
        self.document = document.DocumentBbb(mus, rhos, n_batches=-(-len(train) // batch))
        self.x, self.y = to_ndarray(train.x) * BYTES_TO_PIXELS, to_ndarray(train.y.float())
        self.batches = cycle(len(train), batch)

    def step(self) -> float:
        """Return the loss of the step."""
        rows = next(self.batches)
        return self.document.step(self.x[rows], self.y[rows])

    def predict(self, images: Tensor, n_draws: int) -> list[Any]:
        """Return log-probabilities [B, K] of each draw, drawn as in training; the document has no such loop."""
        scaled = to_ndarray(images.contiguous()) * BYTES_TO_PIXELS
        return [self._predict_once(scaled) for _ in range(n_draws)]

    def _predict_once(self, scaled: Any) -> Any:
        nd, model = mx.nd, self.document
        epsilons = [nd.random_normal(shape=mu.shape, loc=0.0, scale=1.0) for mu in model.mus]
        sigmas = [nd.log(1.0 + nd.exp(rho)) for rho in model.rhos]
        weights = [mu + sigma * epsilon for mu, sigma, epsilon in zip(model.mus, sigmas, epsilons, strict=True)]
        return nd.log_softmax(model.forward(scaled, weights)).asnumpy()

    def settle(self) -> None:
        """Wait for MXNet's queue."""
        mx.nd.waitall()


yardstick = MxnetBbb
