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

Cost: `_kernels.sampled_mlp`, 11 vectors of P = 669,706 numbers; where a step's time goes: docs/verdicts.md.
Fails when: rho is below -16, so that 1 + e^rho rounds to 1 in float32 and sigma to 0: in the plain form of a step, and
in the posterior of every fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from bench.core.streams import StepNoise, uniforms
from bench.interface import Approach, Context, Noise, Posterior, Split, Task
from implementations import _seeds
from implementations._kernels.gaussian_posterior import (
    Family,
    GaussianPosterior,
    gaussian_log_prior,
    log_probabilities,
)
from implementations._kernels.layout import Layout
from implementations._kernels.sampled_mlp import Objective, SampledMlp, categorical_nll
from implementations._sampled_seeds import SampledSeeds


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
        return self.fit_many(train, _seeds.all_rows(train), task, [ctx])[0]

    def fit_many(self, train: Split, rows: Tensor, task: Task, contexts: Sequence[Context]) -> list[Posterior]:
        """See `Approach.fit_many`."""
        return _seeds.fit_seeds(Seeds(self, train, rows, task, contexts), contexts, self.epochs)

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior of stored means and standard deviations."""
        return GaussianPosterior(self._family(task, seed), arrays["mu"], arrays.get("sigma"))

    def _layout(self, task: Task) -> Layout:
        return Layout((task.n_inputs, self.hidden_units, self.hidden_units, task.n_outputs))

    def _family(self, task: Task, seed: int) -> Family:
        prior = partial(gaussian_log_prior, self.prior_std)
        return Family(self._layout(task), torch.sigmoid_, prior, log_probabilities, seed)

    def network(self, task: Task, *contexts: Context) -> SampledMlp:
        """Return the untrained network of the contexts' seeds."""
        # N / 128 = 468.75 as in the document, although an epoch has 469 batches.
        n_batches = task.n_train / self.batch_size
        objective = Objective(self.prior_std, n_batches, self.detach_mu, categorical_nll)
        layout, first = self._layout(task), contexts[0]
        n_seeds, dtype, device = len(contexts), first.dtype, first.device
        network = SampledMlp(layout, objective, self.batch_size, n_seeds=n_seeds, dtype=dtype, device=device)
        for index, context in enumerate(contexts):
            start = uniforms(layout.n_weights, self.mean_bound, context.generator("init"), context.dtype)
            network.of_seed(network.mu, index).copy_(start)
        network.rho.fill_(self.rho_start)
        return network


class Seeds(SampledSeeds):
    """Seeds that train together."""

    def __init__(self, recipe: LinearBbb, train: Split, rows: Tensor, task: Task, contexts: Sequence[Context]) -> None:
        """Draw the initial means of every seed; see `Approach.fit_many`."""
        network = recipe.network(task, *contexts)
        super().__init__(network, recipe.learning_rate, [recipe._family(task, context.seed) for context in contexts])
        self._recipe, self._contexts, self._name = recipe, contexts, train.name
        self._rows = _seeds.TrainingRows(train, rows, contexts[0].device)

    def epoch(self, epoch: int) -> list[dict[str, float]]:
        """See `_seeds.Seeds`."""
        recipe, contexts = self._recipe, self._contexts
        self.adam.set_learning_rate(recipe.learning_rate / recipe.learning_rate_divisor ** (epoch - 1))
        self._rows.shuffle([context.generator("shuffle", epoch) for context in contexts])
        noise = [StepNoise(context.stream("noise", epoch)) for context in contexts]
        batches = self._rows.batches(recipe.batch_size, contexts[0].steps_per_epoch)
        total = torch.zeros((), dtype=torch.float64, device=contexts[0].device)
        for batch in batches:
            total = total + self.network.step(*self._rows.take(batch), noise, self.adam)
        return [{f"mnist/{self._name}/train_loss": loss / len(batches)} for loss in total.view(-1).tolist()]
