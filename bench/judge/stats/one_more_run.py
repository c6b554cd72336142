"""The distribution of one more run, given k runs, and the comparison of two such distributions.

The distribution is Student's t, shifted and scaled; see `bench.judge.stats.prediction`. Two recipes have two such
distributions. The ratio of their densities at a reported number says under which recipe it is likelier, and by how
much. Their overlap says whether any number could tell the recipes apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bench.judge.stats.prediction import prediction_error

_TINY = 1e-6  # times the scale: over a narrower interval the density counts as constant
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
        """Return the probability of an interval, with full precision in both tails."""
        left, right = (low - self.mean) / self.scale, (high - self.mean) / self.scale
        if left > 0:  # mirror an upper tail: there both probabilities are near 1, and small differences are lost
            left, right = -right, -left
        return float(special.stdtr(self.n - 1, right) - special.stdtr(self.n - 1, left))

    def density(self, low: float, high: float) -> float:
        """Return the mean density over an interval; if both ends are equal, the density there."""
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
    """Return the overlap of two distributions, from 0 to 1: the integral of the smaller density.

    The cuts of both distributions divide the axis into parts. In each part the smaller of the two probabilities counts.
    Only parts in which the densities cross have an error, each less than 1 / `_CUTS`.
    """
    places = np.union1d(first.cuts, second.cuts)
    return float(np.minimum(first.masses_between(places), second.masses_between(places)).sum())


def density_ratio(first: Predictive, second: Predictive, low: float, high: float) -> float:
    """Return how many times likelier an interval is under the first distribution than under the second; may be inf."""
    below = second.density(low, high)
    return first.density(low, high) / below if below else math.inf
