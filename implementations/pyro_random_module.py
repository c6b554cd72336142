"""`pyro.random_module`: a Gaussian for every weight and bias of a small network, fitted by SVI with one weight sample.

Implements chopra2018, the notebook bnn.ipynb of https://github.com/paraschopra/bayesian-neural-network-mnist at commit
2496246, and its article "Making Your Neural Network Say 'I Don't Know'".

Objective of a batch, nats, with one draw w ~ q (`Trace_ELBO`) and the NLL summed over the batch's images
    published        NLL + log q(w) - log p(w)             the whole KL in each of the 469 batches of an epoch
    divide_kl=True   NLL + (log q(w) - log p(w)) / 469
Target
    q = N(mu, softplus(rho)^2) for each weight, prior N(0, 1). published: the posterior of about one batch (128 images);
    divide_kl: that of all N images.
Departures from the document are the corrections listed in pyro_random_module.toml. The distributions of
`_kernels.gaussian_weights` stand for the document's `Normal`: same draws, same log-probabilities, fewer passes over the
weights. The network has no weights of its own (device "meta"), as every one is drawn.

Cost: a step draws, scores and updates each of P = 814,090 weights. Pyro's tracing, the copies of the network and
autograd's small operations have their part (docs/verdicts.md).  Fails when: see `_kernels.gaussian_weights`.
"""

# mypy: allow-subclassing-any, allow-untyped-calls, no-warn-return-any
# (Pyro has no types, nor have some functions of PyTorch)
from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pyro
import torch
from pyro import distributions, poutine
from pyro.distributions import TorchDistribution
from pyro.infer import SVI, Trace_ELBO
from torch import Tensor, nn
from torch.nn.functional import log_softmax, softplus

from bench.core.streams import StepNoise, normals
from bench.interface import Approach, Context, Noise, Posterior, Split, Task
from implementations._kernels.gaussian_posterior import (
    Family,
    GaussianPosterior,
    gaussian_log_prior,
    log_probabilities,
)
from implementations._kernels.gaussian_weights import GaussianWeights, StandardNormalWeights
from implementations._kernels.layout import Layout
from implementations._pyro import adam, isolated, load_state, minibatches, save_state

LAYERS = ("fc1", "out")  # the document's names
WEIGHTS = tuple(f"{layer}.{part}" for layer in LAYERS for part in ("weight", "bias"))  # [out, in] and [out]


@dataclass(frozen=True)
class PyroRandomModule(Approach):
    """784-1024-10, ReLU, standard normal priors, Adam."""

    noise: ClassVar[Noise] = "weights"

    epochs: int = 5
    batch_size: int = 128
    n_hidden: int = 1024  # units of the hidden layer
    learning_rate: float = 0.01  # of Adam; mu and rho start as N(0, 1)
    divide_kl: bool = False  # weigh log q - log p with 1 / (batches of an epoch)

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace has the mean loss per image."""
        with isolated(ctx.device), _deprecation_is_known():
            network = _Network(self, task, ctx)
            optimiser = adam(self.learning_rate)
            svi = SVI(network.model, network.guide, optimiser, loss=Trace_ELBO())
            done, state = ctx.restore() or (0, None)
            if state is not None:
                load_state(optimiser, state)
            for epoch in range(done + 1, self.epochs + 1):
                network.normals = StepNoise(ctx.stream("noise", epoch)).normals_
                loss, seen = 0.0, 0
                order = ctx.generator("shuffle", epoch)
                for images, labels in minibatches(train, self.batch_size, order, ctx.steps_per_epoch):
                    loss += svi.step(images, labels)
                    seen += len(labels)
                ctx.epoch_end(
                    epoch,
                    {f"mnist/{train.name}/train_loss_per_image": loss / seen},
                    lambda: network.posterior(ctx.seed),
                    lambda: save_state(optimiser),
                )
            return network.posterior(ctx.seed)

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior with these arrays."""
        return GaussianPosterior(self.family(task, seed), arrays["mu"], arrays.get("sigma"))

    def family(self, task: Task, seed: int) -> Family:
        """Return the properties that all posteriors of one fit share."""
        layout = Layout((task.n_inputs, self.n_hidden, task.n_outputs))
        prior = partial(gaussian_log_prior, 1.0)
        return Family(layout, torch.relu_, prior, log_probabilities, seed, names=LAYERS)


class _Network:
    """The document's model and guide in Pyro."""

    def __init__(self, recipe: PyroRandomModule, task: Task, ctx: Context) -> None:
        batches = math.ceil(task.n_train / recipe.batch_size)
        self.kl_weight = 1 / batches if recipe.divide_kl else 1.0
        self.normals: Callable[[Tensor], Tensor] = Tensor.normal_  # each epoch sets its own source of noise
        self.family = partial(recipe.family, task)
        self.net = _Net(task.n_inputs, recipe.n_hidden, task.n_outputs)
        self.prior = {name: StandardNormalWeights(weight.shape) for name, weight in self.net.named_parameters()}
        start = ctx.generator("init")
        for name, weight in self.net.named_parameters():
            for parameter in ("mu", "rho"):
                drawn = normals(weight.numel(), start, ctx.dtype).view(weight.shape)
                pyro.param(f"{name}/{parameter}", drawn.to(ctx.device))

    def model(self, images: Tensor, labels: Tensor) -> None:
        """Draw a network from the prior and condition the labels on its outputs."""
        logits = log_softmax(self._lifted(self.prior)(images), dim=-1)
        pyro.sample("obs", distributions.Categorical(logits=logits), obs=labels)

    def guide(self, images: Tensor, labels: Tensor) -> nn.Module:
        """Draw a network from the learnt Gaussians."""
        del images, labels
        return self._lifted({name: GaussianWeights(*self._parameters(name), self.normals) for name in self.prior})

    def posterior(self, seed: int) -> GaussianPosterior:
        """Return a copy of what has been learnt."""
        mus, rhos = zip(*(self._parameters(name) for name in WEIGHTS), strict=True)
        mu, rho = (torch.cat([part.detach().flatten() for part in parts]).cpu() for parts in (mus, rhos))
        return GaussianPosterior(self.family(seed), mu, softplus(rho))

    def _lifted(self, distribution: Mapping[str, TorchDistribution]) -> nn.Module:
        with poutine.scale(scale=self.kl_weight):
            return pyro.random_module("module", self.net, distribution)()

    def _parameters(self, name: str) -> tuple[Tensor, Tensor]:
        return pyro.param(f"{name}/mu"), pyro.param(f"{name}/rho")


class _Net(nn.Module):
    """The network without values in its weights; `pyro.random_module` puts drawn weights into a copy of it."""

    def __init__(self, n_inputs: int, n_hidden: int, n_outputs: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(n_inputs, n_hidden, device="meta")
        self.out = nn.Linear(n_hidden, n_outputs, device="meta")

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.fc1(x)))

    def __deepcopy__(self, memo: dict[int, Any]) -> _Net:
        # `pyro.random_module` copies the network twice in every step, for the guide and for the model. To copy only
        # the layers is enough, and takes a tenth of the time.
        twin = copy.copy(self)
        layers = {name: copy.copy(layer) for name, layer in self.named_children()}
        for layer in layers.values():
            layer._parameters = dict(layer._parameters)
        twin._modules = dict(layers)
        return twin


@contextmanager
def _deprecation_is_known() -> Iterator[None]:
    """Silence the warning of `pyro.random_module` that it is deprecated: the document is about this function."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The `random_module` primitive is deprecated", category=FutureWarning)
        yield
