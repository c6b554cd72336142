"""Bayes by Backprop (Blundell et al. 2015, arXiv 1505.05424) for all splits of a set at once, in plain PyTorch.

Every weight and bias has its own Gaussian, and the noise of the standardised target is one learned number. A batch of n
training rows has the loss

    mean over its rows of -log N(y; f(x), noise) + KL(Gaussians || prior) / n

so the whole KL counts once in an epoch, each batch by its share of the rows. The prior of a weight has the standard
deviation scale / sqrt(inputs of its layer), that of a bias `scale`. Not as in the paper: units are drawn in the place
of weights, each row's anew (Kingma et al. 2015, arXiv 1506.02557), as this scatters less; weights are drawn to predict.
Adam, batches, orders and initial means are those of `ensembles`. Each split's rate and scale are those of `GRID` that,
trained on the first four fifths of the training part, have the best mixture of draws on the last fifth.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bench.core.noise import fill_normals
from bench.core.streams import stream_seed
from bench.uci.dropout import Parts
from bench.uci.ensembles import Ensembles, Member
from bench.uci.scores import Floats

RATES, SCALES = (0.03, 0.01, 0.003), (1.0, 3.0, 10.0)
GRID = tuple(itertools.product(RATES, SCALES))
START = 0.1  # of the standard deviations, in those of the prior of scale 1
DRAWS, TRIED_DRAWS = 1000, 100  # of the weights, on test rows and on validation rows


class BayesByBackprop(Ensembles):
    """A network of Gaussian weights for each setting (rate, scale) of each part, in this order."""

    def __init__(
        self,
        parts: Parts,
        hidden: int,
        seed: int,
        settings: Sequence[Sequence[tuple[float, float]]],
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Draw the initial means; a network's number is that of its scale, and the noise has the deviation 1."""
        self.parts, self.seed, self.step = parts, seed, 0
        self.networks = [Member(s, SCALES.index(scale), rate) for s, its in enumerate(settings) for rate, scale in its]
        self._x, self._y = (torch.tensor(one, dtype=dtype) for one in parts)
        self._part = torch.tensor([one.part for one in self.networks])
        self._rates = torch.tensor([[one.rate] for one in self.networks], dtype=dtype)
        d = self._x.shape[2]
        self._sizes = [(d, hidden), (1, hidden), (hidden, 1), (1, 1)]
        means = torch.stack([self._drawn(one, dtype) for one in self.networks])
        inputs = torch.cat([torch.full((rows * columns,), rows, dtype=dtype) for rows, columns in self._sizes])
        scales = torch.tensor([[SCALES[one.number]] for one in self.networks], dtype=dtype)
        self._prior = scales / inputs.sqrt()
        start = (START / inputs.sqrt()).log().expand_as(means)
        self._weights = torch.cat([means, start, torch.zeros_like(scales)], dim=1).requires_grad_()
        self._first, self._second = (torch.zeros_like(self._weights, requires_grad=False) for _ in range(2))
        self._orders = (-1, self._part)

    def _take_step(self, rows: Tensor, t: int) -> None:
        """Take Adam's step t for rows [E, B]; the settings of a part have the same normals."""
        chosen = (self._part[:, None], rows)
        width = self._sizes[0][1] + 1
        normals = self._normals(rows.shape[1] * width, "mean field units", t).view(-1, rows.shape[1], width)
        loss = self.losses(self._x[chosen], self._y[chosen], normals[self._part]).sum()
        self._descend(loss, t)

    def _normals(self, n: int, name: str, index: int) -> Tensor:
        """Return standard normals [S, n], each part's from its own stream."""
        out = torch.empty(len(self._x), n, dtype=self._x.dtype)
        return fill_normals(out, stream_seed(self.seed, name, index), torch.arange(len(out)))

    def losses(self, x: Tensor, y: Tensor, normals: Tensor) -> Tensor:
        """Return each network's loss [E] for rows x [E, B, d], y [E, B], and units drawn by normals [E, B, h + 1]."""
        means, log_sds, log_noise = self._gaussians()
        first, bias, second, last = self._layers(means)
        variances = self._layers((2 * log_sds).exp())
        spread = torch.baddbmm(variances[1], x * x, variances[0]).sqrt()
        units = (torch.baddbmm(bias, x, first) + spread * normals[..., :-1]).relu()
        spread = torch.baddbmm(variances[3], units * units, variances[2]).sqrt()
        drawn = (torch.baddbmm(last, units, second) + spread * normals[..., -1:])[..., 0]
        fit = (0.5 * ((y - drawn) / log_noise.exp()) ** 2 + log_noise).mean(1) + 0.5 * math.log(2 * math.pi)
        return fit + self.divergences() / self._x.shape[1]

    def divergences(self) -> Tensor:
        """Return the KL of each network's Gaussians from its prior, nats [E]."""
        means, log_sds, _ = self._gaussians()
        ratio = ((2 * log_sds).exp() + means**2) / self._prior**2
        return (0.5 * (ratio - 1) + self._prior.log() - log_sds).sum(1)

    def _gaussians(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return means and log standard deviations of the weights [E, P], and of the noise [E, 1]."""
        n = self._prior.shape[1]
        means, log_sds, log_noise = self._weights.split_with_sizes([n, n, 1], dim=1)
        return means, log_sds, log_noise

    def _layers(self, flat: Tensor) -> list[Tensor]:
        """Return weights [E, P] as matrices and rows."""
        parts = flat.split_with_sizes([rows * columns for rows, columns in self._sizes], dim=1)
        return [one.view(-1, *size) for one, size in zip(parts, self._sizes, strict=True)]

    def predict(self, points: Parts, draws: int = DRAWS) -> tuple[Floats, Floats]:
        """Return the mean by each draw of the weights, float64 [E, draws, n], and the noise's variance [E, 1, 1]."""
        with torch.no_grad():
            x = torch.tensor(points.x, dtype=self._x.dtype)[self._part]
            means, log_sds, log_noise = self._gaussians()
            sds, found = log_sds.exp(), np.empty((len(x), draws, x.shape[1]))
            for draw in range(draws):
                normals = self._normals(means.shape[1], "mean field weights", draw)[self._part]
                first, bias, second, last = self._layers(means + sds * normals)
                found[:, draw] = torch.baddbmm(last, torch.baddbmm(bias, x, first).relu(), second)[..., 0].numpy()
            return found, (2 * log_noise).exp().double().numpy()[:, None]


def best_settings(members: BayesByBackprop, rows: Parts) -> list[tuple[float, float]]:
    """Return the rate and scale of each part whose mixture of draws is best on its rows; the first of equals."""
    mean, variance = members.predict(rows, TRIED_DRAWS)
    parts = [one.part for one in members.networks]
    with np.errstate(all="ignore"):  # a network that diverged is not finite, and never the best
        logs = -0.5 * ((rows.y[parts][:, None] - mean) ** 2 / variance + np.log(variance))
        likelihood = np.logaddexp.reduce(logs, axis=1).mean(1)
    likelihood = np.nan_to_num(likelihood, nan=-np.inf, posinf=-np.inf)
    own = [[k for k, its in enumerate(parts) if its == part] for part in range(len(rows.x))]
    best = [members.networks[max(each, key=lambda k: likelihood[k])] for each in own]
    return [(one.rate, SCALES[one.number]) for one in best]
