"""feldman2018's deterministic classifier: a step on 128 images, one pass of 128 images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from bench.interface import Split
from benchmarks.documents import mlp as document
from benchmarks.throughput.yardsticks import Yardstick


class Mlp(Yardstick):
    """The document's network and optimiser."""

    smallest: ClassVar = {"width": 8}
    predict_rows: ClassVar = document.TEST_BATCH_SIZE

    def __init__(self, train: Split, seed: int, sizes: Sequence[int] = (784, 400, 400, 10)) -> None:
        del seed
        super().__init__(train, sizes)
        self.network = document.Classifier(sizes[0], sizes[1]).to(train.x.device)
        self.adam = document.optimizer(self.network)

    def step(self) -> Tensor:
        """Return the loss of the step."""
        return document.training_step(self.network, self.adam, *self.next_batch())

    def predict(self, images: Tensor, n_draws: int) -> list[Tensor]:
        """Return log-probabilities [B, K] of each draw; gradients are recorded, as published."""
        return [self.network(images) for _ in range(n_draws)]


yardstick = Mlp
