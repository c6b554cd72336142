"""Stochastic gradient Hamiltonian Monte Carlo by posteriors: networks that a random walk with momentum visits.

Chen et al. 2014, arXiv 1402.4102, as `posteriors.sgmcmc.sghmc` has it, at temperature 1 of the posterior: the library
is given the log posterior divided by N and the temperature 1/N. The walk's first epochs are dropped; then the weights
are kept a few times an epoch, and the kept networks are the draws.

Length of a step (0.05 or 0.15) and prior (0.1 or 1) are those with the least NLL of held-out training images.

Target: the posterior under N(0, prior_std^2).  Cost: one training, one pass a kept network.  Fails when: the walk is
too short to leave the place where it arrived, or its step so long that the noise of small batches heats it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bench.interface import Context, Noise, Posterior, Split, Task
from implementations import _dense, _methods
from implementations._posteriors import library, log_posterior
from implementations.swag import Visits


@dataclass(frozen=True)
class Sghmc(_methods.Method):
    """The random walk."""

    noise: ClassVar[Noise] = "weights"

    learning_rate: float = 0.15  # length of a step in time, in the first epoch
    learning_rate_divisor: float = 1.0  # divides it after each epoch
    friction: float = 1.0  # alpha
    prior_std: float = 1.0  # of every weight
    dropped: float = 0.6  # share of the epochs before the first kept network
    kept_per_epoch: int = 5  # times that weights are kept

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Walk; the trace holds the mean of the batches' negative log posteriors over N."""
        _dense.check_task("sghmc", task, "classification")
        return _methods.learn(Walk(self, task, ctx), self, train, ctx)

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior of stored networks."""
        del seed
        return _methods.NetworkSet(_methods.layout_of(task), arrays["weights"])


class Walk(_methods.Learner):
    """The random walk in progress."""

    def __init__(self, recipe: Sghmc, task: Task, ctx: Context) -> None:
        """Draw the first weights; the first momenta are zero."""
        self._recipe, self._layout = recipe, _methods.layout_of(task)
        self._temperature = 1 / task.n_train
        self._log_posterior = log_posterior(self._layout, recipe.prior_std, task.n_train)
        self._state = library.sgmcmc.sghmc.init(_methods.initial(task, ctx), momenta=0.0)
        self._visits = Visits(recipe.kept_per_epoch)
        self._kept: list[Tensor] = []

    def begin(self, epoch: int, n_steps: int) -> None:
        """See `_methods.Learner`."""
        recipe = self._recipe
        self._walk = library.sgmcmc.sghmc.build(
            self._log_posterior, lr=recipe.rate(epoch), alpha=recipe.friction, temperature=self._temperature
        )
        self._visits.begin(n_steps if epoch > recipe.dropped * recipe.epochs else 0)

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """See `_methods.Learner`."""
        self._state, _ = self._walk.update(self._state, (x, y), inplace=False)
        if self._visits.is_due():
            self._kept.append(self._state.params.cpu())
        log_posterior_per_row: Tensor = self._state.log_posterior
        return -log_posterior_per_row

    def posterior(self) -> Posterior:
        """Return the kept networks; if none is kept yet, the network at which the walk is."""
        kept = self._kept or [self._state.params.to("cpu", copy=True)]
        return _methods.NetworkSet(self._layout, torch.stack(kept))

    def state(self) -> Mapping[str, Tensor]:
        """See `_methods.Learner`."""
        kept = {f"kept/{index:04d}": flat for index, flat in enumerate(self._kept)}
        now = {"params": self._state.params, "momenta": self._state.momenta}
        return {**kept, **{name: value.to("cpu", copy=True) for name, value in now.items()}}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `_methods.Learner`."""
        kept = _methods.part_of(state, "kept")
        self._kept = [kept[name] for name in sorted(kept)]
        self._state.params.copy_(state["params"])
        self._state.momenta.copy_(state["momenta"])
