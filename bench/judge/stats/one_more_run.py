"""The distribution of one more run, given at least two runs that are not all equal.

It is Student's t, shifted and scaled; see `bench.judge.comparison`. Two recipes have two such distributions. The ratio
of their densities at a reported number says under which recipe it is likelier, and by how much. Their overlap says
whether any number could tell the recipes apart.

A user's run is judged as one more run among the shipped seeds of its recipe.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bench.judge.claims import Claim, measure, measured_key
from bench.judge.comparison import ALPHA, ENOUGH, Estimate, holm_over, independent, one_more_error
from bench.judge.results import Results
from bench.judge.samples import Samples
from bench.judge.stats.scales import scale_of, to_scale

_TINY = 1e-6  # times the scale: over a narrower interval the density counts as constant
_CUTS = 1_000  # places that cut a distribution into parts of equal probability
_NODES = 64  # of each of the two integrals: over the true mean, and over the true standard deviation
SAME, LIKE, UNLIKE, UNTOLD = "the same", "like", "unlike", "too few other seeds, or no spread"

Floats = NDArray[np.float64]


def density(runs: Samples, low: float, high: float) -> float:
    """Return the mean density over an interval; if both ends are equal, the density there."""
    mean, scale, freedom = _shape(runs)
    left, right = (low - mean) / scale, (high - mean) / scale
    if high - low <= _TINY * scale:
        t = (left + right) / 2
        log_constant = special.gammaln((freedom + 1) / 2) - special.gammaln(freedom / 2)
        log_shape = -(freedom + 1) / 2 * math.log1p(t * t / freedom)
        return math.exp(float(log_constant) + log_shape) / (math.sqrt(freedom * math.pi) * scale)
    if left > 0:  # mirror an upper tail: there both probabilities are near 1, and small differences are lost
        left, right = -right, -left
    return float(special.stdtr(freedom, right) - special.stdtr(freedom, left)) / (high - low)


def density_ratio(first: Samples, second: Samples, low: float, high: float) -> float:
    """Return how many times likelier an interval is after the first runs than after the second; may be inf."""
    below = density(second, low, high)
    return density(first, low, high) / below if below else math.inf


def overlap(first: Samples, second: Samples) -> float:
    """Return the overlap of two distributions, from 0 to 1: the integral of the smaller density.

    The cuts of both distributions divide the axis into parts. In each part the smaller of the two probabilities counts.
    Only parts in which the densities cross have an error, each less than 1 / `_CUTS`.
    """
    shapes = [_shape(runs) for runs in (first, second)]
    places = np.union1d(*(mean + scale * _t_cuts(freedom) for mean, scale, freedom in shapes))
    below = (special.stdtr(freedom, (places - mean) / scale) for mean, scale, freedom in shapes)
    masses = (np.diff(one, prepend=0.0, append=1.0) for one in below)
    return float(np.minimum(*masses).sum())


def _shape(runs: Samples) -> tuple[float, float, int]:
    """Return location, scale and degrees of freedom of the t distribution."""
    assert runs.sd, "at least two runs that are not all equal"
    return statistics.fmean(runs.values), one_more_error(runs.sd, runs.n), runs.n - 1


@functools.cache
def _t_cuts(freedom: int) -> Floats:
    """Return the places that cut Student's t into `_CUTS` parts of equal probability."""
    return np.asarray(special.stdtrit(freedom, np.arange(1, _CUTS) / _CUTS))


def best_of_p(runs: Samples, low: float, high: float, tries: int, spread: tuple[float, int] | None = None) -> float:
    """Return the two-sided p-value of a report that is the highest of several runs.

    Args:
        runs: at least two of ours.
        low: lowest number that prints as the report.
        high: the highest one.
        tries: number of reported runs of which the highest was kept.
        spread: standard deviation and degrees of freedom, if not those of `runs`.
    """
    assert runs.sd is not None, "at least two runs"
    mean, n = statistics.fmean(runs.values), runs.n
    sd, freedom = spread or (runs.sd, n - 1)
    if sd == 0:
        return 1.0 if low <= mean <= high else 0.0
    below, within = (_highest_below((end - mean) / sd, n, freedom, tries) for end in (high, low))
    above = 1 - within
    # p of one run: the integral is 0 far out
    one_above = float(special.stdtr(freedom, (mean - low) / one_more_error(sd, n)))
    return min(1.0, 2 * below, 2 * max(above, one_above))


