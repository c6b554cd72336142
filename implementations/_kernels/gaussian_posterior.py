"""The posterior of a fully connected network whose weights are independent Gaussians.

A draw is one network for all rows. A draw of `per_row` shares noise between rows instead: see `network_draws`.

Cost of S draws of B rows: 2 S B Q operations and S Q normals. `per_row` draws only H normals for the first layer, and
computes that layer's mean and variance once for all draws. Memory above the answer [S, B, K]: GROUP_NUMBERS numbers of
drawn networks; for `per_row` 2 B H more.

Shapes: B rows, S draws, K outputs, H units of the first layer, P scalar weights, Q of them in layers that are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import compress

import torch
from torch import Tensor

from bench.core.errors import Unsupported
from bench.core.streams import normals_
from bench.interface import Categorical, Gaussian, Marginal, Noise, Posterior
from implementations._kernels.layout import Layout, check_masks
from implementations._kernels.network_draws import (
    ROWS_AT_A_TIME,
    Activation,
    NetworkDraws,
    SharedFirstLayer,
    WholeNetworks,
    row_blocks,
)
from implementations._kernels.sums import sum_of_squares

ReadOut = Callable[[Tensor], Categorical | Gaussian]
"""Network outputs [S, B, K], which the function may overwrite -> predictions."""
LogDensity = Callable[[Tensor], Tensor]
"""Weights [n] -> sum of their log prior densities without the factor (2 pi)^(-1/2), nats, float64 []."""

GROUP_NUMBERS = 4_000_000  # of drawn networks that the rows go through together: 16 MB
READ_OUT_NUMBERS = 1_000_000


@dataclass(frozen=True)
class Family:
    """The properties that all posteriors of one fit share."""

    layout: Layout
    activation: Activation  # after each layer but the last
    log_prior: LogDensity
    read_out: ReadOut
    seed: int  # run seed, which names the noise of the draws
    input_scale: float = 1.0  # factor of the inputs
    used: tuple[bool, ...] = ()  # for each layer, whether the forward pass uses it; empty: uses all
    names: tuple[str, ...] = ()  # names of the layers; empty: those of the layout

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """Return views of every matrix and bias in `flat` [P] by name, in the order of the layers."""
        views = self.layout.named(flat)
        names = [f"{layer}.{part}" for layer in self.names for part in ("weight", "bias")]
        return dict(zip(names or views, views.values(), strict=True))

    @property
    def used_layout(self) -> Layout:
        """Return the layout of the used layers alone."""
        n_inputs, *widths = self.layout.sizes
        return Layout((n_inputs, *compress(widths, self.used or [True] * len(widths))))

    def select(self, flat: Tensor, *, used: bool) -> Tensor:
        """Return the numbers of `flat` [P] in used layers [Q], or those in the others [P - Q]."""
        if all(self.used):
            return flat if used else flat[:0]
        chosen = compress(self.layout.layers(flat), [is_used == used for is_used in self.used])
        return torch.cat([part.flatten() for layer in chosen for part in layer])


class GaussianPosterior(Posterior):
    """Means and standard deviations of all weights; without standard deviations, one deterministic network."""

    def __init__(self, family: Family, mu: Tensor, sigma: Tensor | None, noise: Noise = "weights") -> None:
        """Keep mu and sigma, float [P] each, on the CPU; the caller must not change them. `per_row` gives "shared"."""
        self._family, self._mu, self._sigma = family, mu, sigma
        self.n_draws: int | None = 1 if sigma is None else None
        self.noise: Noise = "none" if sigma is None else noise
        self._drawn: tuple[range, torch.device, Tensor] | None = None  # the last draws and their numbers

    @torch.no_grad()
    def predict(self, x: Tensor, draws: range, rows: Tensor) -> Categorical | Gaussian:
        """Predict x [B, in] with each draw, on the device of x."""
        del rows  # the noise does not depend on the row
        x = x.to(self._mu.dtype)
        network = self._network(x.device)
        begun = [network.begin(block) for block in row_blocks(x)]
        distinct = draws if self._sigma is not None else range(1)
        outputs = x.new_empty(len(distinct), sum(len(block[0]) for block in begun), self._family.layout.sizes[-1])
        for group, numbers in self._groups(network, distinct):
            blocks = torch.split(outputs[group], ROWS_AT_A_TIME, dim=1)
            for start, block in zip(begun, blocks, strict=True):
                for draw, out in zip(numbers, block, strict=True):
                    network.forward(start, draw, out)
        if self._sigma is None:
            outputs = outputs.repeat(len(draws), 1, 1)
        return self._family.read_out(outputs[:, : len(x)])

    def arrays(self) -> Mapping[str, Tensor]:
        """Return mu and, unless deterministic, sigma, [P] each."""
        arrays = {"mu": self._mu} if self._sigma is None else {"mu": self._mu, "sigma": self._sigma}
        return {name: value.clone() for name, value in arrays.items()}

    def weights(self) -> Mapping[str, Marginal]:
        """Return the marginals of every matrix and bias; weights of unused layers are marked as not used."""
        family = self._family
        means = family.named(self._mu)
        stds = {} if self._sigma is None else family.named(self._sigma)
        uses = [is_used for is_used in family.used or [True] * (len(means) // 2) for _ in ("weight", "bias")]
        return {
            name: Marginal(mean, stds.get(name), torch.full_like(mean, is_used, dtype=torch.bool))
            for (name, mean), is_used in zip(means.items(), uses, strict=True)
        }

    def masked(self, keep: Mapping[str, Tensor]) -> GaussianPosterior:
        """Return the posterior with mu = sigma = 0 where keep is False; tensors not named are kept.

        Raises:
            ConfigError, ContractViolation: as `check_masks`.
        """
        kept = self._kept(keep)
        sigma = None if self._sigma is None else self._sigma * kept
        return GaussianPosterior(self._family, self._mu * kept, sigma, self.noise)

    def masked_with_noise(self, keep: Mapping[str, Tensor], std: float) -> GaussianPosterior:
        """Return the posterior with mean 0 and standard deviation `std` where keep is False.

        Raises:
            ConfigError, ContractViolation: as `check_masks`.
            Unsupported: a network without standard deviations.
        """
        kept = self._kept(keep)
        if self._sigma is None:
            raise Unsupported("the network has no standard deviations to keep")
        sigma = torch.where(kept, self._sigma, std)
        return GaussianPosterior(self._family, self._mu * kept, sigma, self.noise)

    def _kept(self, keep: Mapping[str, Tensor]) -> Tensor:
        """Return the masks of all tensors as one vector, bool [P]; raises as `check_masks`."""
        kept = torch.ones_like(self._mu, dtype=torch.bool)
        views = self._family.named(kept)
        check_masks(keep, views)
        for name, mask in keep.items():
            views[name].copy_(mask)
        return kept

    def mean_network(self) -> GaussianPosterior:
        """Return the network of the means."""
        return GaussianPosterior(self._family, self._mu, None)

    def per_row(self) -> GaussianPosterior:
        """Return the posterior whose draws share the first layer's noise: see `network_draws.SharedFirstLayer`."""
        if self.noise != "weights":
            return self
        return GaussianPosterior(self._family, self._mu, self._sigma, "shared")

    def log_density_ratio(self, draws: range) -> Tensor:
        """Return log q(w) - log p(w) of each draw, nats, float64 [S]; the weights of unused layers count too.

        It is the sum of -log sigma - ((w - mu) / sigma)^2 / 2, minus the log prior of the same weights as in `predict`.

        Raises:
            Unsupported: a draw is not one network (`per_row`), or a weight has no density, because it was pruned or
                because this is a mean network.
        """
        if self.noise == "shared":
            raise Unsupported(
                "log q(w) - log p(w) needs whole networks, and these draws are exact for single rows only"
            )
        if not math.isfinite(self._sum_of_log_sigma):
            raise Unsupported("log q(w) - log p(w) is infinite: some weights have no noise (mean network or pruned)")
        network, ratios = self._network(self._mu.device), []
        for group, numbers in self._groups(network, draws):
            for draw, weights in zip(draws[group], numbers, strict=True):
                ratio = self._log_ratio(weights, used=True)
                ratios.append(
                    ratio if all(self._family.used) else ratio + self._log_ratio(self._unused(draw), used=False)
                )
        return torch.stack(ratios) - self._sum_of_log_sigma

    @cached_property
    def _sum_of_log_sigma(self) -> float:
        return math.nan if self._sigma is None else self._sigma.double().log().sum().item()

    def _log_ratio(self, weights: Tensor, *, used: bool) -> Tensor:
        """Return log q(w) - log p(w) of the weights of used or of unused layers, without the sum of log sigma."""
        assert self._sigma is not None
        mu, sigma = (self._family.select(flat, used=used) for flat in (self._mu, self._sigma))
        return -sum_of_squares(torch.sub(weights, mu).div_(sigma)) / 2 - self._family.log_prior(weights)

    def _unused(self, draw: int) -> Tensor:
        """Return a draw's weights in layers that no prediction needs, from a stream of their own."""
        assert self._sigma is not None
        mu, sigma = (self._family.select(flat, used=False) for flat in (self._mu, self._sigma))
        return torch.addcmul(mu, sigma, normals_(torch.empty_like(mu), self._family.seed, "draw", draw, 1))

    def _network(self, device: torch.device) -> NetworkDraws:
        """Return the object that turns a draw's numbers into outputs."""
        family = self._family
        mu = family.select(self._mu, used=True).to(device)
        sigma = None if self._sigma is None else family.select(self._sigma, used=True).to(device)
        if self.noise == "shared":
            assert sigma is not None
            return SharedFirstLayer(family.used_layout, family.activation, family.input_scale, mu, sigma)
        return WholeNetworks(family.used_layout, family.activation, family.input_scale, mu, sigma)

    def _groups(self, network: NetworkDraws, draws: range) -> Iterator[tuple[slice, Tensor]]:
        """Yield positions in `draws` and the numbers of these draws, [draws, n_numbers]; do not change them."""
        size = max(1, GROUP_NUMBERS // network.n_numbers)
        for start in range(0, len(draws), size):
            yield slice(start, start + size), self._numbers(network, draws[start : start + size])

    def _numbers(self, network: NetworkDraws, draws: range) -> Tensor:
        """Return the draws' numbers; keep the last ones, because the next call often asks for the same draws."""
        if self._drawn is not None and self._drawn[:2] == (draws, network.device):
            return self._drawn[2]
        numbers = None if self._drawn is None else self._drawn[2]
        self._drawn = None
        shape = (len(draws), network.n_numbers)
        if numbers is None or numbers.shape != shape or numbers.device != network.device:
            numbers = torch.empty(shape, dtype=self._mu.dtype, device=network.device)
        if self._sigma is not None:
            stream = "shared-draw" if self.noise == "shared" else "draw"
            for draw, normals in zip(draws, numbers, strict=True):
                normals_(normals, self._family.seed, stream, draw)
        network.place_(numbers)
        self._drawn = (draws, network.device, numbers)
        return numbers


def gaussian_log_prior(std: float, weights: Tensor) -> Tensor:
    """Return the sum of log N(w | 0, std^2) + log(2 pi) / 2 over weights [n], nats, float64 []."""
    return -sum_of_squares(weights) / (2 * std**2) - weights.numel() * math.log(std)


def log_probabilities(outputs: Tensor) -> Categorical:
    """Normalise logits [S, B, K] in place, some draws at a time."""
    for some in torch.split(outputs, max(1, READ_OUT_NUMBERS // max(1, outputs[0].numel()))):
        some.copy_(torch.log_softmax(some, dim=2))
    return Categorical(outputs)
