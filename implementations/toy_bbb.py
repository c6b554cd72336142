"""Bayes by Backprop on the six-point regression: Gaussian weights on a network of one hidden layer.

Implements feldman2018, Josh Feldman's "Weight Uncertainty in Neural Networks Tutorial" (2018-12-18),
https://joshfeldman.net/ml/2018/12/17/WeightUncertainty.html, source JoshFeldman95.github.io commit 56ef67a; after
Blundell et al. 2015, arXiv 1505.05424. Architecture: 1-32-1, sigmoid.

Objective (nats, all six points, one draw w ~ q)
    log q(w) - log p(w) - sum log N(y | f(x, w), noise_std^2)
Target
    the mean-field posterior under the prior N(0, prior_std^2) and a known observation noise, at temperature 1. As
    published log q takes the means as constants. The loss is one noisy draw: it stays far above its best value.

Cost: microseconds of overhead in about forty operations a step.  Fails when: one looks at a single loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from bench.interface import Approach, Context, Gaussian, Noise, Posterior, Split, Task
from bench.streams import StepNoise
from implementations._kernels.flat_adam import FlatAdam
from implementations._kernels.gaussian_posterior import Family, GaussianPosterior, gaussian_log_prior
from implementations._kernels.layout import Layout
from implementations._kernels.sampled_mlp import Objective, SampledMlp, gaussian_nll, sigma_of
from implementations._kernels.threads import one_thread


@dataclass(frozen=True)
class ToyBbb(Approach):
    """Gaussian weights on 1-32-1, full-batch Adam."""

    noise: ClassVar[Noise] = "weights"

    epochs: int = 200  # printing intervals of the document
    steps_per_interval: int = 10  # full-batch steps
    learning_rate: float = 0.1  # Adam's
    hidden_units: int = 32
    rho_start: float = 0.0  # sigma starts at log 2 = 0.69; all means start at zero
    prior_std: float = 10.0  # standard deviation of the prior; the document calls it prior_var
    noise_std: float = 0.1  # of an observation, target units
    detach_mu: bool = True  # log q takes the means as constants (the document's w_mu.data)

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace is the loss of each interval's first step, "toy/<split>/train_loss", as printed."""
        objective = Objective(self.prior_std, 1, self.detach_mu, gaussian_nll(self.noise_std))
        network = SampledMlp(self._layout(task), objective, len(train), device=ctx.device)
        network.rho.fill_(self.rho_start)
        adam = FlatAdam(network.parameters, network.gradient, self.learning_rate)
        done, state = ctx.restore() or (0, None)
        if state is not None:
            adam.restore(state)
        x, y = train.x.to(ctx.device), train.y.to(ctx.device)
        n_steps = min(self.steps_per_interval, ctx.steps_per_epoch or self.steps_per_interval)

        def posterior() -> Posterior:
            mu = network.mu.to("cpu", copy=True)
            return GaussianPosterior(self._family(task, ctx.seed), mu, sigma_of(network.rho).cpu())

        for interval in range(done + 1, self.epochs + 1):
            noise = StepNoise(ctx.stream("noise", interval))
            losses = []
            with one_thread():
                for _ in range(n_steps):
                    losses.append(network.step(x, y, noise, adam))
            trace = {f"toy/{train.name}/train_loss": losses[0].item()}
            ctx.epoch_end(interval, trace, posterior, adam.state)
        return posterior()

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior of stored means and standard deviations."""
        return GaussianPosterior(self._family(task, seed), arrays["mu"], arrays.get("sigma"))

    def _layout(self, task: Task) -> Layout:
        return Layout((task.n_inputs, self.hidden_units, task.n_outputs))

    def _family(self, task: Task, seed: int) -> Family:
        prior = partial(gaussian_log_prior, self.prior_std)
        return Family(self._layout(task), torch.sigmoid_, prior, self._observations, seed)

    def _observations(self, outputs: Tensor) -> Gaussian:
        return Gaussian(outputs, torch.full_like(outputs, self.noise_std**2))