def _highest_below(t: float, n: int, freedom: int, tries: int) -> float:
    """Return P(highest of several new runs < m + t s), for mean m of n runs and standard deviation s.

    The runs are standard normal. Let z be standard normal, and w^2 f chi squared with f degrees of freedom, those of s.
    Then m = z / sqrt(n) and s = w. Given m and s, the new runs are independent, so the probability is the mean of
    Phi(t w + z / sqrt(n))^tries over w and z.
    """
    w, m, weights = _nodes(n, freedom)
    inside = special.ndtr(t * w[:, None] + m[None, :]) ** tries
    return float(weights @ inside @ weights)


@functools.cache
def _nodes(n: int, freedom: int) -> tuple[Floats, Floats, Floats]:
    """Return values of w, values of z / sqrt(n), and the weights of both, `_NODES` numbers each."""
    places, weights = special.roots_legendre(_NODES)
    share = (places + 1) / 2
    w = np.sqrt(special.chdtri(freedom, share) / freedom)
    return w, special.ndtri(share) / math.sqrt(n), weights / 2


@dataclass(frozen=True)
class Rerun:
    """An end result as the user's seeds give it, beside the shipped seeds."""

    claim: Claim
    own: Samples  # in the claim's unit
    shipped: Samples
    processors: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())  # that made the user's, and shipped
    estimate: Estimate | None = None  # the user's mean minus that of the other shipped seeds; None: see `compared`
    p_adjusted: float | None = None  # Holm, over all numbers that were measured again

    @property
    def outcome(self) -> str:
        """Return whether the user's number could be of one more shipped seed."""
        if self.own.by_seed.items() <= self.shipped.by_seed.items():
            return SAME
        if self.p_adjusted is None:
            return UNTOLD
        return LIKE if self.p_adjusted >= ALPHA else UNLIKE


def reruns(ends: Iterable[Claim], own: Results, shipped: Results) -> list[Rerun]:
    """Return the end results (`ends`) that the user's records give, each beside the shipped seeds."""
    found = []
    for claim in ends:
        both = [results.trained_run(claim.approach, "published", "published") for results in (own, shipped)]
        mine, theirs = (frozenset(one.provenance.cpu for one in records if one.provenance.cpu) for records in both)
        found.append(Rerun(claim, measure(claim, both[0]), measure(claim, both[1]), (mine, theirs)))
    return with_p([one for one in found if one.own.n])


def with_p(found: Sequence[Rerun]) -> list[Rerun]:
    """Return the end results with estimates and p-values; a number that several claims report is tested once."""
    numbers = {_number(one.claim): one for one in reversed(found)}
    estimates = {name: compared(one) for name, one in numbers.items()}
    adjusted = holm_over(estimates)
    return [
        replace(one, estimate=estimates[name], p_adjusted=adjusted.get(name))
        for one in found
        for name in [_number(one.claim)]
    ]


def _number(claim: Claim) -> tuple[str, tuple[str, str]]:
    return claim.approach, measured_key(claim)


def compared(one: Rerun) -> Estimate | None:
    """Compare the user's seeds with the other shipped seeds, on the claim's scale.

    A shipped seed that the user trained too is left out, as the two runs are not independent. None if fewer than
    `ENOUGH` are left, if these are all equal and the user's differ, or if the scale cannot hold a number.
    """
    scale = scale_of(one.claim)
    others = {seed: value for seed, value in one.shipped.by_seed.items() if seed not in one.own.by_seed}
    if len(others) < ENOUGH:
        return None
    try:
        first, second = (
            Samples(part).converted(lambda value: to_scale(scale, value)) for part in (others, one.own.by_seed)
        )
    except ValueError:
        return None
    found = independent(first, second)
    return found if found.error or not found.difference else None
