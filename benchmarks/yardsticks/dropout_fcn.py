"""alsibahi2019's network with dropout: a step on 128 images, passes of one image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from bench.interface import Split
from benchmarks.documents import dropout_fcn as document
from benchmarks.throughput.yardsticks import Yardstick


class DropoutFcn(Yardstick):
    """The document's network and optimiser."""

    smallest: ClassVar = {"hidden": (8, 8, 8)}
    predict_rows: ClassVar = document.TEST_BATCH_SIZE

    def __init__(self, train: Split, seed: int, sizes: Sequence[int] = (784, 1024, 1024, 1024, 10)) -> None:
        del seed
        super().__init__(train, sizes)
        self.network = document.network(sizes[0], sizes[1]).to(train.x.device)
        self.sgd = document.optimizer(self.network)

    def step(self) -> tuple[float, float]:
        """Return the loss and the accuracy of the step, which the document reads after every batch."""
        return document.train_epoch(self.network, self.sgd, [self.next_batch()])

    def predict(self, images: Tensor, n_draws: int) -> list[Tensor]:
        """Return log-probabilities [B, K] of each draw; gradients are recorded, as published."""
        return [self.network(images) for _ in range(n_draws)]


yardstick = DropoutFcn
