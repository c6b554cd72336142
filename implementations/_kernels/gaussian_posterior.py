"""The posterior of a sigmoid network whose weights are independent Gaussians; one draw is one network for all rows.

Shapes: B rows, S draws, P scalar weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.errors import ContractViolation, Unsupported, unknown_name
from bench.interface import Categorical, Gaussian, Marginal, Noise, Posterior
from bench.streams import generator
from implementations._kernels.layout import Layout, forward, normal_

ReadOut = Callable[[Tensor], Categorical | Gaussian]
"""Network outputs [S, B, out] -> predictions."""

ROWS_AT_A_TIME = 512  # of a forward pass: its activations stay in the processor's cache


@dataclass(frozen=True)
class Family:
    """What the posteriors of one fit have in common."""

    layout: Layout
    prior_std: float  # of every weight, around zero
    read_out: ReadOut
    seed: int  # run seed, which names the noise of the draws


class GaussianPosterior(Posterior):
    """Means and standard deviations of all weights; without the latter one deterministic network."""

    def __init__(self, family: Family, mu: Tensor, sigma: Tensor | None) -> None:
        """Keep mu and sigma, float [P] each, on the CPU; they must not change any more."""
        self._family = family
        self._mu = mu
        self._sigma = sigma
        self.n_draws: int | None = 1 if sigma is None else None
        self.noise: Noise = "none" if sigma is None else "weights"

    def predict(self, x: Tensor, draws: range, rows: Tensor) -> Categorical | Gaussian:
        """Predict x [B, in] with each drawn network, on the device of x."""
        del rows  # a draw is the same network for every row
        layout = self._family.layout
        mu = self._mu.to(x.device)
        hidden = layout.activations(min(len(x), ROWS_AT_A_TIME), mu)[:-1]
        outputs = mu.new_empty(len(draws), len(x), layout.sizes[-1])
        if self._sigma is None:
            _forward_in_blocks(x, layout.layers(mu), hidden, outputs[0])
            return self._family.read_out(outputs[:1].expand_as(outputs))
        sigma = self._sigma.to(x.device)
        weights = torch.empty_like(mu)
        layers = layout.layers(weights)
        for draw, out in zip(draws, outputs, strict=True):
            self._noise(draw, weights)
            torch.addcmul(mu, sigma, weights, out=weights)
            _forward_in_blocks(x, layers, hidden, out)
        return self._family.read_out(outputs)

    def arrays(self) -> Mapping[str, Tensor]:
        """Return mu and, unless deterministic, sigma, [P] each."""
        arrays = {"mu": self._mu} if self._sigma is None else {"mu": self._mu, "sigma": self._sigma}
        return {name: value.clone() for name, value in arrays.items()}

    def weights(self) -> Mapping[str, Marginal]:
        """Return the marginals of every matrix and bias."""
        means = self._family.layout.named(self._mu)
        stds = {} if self._sigma is None else self._family.layout.named(self._sigma)
        return {
            name: Marginal(mean, stds.get(name), torch.ones_like(mean, dtype=torch.bool))
            for name, mean in means.items()
        }

    def masked(self, keep: Mapping[str, Tensor]) -> GaussianPosterior:
        """Return the posterior with mu = sigma = 0 where keep is False; tensors not named are kept whole.

        Raises:
            ConfigError: a name that is not a parameter tensor.
            ContractViolation: a mask of another shape than its tensor.
        """
        kept = torch.ones_like(self._mu, dtype=torch.bool)
        views = self._family.layout.named(kept)
        for name, mask in keep.items():
            if name not in views:
                raise unknown_name("parameter tensor", name, views)
            if mask.shape != views[name].shape:
                raise ContractViolation(
                    f"mask of '{name}' has shape {list(mask.shape)}; the tensor has {list(views[name].shape)}"
                )
            views[name].copy_(mask)
        return GaussianPosterior(self._family, self._mu * kept, None if self._sigma is None else self._sigma * kept)

    def mean_network(self) -> GaussianPosterior:
        """Return the network of the means."""
        return GaussianPosterior(self._family, self._mu, None)

    def log_density_ratio(self, draws: range) -> Tensor:
        """Return sum[log s - log sigma - eps^2 / 2 + w^2 / (2 s^2)] of each draw, nats, float64 [S].

        Raises:
            Unsupported: a weight has no density, because it was pruned or because this is a mean network.
        """
        if self._sigma is None or not bool(self._sigma.all()):
            raise Unsupported("log q(w) - log p(w) is infinite: some weights have no noise (mean network or pruned)")
        mu, sigma = self._mu.double(), self._sigma.double()
        prior_std = self._family.prior_std
        constant = mu.numel() * math.log(prior_std) - sigma.log().sum()
        single, epsilon, weights = torch.empty_like(self._mu), torch.empty_like(mu), torch.empty_like(mu)
        ratios = torch.empty(len(draws), dtype=torch.float64)
        for position, draw in enumerate(draws):
            epsilon.copy_(self._noise(draw, single))
            torch.addcmul(mu, sigma, epsilon, out=weights)
            ratios[position] = constant + (weights.dot(weights) / prior_std**2 - epsilon.dot(epsilon)) / 2
        return ratios

    def _noise(self, draw: int, out: Tensor) -> Tensor:
        """Fill `out` [P] with the standard normals of draw `draw`."""
        return normal_(out, generator(self._family.seed, "draw", draw))


def _forward_in_blocks(x: Tensor, layers: list[tuple[Tensor, Tensor]], hidden: list[Tensor], out: Tensor) -> None:
    """Fill out [B, K] with the network's outputs for x [B, in]; `hidden` are buffers for one block of rows."""
    for rows, block in zip(torch.split(x, ROWS_AT_A_TIME), torch.split(out, ROWS_AT_A_TIME), strict=True):
        forward(rows, layers, [*(buffer[: len(rows)] for buffer in hidden), block])
