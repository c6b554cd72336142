"""Deep ensembles (Lakshminarayanan et al. 2017) for all splits of a set at once, in plain PyTorch.

As in the paper: five networks, each with a mean and a variance (softplus + 1e-6) of the standardised target, trained by
their own likelihood for 40 epochs in batches of 100 with Adam. Not as in the paper: no adversarial examples; and each
split's learning rate is that of `RATES` whose ensemble, trained on the first four fifths of the training part, is best
on the last fifth; the paper prints .1, and no choice. A network depends on its own streams alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from bench.core.streams import generator, uniforms
from bench.uci.dropout import Array, Parts
from bench.uci.scores import Floats

NETWORKS, ROWS, LEAST = 5, 100, 1e-6
RATES = (0.1, 0.03, 0.01, 0.003, 0.001)
DECAY_1, DECAY_2, EPSILON = 0.9, 0.999, 1e-8  # Adam's, as PyTorch has them


class Member(NamedTuple):
    """A network of an ensemble."""

    part: int  # index of its training rows, and with `number` of its streams
    number: int
    rate: float  # of Adam


class Ensembles:
    """Ensembles of `NETWORKS` networks: one for each rate of each part, in this order."""

    def __init__(
        self, parts: Parts, hidden: int, seed: int, rates: Sequence[Sequence[float]], dtype: torch.dtype = torch.float32
    ) -> None:
        """Draw the initial weights, Glorot's uniform with zero biases; they are the same for all rates of a part."""
        self.parts, self.seed, self.step = parts, seed, 0
        self.networks = [Member(s, k, rate) for s, its in enumerate(rates) for rate in its for k in range(NETWORKS)]
        self._x, self._y = (torch.tensor(one, dtype=dtype) for one in parts)
        self._part = torch.tensor([one.part for one in self.networks])
        self._rates = torch.tensor([[one.rate] for one in self.networks], dtype=dtype)
        d = self._x.shape[2]
        self._sizes = [(d, hidden), (1, hidden), (hidden, 2), (1, 2)]
        self._weights = torch.stack([self._drawn(one, dtype) for one in self.networks]).requires_grad_()
        self._first, self._second = (torch.zeros_like(self._weights, requires_grad=False) for _ in range(2))
        self._orders = (-1, self._part)  # an epoch, and the order of its rows

    def _drawn(self, member: Member, dtype: torch.dtype) -> Tensor:
        source = generator(self.seed, "ensemble weights", member.part, member.number)
        drawn = []
        for rows, columns in self._sizes:
            limit = math.sqrt(6 / (rows + columns))
            drawn.append(
                torch.zeros(columns, dtype=dtype) if rows == 1 else uniforms(rows * columns, limit, source, dtype)
            )
        return torch.cat(drawn)

    @property
    def arrays(self) -> dict[str, Array]:
        """Return the parameters [E, P], and Adam's first and second moments."""
        tensors = {"parameters": self._weights.detach(), "first": self._first, "second": self._second}
        return {name: one.numpy() for name, one in tensors.items()}

    @property
    def steps_an_epoch(self) -> int:
        """Return the number of batches of an epoch."""
        return math.ceil(self._x.shape[1] / ROWS)

    def train(self, steps: int, threads: int = 1) -> None:
        """Take steps."""
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            for step in range(self.step, self.step + steps):
                epoch, batch = divmod(step, self.steps_an_epoch)
                if self._orders[0] != epoch:
                    self._orders = (epoch, self.orders(epoch))
                self._take_step(self._orders[1][:, batch * ROWS : (batch + 1) * ROWS], step + 1)
            self.step += steps
        finally:
            torch.set_num_threads(before)

    def _take_step(self, rows: Tensor, t: int) -> None:
        """Take Adam's step t for rows [E, B]."""
        chosen = (self._part[:, None], rows)
        mean, variance = self._outputs(self._x[chosen])
        loss = (variance.log() + (self._y[chosen] - mean) ** 2 / variance).mean(1).sum() / 2
        self._descend(loss, t)

    def _descend(self, loss: Tensor, t: int) -> None:
        """Take Adam's step t down a loss, the sum over networks, each at its own rate."""
        (gradient,) = torch.autograd.grad(loss, self._weights)
        with torch.no_grad():
            self._first.lerp_(gradient, 1 - DECAY_1)
            self._second.mul_(DECAY_2).addcmul_(gradient, gradient, value=1 - DECAY_2)
            root = self._second.sqrt().div_(math.sqrt(1 - DECAY_2**t)).add_(EPSILON)
            self._weights.sub_(self._rates / (1 - DECAY_1**t) * self._first / root)

    def orders(self, epoch: int) -> Tensor:
        """Return the order of the rows of each network in an epoch, int64 [E, n]."""
        n = self._x.shape[1]
        sources = (generator(self.seed, "ensemble", one.part, one.number, epoch) for one in self.networks)
        return torch.stack([torch.randperm(n, generator=one) for one in sources])

    def predict(self, points: Parts) -> tuple[Floats, Floats]:
        """Return means and variances by each ensemble's networks, float64 [ensembles, NETWORKS, n], standardised."""
        with torch.no_grad():
            x = torch.tensor(points.x, dtype=self._x.dtype)[self._part]
            mean, variance = (one.view(-1, NETWORKS, x.shape[1]).double().numpy() for one in self._outputs(x))
        return mean, variance

    def _outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        parts = self._weights.split_with_sizes([rows * columns for rows, columns in self._sizes], dim=1)
        first, bias, second, last = (one.view(-1, *size) for one, size in zip(parts, self._sizes, strict=True))
        both = torch.baddbmm(last, torch.baddbmm(bias, x, first).relu(), second)
        return both[..., 0], softplus(both[..., 1]) + LEAST


def best_rates(members: Ensembles, rows: Parts) -> list[float]:
    """Return the rate of each part's ensemble whose one Gaussian is best on the part's rows; the first of equals."""
    mean, variance = members.predict(rows)
    rates = [one.rate for one in members.networks[::NETWORKS]]
    parts = [one.part for one in members.networks[::NETWORKS]]
    with np.errstate(all="ignore"):  # an ensemble that diverged is not finite, and never the best
        spread = variance.mean(1) + mean.var(1)
        likelihood = -0.5 * ((rows.y[parts] - mean.mean(1)) ** 2 / spread + np.log(spread)).mean(1)
    likelihood = np.nan_to_num(likelihood, nan=-np.inf, posinf=-np.inf)
    own = [[k for k, its in enumerate(parts) if its == part] for part in range(len(rows.x))]
    return [rates[max(each, key=lambda k: likelihood[k])] for each in own]
