"""The documents' own code (`documents_code`), prepared to be timed beside ours."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar

from torch import Tensor

from bench.core.errors import check_known
from bench.core.streams import generator
from bench.interface import Split
from bench.plan.registry import manifest, manifests
from benchmarks.throughput.blocks import cycle
from documents_code import dropout_fcn, linear_bbb, mlp

BATCH = 128  # rows of a training step of every document
BYTES_OVER_126 = 255 / 126  # factor from pixels in 0..1 to those of rabanser2017, which divides bytes by 126


class DocumentCode(ABC):
    """A document's training step and prediction loop with its own batch sizes.

    Batches are tensors that lie ready in memory, so that the time of a document's data loader does not count.
    """

    predict_rows: ClassVar[int] = 128  # rows of a batch of the document's prediction
    refuses: ClassVar[bool] = False  # the document's prediction ends with a rule that can refuse

    def __init__(self, train: Split) -> None:
        """Take the training rows."""
        self.train, self._batches = train, cycle(len(train), BATCH)

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """Return the images and labels of the next training step."""
        rows = next(self._batches)
        return self.train.x[rows], self.train.y[rows]

    @abstractmethod
    def step(self) -> object:
        """Take the next training step, and read from it what the document reads; call it inside `session`."""

    @abstractmethod
    def predict(self, images: Tensor, n_draws: int) -> object:
        """Predict images [B, n_inputs], pixels in [0, 1]; call it inside `session`."""

    def session(self) -> AbstractContextManager[object]:
        """Return the context in which the document's code must run, such as its framework's global state."""
        return nullcontext()

    def settle(self) -> None:  # noqa: B027 - most frameworks have no queue that PyTorch does not know
        """Wait until the framework has done all queued work, ours or the document's."""


class DropoutFcn(DocumentCode):
    """alsibahi2019's network with dropout."""

    predict_rows: ClassVar = 1

    def __init__(self, train: Split, seed: int, sizes: Sequence[int] = (784, 1024, 1024, 1024, 10)) -> None:
        del seed
        super().__init__(train)
        self.network = dropout_fcn.network(sizes[0], sizes[1]).to(train.x.device)
        self.sgd = dropout_fcn.optimizer(self.network)

    def step(self) -> tuple[float, float]:
        """Return the loss and the accuracy of the step, which the document reads after every batch."""
        return dropout_fcn.train_epoch(self.network, self.sgd, [self.next_batch()])

    def predict(self, images: Tensor, n_draws: int) -> list[Tensor]:
        """Return log-probabilities [B, K] of each draw; gradients are recorded, as published."""
        return [self.network(images) for _ in range(n_draws)]


class Mlp(DocumentCode):
    """feldman2018's deterministic classifier."""

    def __init__(self, train: Split, seed: int, sizes: Sequence[int] = (784, 400, 400, 10)) -> None:
        del seed
        super().__init__(train)
        self.network = mlp.Classifier(sizes[0], sizes[1]).to(train.x.device)
        self.adam = mlp.optimizer(self.network)

    def step(self) -> Tensor:
        """Return the loss of the step."""
        return mlp.training_step(self.network, self.adam, *self.next_batch())

    def predict(self, images: Tensor, n_draws: int) -> list[Tensor]:
        """Return log-probabilities [B, K] of each draw; gradients are recorded, as published."""
        return [self.network(images) for _ in range(n_draws)]


class LinearBbb(DocumentCode):
    """feldman2018's Bayes by Backprop; predicts by one network after another."""

    def __init__(self, train: Split, seed: int, sizes: Sequence[int] = (784, 512, 512, 10)) -> None:
        super().__init__(train)
        self.n_batches = len(train) / BATCH
        network = linear_bbb.GaussianNetwork(sizes, prior_std=6.0)
        linear_bbb.initialise_classifier(network, generator(seed, "documents code"))
        self.network = network.to(train.x.device)
        self.adam, _ = linear_bbb.document_adam(self.network)

    def step(self) -> Tensor:
        """Return the loss of the step."""
        return linear_bbb.classifier_step(self.network, self.adam, *self.next_batch(), self.n_batches)

    def predict(self, images: Tensor, n_draws: int) -> Tensor:
        """Return log-probabilities [S, B, K]."""
        return linear_bbb.predict(self.network, images, n_draws)


