"""Deep ensembles (Lakshminarayanan et al. 2017) for all splits of a set at once, in plain PyTorch.

As in the paper: five networks, each with a mean and a variance (softplus + 1e-6) of the standardised target, trained by
their own likelihood for 40 epochs in batches of 100 with Adam. Not as in the paper: no adversarial examples; and Adam's
rate is .01, as with the printed .1 the RMSE of Boston is 20 (.03: 3.0, .01: 3.2, .003: 3.3). A network
depends on its own streams alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import softplus

from bench.core.streams import generator, uniforms
from bench.uci.dropout import Parts
from bench.uci.scores import Floats

NETWORKS, ROWS, RATE, LEAST = 5, 100, 0.01, 1e-6


class Ensembles:
    """E networks with two outputs each, network e for part e // `NETWORKS`."""

    def __init__(self, parts: Parts, hidden: int, seed: int, dtype: torch.dtype = torch.float32) -> None:
        """Draw the initial weights: Glorot's uniform, zero biases."""
        self._x, self._y = (torch.tensor(one, dtype=dtype) for one in parts)
        self._seed, n_parts, d = seed, len(self._x), self._x.shape[2]
        self._part = torch.arange(n_parts).repeat_interleave(NETWORKS)
        sources = [generator(seed, "ensemble weights", s, k) for s in range(n_parts) for k in range(NETWORKS)]
        self.weights = [
            torch.stack([_glorot(d, hidden, one, dtype) for one in sources]),
            torch.zeros(len(sources), 1, hidden, dtype=dtype),
            torch.stack([_glorot(hidden, 2, one, dtype) for one in sources]),
            torch.zeros(len(sources), 1, 2, dtype=dtype),
        ]
        self._adam = torch.optim.Adam([one.requires_grad_() for one in self.weights], lr=RATE, foreach=True)

    def train(self, epochs: int) -> None:
        """Train from the beginning."""
        for epoch in range(epochs):
            orders = self.orders(epoch)
            for start in range(0, orders.shape[1], ROWS):
                rows = orders[:, start : start + ROWS]
                self._adam.zero_grad()
                mean, variance = self._outputs(self._x[self._part[:, None], rows])
                distance = self._y[self._part[:, None], rows] - mean
                torch.autograd.backward((variance.log() + distance**2 / variance).mean(1).sum() / 2)
                self._adam.step()

    def orders(self, epoch: int) -> Tensor:
        """Return the order of the rows of each network in an epoch, int64 [E, n]."""
        places = ((int(part), number % NETWORKS) for number, part in enumerate(self._part))
        n = self._x.shape[1]
        return torch.stack(
            [torch.randperm(n, generator=generator(self._seed, "ensemble", *one, epoch)) for one in places]
        )

    def predict(self, points: Parts) -> tuple[Floats, Floats]:
        """Return means and variances for the points of each part, float64 [S, NETWORKS, n], in standardised units."""
        with torch.no_grad():
            x = torch.tensor(points.x, dtype=self._x.dtype)[self._part]
            mean, variance = (one.view(-1, NETWORKS, x.shape[1]).double().numpy() for one in self._outputs(x))
        return mean, variance

    def _outputs(self, x: Tensor) -> Sequence[Tensor]:
        first, bias, second, last = self.weights
        both = torch.baddbmm(last, torch.baddbmm(bias, x, first).relu(), second)
        return both[..., 0], softplus(both[..., 1]) + LEAST


def _glorot(inputs: int, outputs: int, source: torch.Generator, dtype: torch.dtype) -> Tensor:
    return uniforms(inputs * outputs, math.sqrt(6 / (inputs + outputs)), source, dtype).view(inputs, outputs)
