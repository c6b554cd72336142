"""SWAG: a Gaussian of low rank plus diagonal through the weights that SGD visits at a constant learning rate.

Maddox et al. 2019, arXiv 1902.02476. The first epochs train the plain network by Adam; the last ones take steps of SGD
with momentum, and keep the weights a few times an epoch. With n kept weights w_i, their mean m and mean square s, and
the last K deviations d_i = w_i - (mean of the weights kept up to w_i), a draw is

    m + (s - m^2)^(1/2) z_1 / sqrt(2) + sum_i d_i z_2i / sqrt(2 (K - 1))

SGD's rate is the one of 0.005, 0.02 and 0.05 with the least NLL of held-out training images.

Objective (mean per training row, nats): the cross-entropy.  Target: none stated.  Cost: one training; a draw is one
pass and K + 1 vectors of P numbers.  Fails when: SGD leaves the valley (rate too high) or stands still (too low).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bench.core.streams import normals_
from bench.interface import Context, Noise, Posterior, Split, Task
from implementations import _methods


class Visits:
    """Decides after which steps of an epoch the weights are kept: a few times, at equal distances."""

    def __init__(self, per_epoch: int) -> None:
        """Keep `per_epoch` times an epoch, or after every step of a shorter one."""
        self._per_epoch, self._n_steps, self._taken = per_epoch, 0, 0

    def begin(self, n_steps: int) -> None:
        """Begin an epoch of `n_steps` steps; with 0, nothing is kept in it."""
        self._n_steps, self._taken = n_steps, 0

    def is_due(self) -> bool:
        """Count a step, and return whether the weights are kept after it."""
        self._taken += 1
        before, now = ((n * self._per_epoch) // max(self._n_steps, 1) for n in (self._taken - 1, self._taken))
        return self._n_steps > 0 and now > before


@dataclass(frozen=True)
class Swag(_methods.Method):
    """Training of the network: Adam first, then SGD that visits weights."""

    noise: ClassVar[Noise] = "weights"

    swag_epochs: int = 4  # number of last epochs, which take steps of SGD
    swag_rate: float = 0.05  # of SGD
    momentum: float = 0.9  # of SGD
    kept_per_epoch: int = 5  # times that weights are kept
    rank: int = 20  # K, the number of last deviations that are kept

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace holds the mean of the batch losses."""
        return _methods.learn(Visiting(self, task, ctx), self, train, ctx)

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior of stored moments and deviations."""
        return SwagPosterior(_methods.layout_of(task), arrays, seed)


class Visiting(_methods.PlainNetworks):
    """A plain network that Adam trains first and SGD then moves; `_moments` belong to the weights kept so far."""

    def __init__(self, recipe: Swag, task: Task, ctx: Context) -> None:
        """Draw the first weights."""
        super().__init__(recipe, task, ctx)
        self._swag, self._visits = recipe, Visits(recipe.kept_per_epoch)
        flat = self.training.flat
        self._moments = {name: torch.zeros_like(flat) for name in ("velocity", "mean", "square")}
        self._moments |= {"deviations": flat.new_zeros(recipe.rank, len(flat)), "n_kept": torch.tensor(0)}

    def begin(self, epoch: int, n_steps: int) -> None:
        """See `_methods.Learner`."""
        super().begin(epoch, n_steps)
        self._by_sgd = epoch > self._swag.epochs - self._swag.swag_epochs
        self._visits.begin(n_steps)

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """See `_methods.Learner`."""
        if not self._by_sgd:
            return super().step(x, y)
        loss = self.differentiate(x, y)
        velocity = self._moments["velocity"].mul_(self._swag.momentum).add_(self.training.gradient)
        self.training.flat.add_(velocity, alpha=-self._swag.swag_rate)
        if self._visits.is_due():
            self._keep(self.training.flat)
        return loss

    def _keep(self, flat: Tensor) -> None:
        kept = self._moments
        place = int(kept["n_kept"]) % self._swag.rank  # of the oldest deviation
        kept["n_kept"] += 1
        for name, value in (("mean", flat), ("square", flat.square())):
            kept[name].add_(value - kept[name], alpha=1 / int(kept["n_kept"]))
        torch.sub(flat, kept["mean"], out=kept["deviations"][place])

    def posterior(self) -> Posterior:
        """Return the Gaussian of the weights kept so far; if none is kept yet, the network itself."""
        kept = self._moments
        mean = kept["mean"] if kept["n_kept"] else self.training.flat
        found = {"mean": mean, "variance": (kept["square"] - kept["mean"].square()).clamp_(min=0)}
        found |= {name: kept[name] for name in ("deviations", "n_kept")}
        copies = {name: value.detach().to("cpu", copy=True) for name, value in found.items()}
        return SwagPosterior(self.layout, copies, self.seed)

    def state(self) -> dict[str, Tensor]:
        """See `_methods.Learner`."""
        kept = {f"swag/{name}": value.to("cpu", copy=True) for name, value in self._moments.items()}
        return {**super().state(), **kept}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `_methods.Learner`."""
        super().restore(state)
        for name, value in self._moments.items():
            value.copy_(state[f"swag/{name}"])


class SwagPosterior(_methods.DrawnNetworks):
    """Mean [P], variance [P], n_kept [] and deviations [rank, P] of the kept weights; unused deviations are zero."""

    def network(self, draw: int) -> Tensor:
        """See `_methods.DrawnNetworks`."""
        mean, variance, deviations = (self.kept[name] for name in ("mean", "variance", "deviations"))
        weights = normals_(torch.empty_like(mean), self.seed, "draw", draw, 0).mul_((variance / 2).sqrt()).add_(mean)
        n_deviations = min(int(self.kept["n_kept"]), len(deviations))
        if n_deviations > 1:
            normals = normals_(mean.new_empty(len(deviations)), self.seed, "draw", draw, 1)
            weights.addmv_(deviations.t(), normals, alpha=1 / math.sqrt(2 * (n_deviations - 1)))
        return weights
