"""chopra2018's network: a step on 128 images, and the rule that refuses, on 128 images and 100 drawn networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from bench.interface import Split
from benchmarks.documents.pyro_random_module import DocumentNetwork
from benchmarks.yardsticks._pyro import PyroYardstick


class PyroRandomModule(PyroYardstick):
    """The document's network, guide and optimiser."""

    predict_rows: ClassVar = 128
    refuses: ClassVar = True

    def __init__(self, train: Split, seed: int, sizes: Sequence[int] = (784, 1024, 10)) -> None:
        del seed
        super().__init__(train, sizes)
        self.document = DocumentNetwork(n_hidden=sizes[1], n_inputs=sizes[0])
        self.document.net.to(train.x.device)

    def step(self) -> float:
        """Return the loss of the step."""
        return self.document.training_step(*self.next_batch())

    def predict(self, images: Tensor, n_draws: int) -> list[int | None]:
        """Return the class of each image, or None where the document's rule refuses."""
        return self.document.predict_or_refuse(images, n_draws)


yardstick = PyroRandomModule
