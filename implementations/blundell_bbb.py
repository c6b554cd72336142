"""Bayes by Backprop, the last rows of the paper's Table 1: 784-n-n-10 with ReLU and independent Gaussian weights.

Implements Blundell, Cornebise, Kavukcuoglu and Wierstra 2015, "Weight Uncertainty in Neural Networks", arXiv
1505.05424, as far as its set-up is known; blundell_bbb.toml names every choice that the paper leaves open, each with a
variant for the other readings.

Objective (nats, batch i of M, mean over the draws w ~ q of a step)
    pi_i (log q(w) - log p(w)) - sum log p(y | x, w)         pi_i = 1 / M, or 2^(M - i) / (2^M - 1)
Target
    the mean-field posterior under p, a mixture of two Gaussians around zero or one Gaussian, at temperature 1. With
    the second pi_i, the first batches of an epoch get nearly all of the KL, each estimated from its own few draws.
The gradient is written out and not taken by autograd, which changes rounding only.

Cost: `_kernels.mixture_mlp`, 6 vectors of P numbers, P = 478,410 at n = 400 and 2,395,210 at n = 1200.
Fails when: rho is so low that sigma is lost beside mu in float32; the draw is then mu.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from bench.core.errors import ConfigError, check_known
from bench.core.streams import StepNoise
from bench.interface import Context, Noise, Posterior, Split, Task
from implementations import _blundell, _seeds
from implementations._kernels.gaussian_posterior import GaussianPosterior
from implementations._kernels.mixture_mlp import MixtureMlp, TwoRates
from implementations._kernels.scale_mixture import ScaleMixture

PRIORS = ("scale_mixture", "gaussian")
TWO_RATES = "two-rates"
OPTIMISERS = ("sgd", "adam", TWO_RATES)
LIKELIHOODS = ("sum", "mean")
KL_WEIGHTS = ("equal", "halving")
RHO_RATE = 10.0  # of two-rates, which is Adam: the learning rate of rho over that of the means
FALL, FALL_EPOCHS = 1 / 50, 500  # both fall to this share by one factor an epoch in so many epochs, and stay there
KL_DRAWS = 10  # of two-rates: draws for the KL from a mixture after each epoch; from one Gaussian it is exact


@dataclass(frozen=True)
class BlundellBbb(_blundell.PaperNetwork):
    """Gaussian weights on 784-n-n-10."""

    noise: ClassVar[Noise] = "weights"

    rho_start: float = -3.0  # sigma starts at log(1 + e^rho) = 0.049; SGD hardly moves it (docs/blundell2015.md)
    prior: str = "scale_mixture"  # or "gaussian"
    mixture_share: float = 0.5  # pi, of the wide component; the paper's grid is 1/4, 1/2, 3/4
    mixture_wide_std: float = 1.0  # sigma1 = e^-0; the grid of -log sigma1 is 0, 1, 2
    mixture_narrow_std: float = 0.0009118819655545162  # sigma2 = e^-7; the grid of -log sigma2 is 6, 7, 8
    prior_std: float = 1.0  # of the Gaussian prior
    optimiser: str = "sgd"  # or "adam", which needs another learning rate, or "two-rates": see RHO_RATE below
    likelihood: str = "sum"  # or "mean", over the batch; the KL keeps its weight, so that it counts B times as much
    kl_weights: str = "equal"  # 1/M, or "halving": 2^(M-i) / (2^M - 1)
    samples: int = 1  # draws a step; the grid is 1, 2, 5, 10

    def __post_init__(self) -> None:
        """Raise ConfigError on an unknown choice."""
        for kind, given, known in (
            ("prior", self.prior, PRIORS),
            ("optimiser", self.optimiser, OPTIMISERS),
            ("likelihood", self.likelihood, LIKELIHOODS),
            ("weights of the KL", self.kl_weights, KL_WEIGHTS),
        ):
            check_known(f"{kind} of blundell_bbb", known, given)
        if self.samples < 1:
            raise ConfigError(f"blundell_bbb was given {self.samples} samples a step; give 1 or more")

    def rates(self, epoch: int) -> tuple[float, float]:
        """Return the learning rates of mu and rho in an epoch, counted from 1."""
        if self.optimiser != TWO_RATES:
            return self.learning_rate, self.learning_rate
        of_mu = self.learning_rate * FALL ** (min(epoch - 1, FALL_EPOCHS) / FALL_EPOCHS)
        return of_mu, of_mu * RHO_RATE

    def seeds(self, train: Split, task: Task, ctx: Context) -> _seeds.Seeds:
        """See `_blundell.PaperNetwork.seeds`."""
        return BbbSeed(self, train, task, ctx)

    def prior_of_weights(self) -> ScaleMixture:
        """See `_blundell.PaperNetwork.prior_of_weights`."""
        if self.prior == "gaussian":
            return ScaleMixture(self.prior_std)
        return ScaleMixture(self.mixture_wide_std, self.mixture_narrow_std, self.mixture_share)


class BbbSeed(_blundell.OneSeed):
    """One seed in training."""

    def __init__(self, recipe: BlundellBbb, train: Split, task: Task, ctx: Context) -> None:
        """Draw the initial means."""
        super().__init__(recipe, train, task, ctx)
        self._recipe = recipe
        self._n_batches = math.ceil(task.n_train / recipe.batch_size)  # M
        mu = _blundell.initial_weights(recipe.layout(task), ctx)
        rho = torch.full_like(mu, recipe.rho_start)
        self.network = MixtureMlp(recipe.layout(task), recipe.prior_of_weights(), recipe.batch_size, mu, rho)
        self._optimiser = TwoRates(self.network.parameters, recipe.optimiser != "sgd")

    def restore(self, states: Sequence[_seeds.State]) -> None:
        """See `_seeds.Seeds`."""
        self._optimiser.restore(states[0])

    def train(self, batches: Iterator[tuple[Tensor, Tensor]], n_batches: int, epoch: int) -> dict[str, float]:
        """See `_blundell.OneSeed.train`; "complexity" is log q(w) - log p(w) of the last draw before the last step.

        "kl", of two-rates, is the KL after the last step (`MixtureMlp.divergence`).
        """
        noise = StepNoise(self.ctx.stream("noise", epoch))
        self._optimiser.set_rates(*self._recipe.rates(epoch))
        is_fused = self._recipe.samples == 1
        total, complexity = self.network.mu.new_zeros((), dtype=torch.float64), 0.0
        if is_fused:
            self.network.draw(noise)
        for number, (x, y) in enumerate(batches, start=1):
            is_last = number == n_batches
            kl = kl_weight(self._recipe.kl_weights, number, self._n_batches)
            if is_fused:
                total += self.network.backpropagate(x, y, self._scale(y))
            else:
                total += self._gradient_of_draws(x, y, kl, noise)
            complexity = self.network.log_density_ratio().item() if is_last else 0.0
            if is_fused:
                self.network.descend(kl, self._optimiser, None if is_last else noise)
            else:
                self._optimiser.step()
        found = {"train_nll": total.item(), "complexity": complexity}
        if self._recipe.optimiser == TWO_RATES:
            found["kl"] = self.network.divergence(StepNoise(self.ctx.stream("kl", epoch)), KL_DRAWS)
        return found

    def _scale(self, y: Tensor) -> float:
        return 1.0 if self._recipe.likelihood == "sum" else 1 / len(y)

    def _gradient_of_draws(self, x: Tensor, y: Tensor, kl: float, noise: StepNoise) -> Tensor:
        """Set the gradient to the mean over the draws of a step; return their mean summed NLL, nats."""
        total = self.network.mu.new_zeros((), dtype=torch.float64)
        self._optimiser.gradient.zero_()
        for _ in range(self._recipe.samples):
            self.network.draw(noise)
            total += self.network.backpropagate(x, y, self._scale(y))
            self.network.add_gradient(self._optimiser.gradient, kl, 1 / self._recipe.samples)
        return total / self._recipe.samples

    def posterior(self, index: int) -> Posterior:
        """See `_seeds.Seeds`."""
        del index
        return GaussianPosterior(self.family, self.network.mu.to("cpu", copy=True), softplus(self.network.rho).cpu())

    def state(self, index: int) -> _seeds.State:
        """See `_seeds.Seeds`."""
        del index
        return self._optimiser.state()


def kl_weight(kind: str, number: int, n_batches: int) -> float:
    """Return pi_i, the weight of the KL in batch i = `number` from 1 of M = `n_batches`; they sum to 1."""
    if kind == "equal":
        return 1 / n_batches
    return 2.0**-number / (1 - 2.0**-n_batches)
