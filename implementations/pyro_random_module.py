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

Cost: a step draws, scores and updates each of P = 814,090 weights; P normals, P exponentials and 1.25 P logarithms take
longer than its two large matrix products.  Fails when: see `_kernels.gaussian_weights`.
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
from typing import Any, ClassVar

import pyro
import torch
from pyro import distributions, poutine
from pyro.distributions import TorchDistribution
from pyro.infer import SVI, Trace_ELBO
from torch import Tensor, nn
from torch.nn.functional import log_softmax, pad, softplus

from bench.errors import Unsupported
from bench.interface import Approach, Categorical, Context, Marginal, Noise, Posterior, Split, Task
from bench.streams import StepNoise, generator
from implementations._kernels.gaussian_weights import GaussianWeights, StandardNormalWeights
from implementations._pyro import adam, isolated, load_state, masked_arrays, minibatches, save_state

WEIGHTS = ("fc1.weight", "fc1.bias", "out.weight", "out.bias")  # the document's names, [out, in] and [out]
# Logits reach thousands, so their rounding shows. MKL sums in another order where it has fewer than four rows left.
ROW_MULTIPLE = 8


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
        del task
        return RandomModulePosterior(arrays, seed)


class RandomModulePosterior(Posterior):
    """Independent Gaussians for all weights; a draw is one network. Without std, the network of means."""

    noise: Noise = "weights"

    def __init__(self, arrays: Mapping[str, Tensor], seed: int) -> None:
        """Take NAME/mean and, unless it is the network of means, NAME/std for each of `WEIGHTS`; seed of the draws."""
        self._arrays = dict(arrays)
        self._seed = seed
        self._mean = {name: arrays[f"{name}/mean"] for name in WEIGHTS}
        self._std = {name: arrays[f"{name}/std"] for name in WEIGHTS if f"{name}/std" in arrays}
        if not self._std:
            self.n_draws, self.noise = 1, "none"

    @torch.no_grad()
    def predict(self, x: Tensor, draws: range, rows: Tensor) -> Categorical:
        """Predict all rows with each drawn network; they are not named in its noise."""
        del rows
        n_rows = len(x)
        x = pad(x, (0, 0, 0, -n_rows % ROW_MULTIPLE))
        hidden = x.new_empty(len(x), len(self._mean["fc1.bias"]))
        logits = x.new_empty(len(draws), len(x), len(self._mean["out.bias"]))
        for out, draw in zip(logits, draws, strict=True):
            first, first_bias, last, last_bias = (weight.to(x.device) for weight in self._network(draw))
            torch.addmm(first_bias, x, first.T, out=hidden).relu_()
            torch.addmm(last_bias, hidden, last.T, out=out)
        return Categorical(log_softmax(logits[:, :n_rows], dim=-1))

    def arrays(self) -> Mapping[str, Tensor]:
        """Return means and standard deviations."""
        return dict(self._arrays)

    def weights(self) -> Mapping[str, Marginal]:
        """Return the marginals of the document's four tensors."""
        return {
            name: Marginal(mean, self._std.get(name), torch.ones_like(mean, dtype=torch.bool))
            for name, mean in self._mean.items()
        }

    def masked(self, keep: Mapping[str, Tensor]) -> RandomModulePosterior:
        """Return the posterior with mean and std zero where keep is False; tensors not named are kept."""
        return RandomModulePosterior(masked_arrays(self._arrays, keep), self._seed)

    def mean_network(self) -> RandomModulePosterior:
        """Return the network of posterior means."""
        means = {key: value for key, value in self._arrays.items() if key.endswith("/mean")}
        return RandomModulePosterior(means, self._seed)

    def log_density_ratio(self, draws: range) -> Tensor:
        """Return log q(w) - log p(w) of each draw; the normalising constants cancel.

        Raises:
            Unsupported: a weight without noise (pruned, or of the network of means) has no density.
        """
        if not self._std or not all(bool(std.all()) for std in self._std.values()):
            raise Unsupported("log q(w) - log p(w) is infinite where a weight has no noise (pruned, or a mean network)")
        entropy = sum(std.double().log().sum() for std in self._std.values())
        ratios = torch.empty(len(draws), dtype=torch.float64)
        for position, draw in enumerate(draws):
            squares = [noise.double().square().sum() for noise in self._noise(draw).values()]
            weights = [weight.double().square().sum() for weight in self._network(draw)]
            ratios[position] = 0.5 * (sum(weights) - sum(squares)) - entropy
        return ratios

    def _noise(self, draw: int) -> dict[str, Tensor]:
        """Return the standard normals of a draw, in the order of `WEIGHTS`."""
        sizes = [mean.numel() for mean in self._mean.values()]
        normals = torch.randn(sum(sizes), generator=generator(self._seed, "draw", draw)).split(sizes)
        return {name: normal.view_as(mean) for normal, (name, mean) in zip(normals, self._mean.items(), strict=True)}

    def _network(self, draw: int) -> list[Tensor]:
        """Return the weights of a draw, in the order of `WEIGHTS`."""
        if not self._std:
            return list(self._mean.values())
        noise = self._noise(draw)
        return [torch.addcmul(mean, self._std[name], noise[name]) for name, mean in self._mean.items()]


