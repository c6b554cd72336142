"""Where one more run would fall, given k runs: Student's t as a distribution, and two of them compared.

For k runs with mean m and standard deviation s (divisor k - 1) of a normal quantity, one more run x has
(x - m) / (s sqrt(1 + 1/k)) ~ t(k - 1); see `bench.judge.stats.prediction`. Two recipes have two such distributions. The
ratio of their densities at a reported number says which one makes it likelier, and by how much. What they share says
whether any number could tell one from the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bench.judge.stats.prediction import prediction_error

_TINY = 1e-6  # width of an interval, in scales, below which the density in its middle is its mean density
_CUTS = 1_000  # places that cut a distribution into parts of equal probability

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Predictive:
    """The distribution of one more run, given at least two runs that are not all equal."""

    mean: float
    sd: float
    n: int

    @property
    def scale(self) -> float:
        """Return the scale of the t distribution."""
        return prediction_error(self.sd, self.n)

    def mass(self, low: float, high: float) -> float:
        """Return the probability of an interval, exact in either tail."""
        left, right = (low - self.mean) / self.scale, (high - self.mean) / self.scale
        if left > 0:  # the tail above is the mirrored tail below, which has no 1 to lose small numbers in
            left, right = -right, -left
        return float(special.stdtr(self.n - 1, right) - special.stdtr(self.n - 1, left))

    def density(self, low: float, high: float) -> float:
        """Return the mean density over an interval; where both ends are one number, the density there."""
        if high - low > _TINY * self.scale:
            return self.mass(low, high) / (high - low)
        return self._density_at((low + high) / 2)

    def sds_away(self, low: float, high: float) -> float:
        """Return the distance of an interval from the mean, in standard deviations of the runs; 0 inside."""
        return max(0.0, low - self.mean, self.mean - high) / self.sd

    def _density_at(self, value: float) -> float:
        freedom, t = self.n - 1, (value - self.mean) / self.scale
        log_constant = special.gammaln((freedom + 1) / 2) - special.gammaln(freedom / 2)
        log_shape = -(freedom + 1) / 2 * math.log1p(t * t / freedom)
        return math.exp(float(log_constant) + log_shape) / (math.sqrt(freedom * math.pi) * self.scale)

    @cached_property
    def cuts(self) -> Floats:
        """Return the places that cut the distribution into `_CUTS` parts of equal probability."""
        return np.asarray(self.mean + self.scale * _t_cuts(self.n - 1))

    def masses_between(self, places: Floats) -> Floats:
        """Return the probabilities below the first place, between each two and above the last."""
        below = special.stdtr(self.n - 1, (places - self.mean) / self.scale)
        return np.diff(below, prepend=0.0, append=1.0)


@cache
def _t_cuts(freedom: int) -> Floats:
    """Return the places that cut Student's t into `_CUTS` parts of equal probability."""
    return np.asarray(special.stdtrit(freedom, np.arange(1, _CUTS) / _CUTS))


def overlap(first: Predictive, second: Predictive) -> float:
    """Return the probability that two distributions share: the integral of the smaller density, from 0 to 1.

    The cuts of both distributions divide the axis into parts. In each part the smaller of the two probabilities counts.
    Only the parts where the densities cross have an error, each less than 1 / `_CUTS`.
    """
    places = np.union1d(first.cuts, second.cuts)
    return float(np.minimum(first.masses_between(places), second.masses_between(places)).sum())


def density_ratio(first: Predictive, second: Predictive, low: float, high: float) -> float:
    """Return how many times likelier the first distribution makes an interval than the second; may be infinite."""
    below = second.density(low, high)
    return first.density(low, high) / below if below else math.inf
