"""The Bayesian network of alsibahi2019 as its code runs it: Pyro's own HiddenLayer, training step and prediction loop.

Our code is tested against it and timed beside it; no result comes from it. It differs from the document only where Pyro
1.9 needs it: the layers' sites are outside the plate, labels are one-hot in float32 with the number of classes given,
validation is off. The caller clears Pyro's parameter store.
"""

from __future__ import annotations

import pyro
import torch
from pyro import distributions, poutine
from pyro.contrib.bnn import HiddenLayer
from pyro.infer import SVI, TraceMeanField_ELBO
from torch import Tensor
from torch.distributions import constraints
from torch.nn.functional import leaky_relu, log_softmax, one_hot


class DocumentNetwork:
    """Model, guide, one training step and the prediction by repeated passes through the guide."""

    def __init__(self, n_train: int, n_hidden: int = 1024, n_inputs: int = 784, batch_size: int = 128) -> None:
        self.shapes = [(n_inputs, n_hidden), (n_hidden + 1, n_hidden), (n_hidden + 1, n_hidden), (n_hidden + 1, 10)]
        self.kl_factor = batch_size / n_train
        optimiser = pyro.optim.SGD({"lr": 0.002, "momentum": 0.9, "nesterov": True})
        self.svi = SVI(self.model, self.guide, optimiser, TraceMeanField_ELBO())

    def model(self, images: Tensor, labels: Tensor | None = None, kl_factor: float = 1.0) -> None:
        """Sample the layers from the model's weights, and the labels given the logits."""
        means = [torch.zeros(self.shapes[0])] + [torch.zeros(rows, 10) for rows, _ in self.shapes[1:]]
        scales = [torch.ones(shape) for shape in self.shapes]
        dropouts = [torch.tensor(0.25), torch.tensor(1.0), torch.tensor(1.0), 1]
        logits = self._layers(images, means, scales, dropouts, kl_factor)
        with pyro.plate("data", size=len(images)):
            label = None if labels is None else one_hot(labels, 10).float()
            pyro.sample("label", distributions.OneHotCategorical(logits=logits), obs=label)

    def guide(self, images: Tensor, labels: Tensor | None = None, kl_factor: float = 1.0) -> None:
        """Sample the layers from the variational parameters."""
        del labels
        means, scales, dropouts = [], [], []
        for index, (shape, dropout) in enumerate(zip(self.shapes, (0.25, 1.0, 1.0, None), strict=True), start=1):
            means.append(pyro.param(f"a{index}_mean", self.initial_mean(shape)))
            above = constraints.greater_than(0.01)
            scales.append(pyro.param(f"a{index}_scale", 0.1 * torch.ones(shape), constraint=above))
            between = constraints.interval(0.1, 1.0)
            start = None if dropout is None else torch.tensor(dropout)
            dropouts.append(1 if dropout is None else pyro.param(f"a{index}_dropout", start, constraint=between))
        self._layers(images, means, scales, dropouts, kl_factor)

    def initial_mean(self, shape: tuple[int, int]) -> Tensor:
        """Draw means. The document draws them in every pass; Pyro uses only those of the first pass."""
        return 0.01 * torch.randn(shape)

    def _layers(self, images: Tensor, means: list, scales: list, dropouts: list, kl_factor: float) -> Tensor:
        value = images
        for name, mean, scale, dropout in zip(("h1", "h2", "h3"), means, scales, dropouts, strict=False):
            layer = HiddenLayer(value, mean, dropout * scale, non_linearity=leaky_relu, KL_factor=kl_factor)
            value = pyro.sample(name, layer)
        last = HiddenLayer(
            value,
            means[3],
            scales[3],
            non_linearity=lambda x: log_softmax(x, dim=-1),
            KL_factor=kl_factor,
            include_hidden_bias=False,
        )
        return pyro.sample("logits", last)

    def training_step(self, images: Tensor, labels: Tensor) -> tuple[float, int]:
        """Take one step; return its loss and how many of the batch one draw from the new guide gets right."""
        loss = self.svi.step(images, labels, kl_factor=self.kl_factor)
        return loss, int((self.predict(images, 1).mean(0).argmax(-1) == labels).sum())

    def predict(self, images: Tensor, n_draws: int) -> Tensor:
        """Return log-probabilities [n_draws, B, 10]; the document passes one image at a time."""
        draws = [poutine.trace(self.guide).get_trace(images).nodes["logits"]["value"] for _ in range(n_draws)]
        return torch.stack(draws)