class _InPyro(DocumentCode):
    """A document in Pyro, with its own store of parameters and without validation."""

    document: Any

    def __init__(self, train: Split) -> None:
        super().__init__(train)
        self._store: dict[str, dict[str, Any]] = {"params": {}, "constraints": {}}

    @contextmanager
    def session(self) -> Iterator[None]:
        """Give the body the document's store of parameters, and keep the changes."""
        import pyro

        with pyro.validation_enabled(False), pyro.get_param_store().scope(self._store), warnings.catch_warnings():
            for message, category in (
                ("The `random_module` primitive is deprecated", FutureWarning),
                ("Encountered NaN", UserWarning),
            ):
                warnings.filterwarnings("ignore", message=message, category=category)
            yield

    def step(self) -> object:
        """Return the loss of the step and, for some documents, other numbers that they read."""
        return self.document.training_step(*self.next_batch())


class PyroHiddenLayer(_InPyro):
    """alsibahi2019's Bayesian network; predicts image by image."""

    predict_rows: ClassVar = 1

    def __init__(self, train: Split, seed: int, sizes: Sequence[int] = (784, 1024, 1024, 1024, 10)) -> None:
        from documents_code.pyro_hidden_layer import DocumentNetwork

        del seed
        super().__init__(train)
        self.document = DocumentNetwork(len(train), n_hidden=sizes[1], n_inputs=sizes[0], batch_size=BATCH)

    def predict(self, images: Tensor, n_draws: int) -> object:
        """Return log-probabilities [S, B, K]."""
        return self.document.predict(images, n_draws)


class PyroRandomModule(_InPyro):
    """chopra2018's network; predicts by its rule that refuses."""

    refuses: ClassVar = True

    def __init__(self, train: Split, seed: int, sizes: Sequence[int] = (784, 1024, 10)) -> None:
        from documents_code.pyro_random_module import DocumentNetwork

        del seed
        super().__init__(train)
        self.document = DocumentNetwork(n_hidden=sizes[1], n_inputs=sizes[0])
        self.document.net.to(train.x.device)

    def predict(self, images: Tensor, n_draws: int) -> object:
        """Return the class of each image, or None where the document's rule refuses."""
        return self.document.predict_or_refuse(images, n_draws)


class MxnetBbb(DocumentCode):
    """rabanser2017's Bayes by Backprop; `sizes` leaves out the layer that its forward pass leaves out."""

    def __init__(self, train: Split, seed: int, sizes: Sequence[int] = (784, 400, 10)) -> None:
        from documents_code import mxnet_bbb
        from implementations._mxnet import mx, to_ndarray

        super().__init__(train)
        self._mx = mx
        self._to_ndarray = to_ndarray
        mx.random.seed(seed)
        mus, rhos = mxnet_bbb.initial_parameters(mxnet_bbb.layer_shapes(*sizes))
        self.document = mxnet_bbb.DocumentBbb(mus, rhos, n_batches=-(-len(train) // BATCH))
        self.x, self.y = self._scaled(train.x), to_ndarray(train.y.float())
        self.networks: list[list[Any]] = []

    def _scaled(self, images: Tensor) -> Any:
        return self._to_ndarray(images) * BYTES_OVER_126

    def step(self) -> float:
        """Return the loss of the step."""
        rows = next(self._batches)
        return self.document.step(self.x[rows], self.y[rows])

    def predict(self, images: Tensor, n_draws: int) -> Any:
        """Return log-probabilities [S, B, K].

        The document has no loop over draws, so that all batches use the same draws. They are drawn before the first
        timed block, which favours the document: new draws for each batch would be slower.
        """
        if len(self.networks) != n_draws:
            self.networks = self.document.draw_networks(n_draws)
            self.settle()
        return self.document.predict(self._scaled(images.contiguous()), self.networks)

    def settle(self) -> None:
        """Wait for MXNet's queue."""
        self._mx.nd.waitall()


DOCUMENTS_CODE = {
    "dropout_fcn": DropoutFcn,
    "pyro_hidden_layer": PyroHiddenLayer,
    "pyro_random_module": PyroRandomModule,
    "mlp": Mlp,
    "linear_bbb": LinearBbb,
    "mxnet_bbb": MxnetBbb,
}
"""By approach: (training rows on the device, seed, layer sizes) -> the document's code. Only tests give sizes.

Code in Pyro or MXNet imports its framework when it is made.
"""


def names() -> list[str]:
    """Return the approaches that a document has code of, in the order of the tables."""
    return [name for name in manifests() if name in DOCUMENTS_CODE]


def choose(given: Sequence[str]) -> list[str]:
    """Return the given names once each, or all; raises ConfigError for one of no document."""
    known = names()
    for name in given:
        manifest(name)
        check_known("approach of a document", known, name)
    return list(dict.fromkeys(given)) or known
