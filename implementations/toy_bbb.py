"""Bayes by Backprop on the six-point regression: Gaussian weights on a network of one hidden layer.

Implements feldman2018, Josh Feldman's "Weight Uncertainty in Neural Networks Tutorial" (2018-12-18),
https://joshfeldman.net/ml/2018/12/17/WeightUncertainty.html, source JoshFeldman95.github.io commit 56ef67a; after
Blundell et al. 2015, arXiv 1505.05424. Architecture: 1-32-1, sigmoid.

Objective (nats, all six points, one draw w ~ q)
    log q(w) - log p(w) - sum log N(y | f(x, w), noise_std^2)
Target
    the mean-field posterior under the prior N(0, prior_std^2) and a known observation noise, at temperature 1. As
    published log q takes the means as constants. The loss is one noisy draw: it stays far above its best value.

Cost: about forty small operations a step, mostly overhead.  Fails when: a single loss is taken as the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from bench.core.streams import StepNoise
from bench.interface import Approach, Context, Gaussian, Noise, Posterior, Split, Task
from implementations import _seeds
from implementations._kernels.gaussian_posterior import Family, GaussianPosterior, gaussian_log_prior
from implementations._kernels.layout import Layout
from implementations._kernels.sampled_mlp import Objective, SampledMlp, gaussian_nll
from implementations._sampled_seeds import SampledSeeds


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
        return self.fit_many(train, _seeds.all_rows(train), task, [ctx])[0]

    def fit_many(self, train: Split, rows: Tensor, task: Task, contexts: Sequence[Context]) -> list[Posterior]:
        """See `Approach.fit_many`."""
        return _seeds.fit_seeds(Seeds(self, train, rows, task, contexts), contexts, self.epochs)

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


class Seeds(SampledSeeds):
    """Seeds that train together."""

    def __init__(self, recipe: ToyBbb, train: Split, rows: Tensor, task: Task, contexts: Sequence[Context]) -> None:
        """Start every seed at the same parameters; see `Approach.fit_many`."""
        objective = Objective(recipe.prior_std, 1, recipe.detach_mu, gaussian_nll(recipe.noise_std))
        n_seeds, n_rows = rows.shape
        network = SampledMlp(
            recipe._layout(task),
            objective,
            n_rows,
            n_seeds=n_seeds,
            dtype=contexts[0].dtype,
            device=contexts[0].device,
        )
        network.rho.fill_(recipe.rho_start)
        super().__init__(network, recipe.learning_rate, [recipe._family(task, context.seed) for context in contexts])
        self._contexts, self._name = contexts, train.name
        self._x, self._y = _seeds.TrainingRows(train, rows, contexts[0].device).take(slice(0, n_rows))
        self._n_steps = min(recipe.steps_per_interval, contexts[0].steps_per_epoch or recipe.steps_per_interval)

    def epoch(self, epoch: int) -> list[dict[str, float]]:
        """See `_seeds.Seeds`."""
        noise = [StepNoise(context.stream("noise", epoch)) for context in self._contexts]
        losses = []
        with _one_thread():
            for _ in range(self._n_steps):
                losses.append(self.network.step(self._x, self._y, noise, self.adam))
        return [{f"toy/{self._name}/train_loss": loss} for loss in losses[0].view(-1).tolist()]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit PyTorch to one thread inside the `with`, and restore the number of threads after it.

    For vectors of a few hundred numbers, waking a second thread costs more than the operation; on a busy machine it
    costs a hundred times more. `sqrt` of 194 numbers already wakes one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
