"""feldman2018's Bayes by Backprop: a step on 128 images, and prediction of 128 by one network after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from bench.core.streams import generator
from bench.interface import Split
from benchmarks.documents import linear_bbb as document
from benchmarks.throughput.yardsticks import BATCH, Yardstick


class LinearBbb(Yardstick):
    """The document's network and optimiser."""

    smallest: ClassVar = {"hidden_units": 8}
    predict_rows: ClassVar = 128

    def __init__(self, train: Split, seed: int, sizes: Sequence[int] = (784, 512, 512, 10)) -> None:
        super().__init__(train, sizes)
        self.n_batches = len(train) / BATCH
        network = document.GaussianNetwork(sizes, prior_std=6.0)
        document.initialise_classifier(network, generator(seed, "yardstick"))
        self.network = network.to(train.x.device)
        self.adam, _ = document.document_adam(self.network)

    def step(self) -> Tensor:
        """Return the loss of the step."""
        return document.classifier_step(self.network, self.adam, *self.next_batch(), self.n_batches)

    def predict(self, images: Tensor, n_draws: int) -> Tensor:
        """Return log-probabilities [S, B, K]."""
        return document.predict(self.network, images, n_draws)


yardstick = LinearBbb
