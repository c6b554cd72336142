"""chopra2018's network: a step on 128 images, and the rule that refuses, on 128 images and 100 drawn networks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

from torch import Tensor

from bench.interface import Split
from benchmarks.documents.pyro_random_module import DocumentNetwork
from benchmarks.throughput.blocks import cycle
from benchmarks.throughput.yardsticks import Yardstick
from benchmarks.yardsticks._pyro import empty_store, with_store


class PyroRandomModule(Yardstick):
    """The document's network, guide and optimiser."""

    smallest: ClassVar = {"n_hidden": 8}
    predict_rows: ClassVar = 128
    refuses: ClassVar = True

    def __init__(self, train: Split, seed: int, sizes: Sequence[int] = (784, 1024, 10), batch: int = 128) -> None:
        del seed
        self.sizes = sizes
        self.train, self.batches = train, cycle(len(train), batch)
        self.document = DocumentNetwork(n_hidden=sizes[1], n_inputs=sizes[0])
        self.document.net.to(train.x.device)
        self.store = empty_store()

    def session(self) -> AbstractContextManager[object]:
        """Return a context with the document's parameters."""
        return with_store(self.store)

    def step(self) -> float:
        """Return the loss of the step."""
        rows = next(self.batches)
        return self.document.training_step(self.train.x[rows], self.train.y[rows])

    def predict(self, images: Tensor, n_draws: int) -> list[int | None]:
        """Return the class of each image, or None where the document's rule refuses."""
        return self.document.predict_or_refuse(images, n_draws)


yardstick = PyroRandomModule
