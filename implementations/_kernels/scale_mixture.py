"""A mixture of two Gaussians around zero as the prior of every weight (Blundell et al. 2015, section 3.3).

    p(w) = share N(0, std^2) + (1 - share) N(0, narrow_std^2)                       the second only if share < 1

All densities leave out the factor (2 pi)^(-1/2), which a Gaussian posterior has too. With v = w^2,

    log p(w) = log(share / std) - v / (2 std^2) + softplus(gap(v)),
    gap(v)   = log((1 - share) std / (share narrow_std)) - steepness v,   steepness = (1/narrow_std^2 - 1/std^2) / 2
    -d log p(w) / dw = w / std^2 + 2 steepness w sigmoid(gap(v)).

The last factor is the share of the density at w that the narrow component has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

NO_GAP = -1e4  # of a prior with one component: its logistic function is zero


@dataclass(frozen=True)
class ScaleMixture:
    """share N(0, std^2) + (1 - share) N(0, narrow_std^2); with share 1 it is one Gaussian."""

    std: float
    narrow_std: float = 1.0
    share: float = 1.0

    @property
    def steepness(self) -> float:
        """Return by how much the gap falls with v = w^2."""
        return 0.0 if self.share == 1 else (self.narrow_std**-2 - self.std**-2) / 2

    @property
    def offset(self) -> float:
        """Return the gap at w = 0."""
        return NO_GAP if self.share == 1 else math.log((1 - self.share) * self.std / (self.share * self.narrow_std))

    def log_density(self, weights: Tensor) -> Tensor:
        """Return the sum of log p(w) over weights [n], nats, float64 []."""
        weights = weights.double()
        wide = math.log(self.share / self.std) - weights**2 / (2 * self.std**2)
        if self.share == 1:
            return wide.sum()
        narrow = math.log((1 - self.share) / self.narrow_std) - weights**2 / (2 * self.narrow_std**2)
        return torch.logaddexp(wide, narrow).sum()

    def pull(self, weights: Tensor) -> Tensor:
        """Return -d log p(w) / dw for weights [n], [n]."""
        if self.share == 1:
            return weights / self.std**2
        narrow = torch.sigmoid(self.offset - self.steepness * weights.square())
        return weights * (narrow * (2 * self.steepness) + self.std**-2)