class _Network:
    """The document's model and guide in Pyro."""

    def __init__(self, recipe: PyroRandomModule, task: Task, ctx: Context) -> None:
        batches = math.ceil(task.n_train / recipe.batch_size)
        self.kl_weight = 1 / batches if recipe.divide_kl else 1.0
        self.normals: Callable[[Tensor], Tensor] = Tensor.normal_  # each epoch brings its own
        self.net = _Net(task.n_inputs, recipe.n_hidden, task.n_outputs)
        self.prior = {name: StandardNormalWeights(weight.shape) for name, weight in self.net.named_parameters()}
        start = ctx.generator("init")
        for name, weight in self.net.named_parameters():
            for parameter in ("mu", "rho"):
                pyro.param(f"{name}/{parameter}", torch.randn(weight.shape, generator=start).to(ctx.device))

    def model(self, images: Tensor, labels: Tensor) -> None:
        """Draw a network from the prior and condition the labels on its outputs."""
        logits = log_softmax(self._lifted(self.prior)(images), dim=-1)
        pyro.sample("obs", distributions.Categorical(logits=logits), obs=labels)

    def guide(self, images: Tensor, labels: Tensor) -> nn.Module:
        """Draw a network from the learnt Gaussians."""
        del images, labels
        return self._lifted({name: GaussianWeights(*self._parameters(name), self.normals) for name in self.prior})

    def posterior(self, seed: int) -> RandomModulePosterior:
        """Return a copy of what has been learnt."""
        arrays = {}
        for name in self.prior:
            mu, rho = self._parameters(name)
            arrays[f"{name}/mean"] = mu.detach().to("cpu", copy=True)
            arrays[f"{name}/std"] = softplus(rho.detach()).cpu()
        return RandomModulePosterior(arrays, seed)

    def _lifted(self, distribution: Mapping[str, TorchDistribution]) -> nn.Module:
        with poutine.scale(scale=self.kl_weight):
            return pyro.random_module("module", self.net, distribution)()

    def _parameters(self, name: str) -> tuple[Tensor, Tensor]:
        return pyro.param(f"{name}/mu"), pyro.param(f"{name}/rho")


class _Net(nn.Module):
    """The network's shape: its weights hold no numbers, `pyro.random_module` puts drawn ones in a copy of it."""

    def __init__(self, n_inputs: int, n_hidden: int, n_outputs: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(n_inputs, n_hidden, device="meta")
        self.out = nn.Linear(n_hidden, n_outputs, device="meta")

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.fc1(x)))

    def __deepcopy__(self, memo: dict[int, Any]) -> _Net:
        # `pyro.random_module` copies the network in the guide and in the model of every step, to put drawn weights in
        # the copy: new layers are enough, and take a tenth of the time.
        twin = copy.copy(self)
        layers = {name: copy.copy(layer) for name, layer in self.named_children()}
        for layer in layers.values():
            layer._parameters = dict(layer._parameters)
        twin._modules = dict(layers)
        return twin


@contextmanager
def _deprecation_is_known() -> Iterator[None]:
    """Silence the one warning that `pyro.random_module` gives at each call: it is the document's subject."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The `random_module` primitive is deprecated", category=FutureWarning)
        yield
