"""IVON (Shen et al. 2024, arXiv 2402.17641, algorithm 1) for all splits of a set at once, in plain PyTorch.

The networks, prior, batches and predictions are those of `mean_field`; a Gaussian's variance is 1 / (n (h + d)), with h
the running estimate of the curvature of the mean loss, d = 1 / (n prior variance), and n the training rows. The
logarithm of the noise is one more parameter, whose prior has the deviation 1; its mean predicts. One draw of all
weights a batch. As in the package ivon-opt, the rate is in units of 1 / (START + d); no step is clipped.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from bench.uci.dropout import Parts
from bench.uci.mean_field import SCALES, BayesByBackprop

GRID = tuple(itertools.product((0.3, 0.1, 0.03), SCALES))
START = 1.0  # of h
DECAY_1, DECAY_2 = 0.9, 0.999


class Ivon(BayesByBackprop):
    """A network of Gaussian weights for each setting (rate, scale) of each part, in this order."""

    def __init__(
        self,
        parts: Parts,
        hidden: int,
        seed: int,
        settings: Sequence[Sequence[tuple[float, float]]],
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Draw the same initial means as Bayes by Backprop."""
        super().__init__(parts, hidden, seed, settings, dtype)
        means, _, log_noise = super()._gaussians()
        self._weights = torch.cat([means, log_noise], dim=1).detach().clone()
        self._first, self._second = torch.zeros_like(self._weights), torch.full_like(self._weights, START)
        deviations = torch.cat([self._prior, torch.ones_like(log_noise)], dim=1)
        self._damping = 1 / (self._x.shape[1] * deviations**2)

    def _take_step(self, rows: Tensor, t: int) -> None:
        """Take step t for rows [E, B]; the settings of a part have the same normals."""
        chosen, n = (self._part[:, None], rows), self._x.shape[1]
        curvature = self._second + self._damping
        moved = self._normals(curvature.shape[1], "ivon weights", t)[self._part] / (n * curvature).sqrt()
        drawn = (self._weights + moved).requires_grad_()
        (gradient,) = torch.autograd.grad(self._misfits(drawn, self._x[chosen], self._y[chosen]).sum(), drawn)
        found = gradient * moved * n * curvature  # the estimate of the curvature by this draw
        self._first.lerp_(gradient, 1 - DECAY_1)
        correction = 0.5 * (1 - DECAY_2) ** 2 * (self._second - found) ** 2 / curvature
        self._second.lerp_(found, 1 - DECAY_2).add_(correction)
        step = self._first / (1 - DECAY_1**t) + self._damping * self._weights
        rates = self._rates * (START + self._damping)
        self._weights.sub_(rates * step / (self._second + self._damping))

    def _misfits(self, drawn: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return each network's mean of -log N(y; f(x), noise) [E] over rows [E, B], for parameters [E, P + 1]."""
        first, bias, second, last = self._layers(drawn[:, :-1])
        outputs = torch.baddbmm(last, torch.baddbmm(bias, x, first).relu(), second)[..., 0]
        log_noise = drawn[:, -1:]
        return (0.5 * ((y - outputs) / log_noise.exp()) ** 2 + log_noise).mean(1) + 0.5 * math.log(2 * math.pi)

    def _gaussians(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return means and log standard deviations of the weights [E, P], and the mean log noise [E, 1]."""
        log_sds = -0.5 * (self._x.shape[1] * (self._second + self._damping)).log()
        return self._weights[:, :-1], log_sds[:, :-1], self._weights[:, -1:]
