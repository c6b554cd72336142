"""Bayes by Backprop on MNIST: independent Gaussians over all weights, fitted with one weight sample a step.

Implements feldman2018, Josh Feldman's "Weight Uncertainty in Neural Networks Tutorial" (2018-12-18),
https://joshfeldman.net/ml/2018/12/17/WeightUncertainty.html, source JoshFeldman95.github.io commit 56ef67a; after
Blundell et al. 2015, arXiv 1505.05424. Architecture: 784-512-512-10, sigmoid.

Objective (nats, one batch of 128, one draw w ~ q)
    (log q(w) - log p(w)) / (N / 128) - sum log p(y | x, w)
Target
    the mean-field posterior under the prior N(0, prior_std^2) at temperature 1. As published it is not reached: log q
    takes the means as constants, which drowns the prior's pull on them in noise, and rho can only climb by about
    learning_rate a step, so that sigma still grows when training ends.
Departures from the document are the corrections listed in linear_bbb.toml. The gradient is written out and not taken by
autograd, which changes rounding only.

Cost: `_kernels.sampled_mlp`, 11 vectors of P = 669,706 numbers. Of a step on two CPU cores 60 % are matrix products (at
two thirds of their full rate: 128 rows are few), 15 % each the noise, the draw, and the gradient with Adam.  Fails when:
rho is so low that 1 + e^rho rounds to 1 (the plain form only).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from bench.interface import Approach, Context, Noise, Posterior, Split, Task
from bench.streams import StepNoise
from implementations._kernels.flat_adam import FlatAdam
from implementations._kernels.gaussian_posterior import (
    Family,
    GaussianPosterior,
    gaussian_log_prior,
    log_probabilities,
)
from implementations._kernels.layout import Layout
from implementations._kernels.sampled_mlp import Objective, SampledMlp, categorical_nll, sigma_of


@dataclass(frozen=True)
class LinearBbb(Approach):
    """Gaussian weights on 784-512-512-10, Adam with a decaying rate."""

    noise: ClassVar[Noise] = "weights"

    epochs: int = 20  # training epochs
    batch_size: int = 128  # images; the last batch of an epoch is what remains
    learning_rate: float = 1e-3  # Adam's, in the first epoch
    learning_rate_divisor: float = 1.1  # after each epoch
    hidden_units: int = 512  # of each of two hidden layers
    mean_bound: float = 0.6  # means start uniform between -bound and bound
    rho_start: float = -6.0  # sigma starts at log(1 + e^rho) = 0.0025
    prior_std: float = 6.0  # standard deviation of the prior; the document calls it prior_var
    detach_mu: bool = True  # log q takes the means as constants (the document's w_mu.data)

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace is the mean over batches of the objective, "mnist/<split>/train_loss"."""
        network = self._network(task, ctx)
        adam = FlatAdam(network.parameters, network.gradient, self.learning_rate)
        done, state = ctx.restore() or (0, None)
        if state is not None:
            adam.restore(state)
        x, y = train.x.to(ctx.device), train.y.to(ctx.device)

        def posterior() -> Posterior:
            # .to with copy: the parameters go on changing in place
            mu = network.mu.to("cpu", copy=True)
            return GaussianPosterior(self._family(task, ctx.seed), mu, sigma_of(network.rho).cpu())

        for epoch in range(done + 1, self.epochs + 1):
            adam.set_learning_rate(self.learning_rate / self.learning_rate_divisor ** (epoch - 1))
            order = torch.randperm(len(train), generator=ctx.generator("shuffle", epoch))
            noise = StepNoise(ctx.stream("noise", epoch))
            batches = torch.split(order.to(ctx.device), self.batch_size)[: ctx.steps_per_epoch]
            total = torch.zeros((), dtype=torch.float64, device=ctx.device)
            for batch in batches:
                total += network.step(x[batch], y[batch], noise, adam)
            trace = {f"mnist/{train.name}/train_loss": total.item() / len(batches)}
            ctx.epoch_end(epoch, trace, posterior, adam.state)
        return posterior()

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior of stored means and standard deviations."""
        return GaussianPosterior(self._family(task, seed), arrays["mu"], arrays.get("sigma"))

    def _layout(self, task: Task) -> Layout:
        return Layout((task.n_inputs, self.hidden_units, self.hidden_units, task.n_outputs))

    def _family(self, task: Task, seed: int) -> Family:
        prior = partial(gaussian_log_prior, self.prior_std)
        return Family(self._layout(task), torch.sigmoid_, prior, log_probabilities, seed)

    def _network(self, task: Task, ctx: Context) -> SampledMlp:
        """Return the network as it starts."""
        # N / 128 = 468.75 as in the document, although an epoch has 469 batches.
        n_batches = task.n_train / self.batch_size
        objective = Objective(self.prior_std, n_batches, self.detach_mu, categorical_nll)
        network = SampledMlp(self._layout(task), objective, self.batch_size, device=ctx.device)
        start = torch.empty(len(network.mu)).uniform_(
            -self.mean_bound, self.mean_bound, generator=ctx.generator("init")
        )
        network.mu.copy_(start)
        network.rho.fill_(self.rho_start)
        return network
