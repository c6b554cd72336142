"""Shared by the approaches after Blundell et al. 2015: the network, and the training of one seed.

Shapes: N training rows, B rows of a batch, P scalar weights.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.core.streams import StepNoise
from bench.interface import Approach, Context, Posterior, Split, Task
from implementations import _dense, _seeds
from implementations._kernels.gaussian_posterior import Family, GaussianPosterior, log_probabilities
from implementations._kernels.layout import Layout
from implementations._kernels.relu_network import ReluNetwork
from implementations._kernels.scale_mixture import ScaleMixture


@dataclass(frozen=True)
class PaperNetwork(Approach):
    """784-n-n-10 with ReLU, trained on batches of 128 by SGD, as all methods of the paper's Table 1."""

    epochs: int = 600  # passes over the training rows
    batch_size: int = 128  # rows of a step; the last step of an epoch takes the remaining rows
    learning_rate: float = 1e-3  # for the loss summed over a batch; the paper's grid is 1e-3, 1e-4, 1e-5
    hidden_units: int = 400  # n of each of two hidden layers: 400, 800 or 1200
    pixel_scale: float = 255 / 126  # of pixels in [0, 1]: the paper divides bytes by 126

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace has the mean negative log-likelihood of a training row, "mnist/<split>/train_nll", nats."""
        _dense.check_task(type(self).__name__, task, "classification")
        scaled = dataclasses.replace(train, x=train.x * self.pixel_scale)
        return _seeds.fit_seeds(self.seeds(scaled, task, ctx), [ctx], self.epochs)[0]

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior of stored means and, if the network has noise, standard deviations."""
        return GaussianPosterior(self.family(task, seed), arrays["mu"], arrays.get("sigma"))

    @abstractmethod
    def seeds(self, train: Split, task: Task, ctx: Context) -> _seeds.Seeds:
        """Return the untrained network with its training rows; the pixels of `train` are scaled already."""

    def prior_of_weights(self) -> ScaleMixture:
        """Return the prior of each weight. A network without noise computes no densities and does not use it."""
        return ScaleMixture(1.0)

    def layout(self, task: Task) -> Layout:
        """Return the sizes of the layers."""
        return Layout((task.n_inputs, self.hidden_units, self.hidden_units, task.n_outputs))

    def family(self, task: Task, seed: int) -> Family:
        """Return the properties that all posteriors of one seed share."""
        prior = self.prior_of_weights().log_density
        return Family(self.layout(task), torch.relu_, prior, log_probabilities, seed, self.pixel_scale)


class OneSeed(_seeds.Seeds):
    """One seed in training; a subclass takes the steps."""

    def __init__(self, recipe: PaperNetwork, train: Split, task: Task, ctx: Context) -> None:
        """Take the rows of `train`, whose pixels are scaled already."""
        self.family, self.ctx = recipe.family(task, ctx.seed), ctx
        self._batch_size, self._name = recipe.batch_size, train.name
        self._rows = _seeds.TrainingRows(train, _seeds.all_rows(train), ctx.device)

    def epoch(self, epoch: int) -> list[dict[str, float]]:
        """See `_seeds.Seeds`."""
        self._rows.shuffle([self.ctx.generator("shuffle", epoch)])
        where = self._rows.batches(self._batch_size, self.ctx.steps_per_epoch)
        trace = self.train((self._rows.take(batch) for batch in where), len(where), epoch)
        n_rows = min(len(self._rows), len(where) * self._batch_size)
        trace["train_nll"] /= n_rows
        return [{f"mnist/{self._name}/{name}": value for name, value in trace.items()}]

    @abstractmethod
    def train(self, batches: Iterator[tuple[Tensor, Tensor]], n_batches: int, epoch: int) -> dict[str, float]:
        """Take the steps of an epoch; return its trace, in which "train_nll" is summed over all rows, nats."""


class PlainSeed(OneSeed):
    """A network without noise in its weights, trained by SGD on the summed cross-entropy."""

    def __init__(self, recipe: PaperNetwork, train: Split, task: Task, ctx: Context) -> None:
        """Draw the initial weights."""
        super().__init__(recipe, train, task, ctx)
        self.flat = initial_weights(recipe.layout(task), ctx)
        self.gradient = torch.zeros_like(self.flat)
        self._learning_rate = recipe.learning_rate
        self._network = ReluNetwork(recipe.layout(task), self.flat, self.gradient, recipe.batch_size)

    def restore(self, states: Sequence[_seeds.State]) -> None:
        """See `_seeds.Seeds`."""
        self.flat.copy_(states[0]["parameters"])

    def train(self, batches: Iterator[tuple[Tensor, Tensor]], n_batches: int, epoch: int) -> dict[str, float]:
        """See `OneSeed.train`."""
        del n_batches
        noise = StepNoise(self.ctx.stream("noise", epoch))
        total = self.flat.new_zeros((), dtype=torch.float64)
        for x, y in batches:
            total += self.step(x, y, noise)
        return {"train_nll": total.item()}

    def step(self, x: Tensor, y: Tensor, noise: StepNoise) -> Tensor:
        """Take one step on x [B, n_inputs] and y [B]; return the summed negative log-likelihood before it, nats."""
        inputs, *hidden = self.masks(x, noise) or (None,)
        nll = self._network.differentiate(x if inputs is None else x * inputs, y, 1.0, hidden)
        self.flat.add_(self.gradient, alpha=-self._learning_rate)
        return nll

    def masks(self, x: Tensor, noise: StepNoise) -> list[Tensor]:
        """Return factors for the inputs and for the outputs of each hidden layer; [] for a plain network."""
        del x, noise
        return []

    def posterior(self, index: int) -> Posterior:
        """See `_seeds.Seeds`."""
        del index
        return GaussianPosterior(self.family, self.flat.to("cpu", copy=True), None)

    def state(self, index: int) -> _seeds.State:
        """See `_seeds.Seeds`."""
        del index
        return {"parameters": self.flat.to("cpu", copy=True)}


def initial_weights(layout: Layout, ctx: Context) -> Tensor:
    """Return initial weights and biases [P], uniform within +-1/sqrt(n_in) of each layer; the paper names none."""
    return _dense.linear_init(layout, ctx.generator("init"), ctx.dtype).to(ctx.device)
