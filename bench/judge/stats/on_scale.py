"""A claim on its scale: how far our seeds are from the report, how sharply they judge it, and how many would.

`bench.judge.stats.rule` has the meaning of D, E, h, M and R. Where Bartlett's test allows, the spread is one of the
seeds of several recipes of an approach: five seeds of one recipe have four degrees of freedom, which makes every
interval wide, and other recipes, measured alike, have other means but often the same spread.

Source: Bartlett 1937, Properties of sufficiency and statistical tests, Proc. R. Soc. A 160. It assumes normal seeds and
finds small differences rarely, so a verdict shows what the claim's own seeds say too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from bench.judge.claims import Claim
from bench.judge.comparison import (
    ALPHA,
    CANNOT_TELL,
    CONFIRMED,
    CONTRADICTED,
    ENOUGH,
    LEVEL,
    Estimate,
    Reported,
    against_reported,
    one_more_error,
    quantile,
    welch,
)
from bench.judge.samples import Samples
from bench.judge.stats.scales import IDENTITY, Scale, ends_on_scale, from_scale, margin_on_scale, scale_of, to_scale

MOST_SEEDS = 10**6  # more seeds than this count as no number of seeds


@dataclass(frozen=True)
class OnScale:
    """A claim or a curve on its scale: at least two of our seeds, the reported number, and the margin."""

    ours: Samples
    reported: Reported
    margin: float
    scale: Scale = IDENTITY
    unit_margin: float = math.inf  # the margin in the claim's unit; a curve has none
    pooled: Pooled | None = None  # with the seeds of other recipes; it counts where it is allowed

    @cached_property
    def estimate(self) -> Estimate:
        """Return D, the distance of our mean from the nearest number that prints as the report, as an estimate."""
        return against_reported(self.ours, self.reported, self.spread)

    @property
    def own_estimate(self) -> Estimate:
        """Return D with the spread of our seeds of this recipe alone."""
        return against_reported(self.ours, self.reported)

    @property
    def is_pooled(self) -> bool:
        """Return whether the spread is that of several recipes."""
        return self.pooled is not None and self.pooled.is_allowed

    @property
    def spread(self) -> tuple[float, int]:
        """Return standard deviation and degrees of freedom: of all recipes if Bartlett's test allows, else our own."""
        if self.pooled is not None and self.is_pooled:
            return self.pooled.sd, self.pooled.freedom
        return self.ours.sd or 0.0, self.ours.n - 1

    @property
    def half_width(self) -> float:
        """Return h, the half-width of the 95 % interval."""
        return self.estimate.half_width() or 0.0

    @property
    def percentile(self) -> float:
        """Return the percentage of our runs below the reported number.

        A run that is printed as the report counts as half a run.
        """
        low, high = self.reported.low, self.reported.high
        below = sum(1.0 if value < low else 0.5 if value <= high else 0.0 for value in self.ours.values)
        return 100 * below / self.ours.n

    @property
    def p_equivalence(self) -> float | None:
        """Return the p-value of equivalence within the margin; None if the report is of one run."""
        if self.reported.sd is None:
            return None
        return against_reported(
            self.ours, self.reported._replace(low=self._farthest, high=self._farthest)
        ).equivalence_p(self.margin)

    @property
    def _mean(self) -> float:
        return self.ours.mean or 0.0

    @property
    def _farthest(self) -> float:
        """Return the number farthest from our mean that prints as the report."""
        return max(self.reported.low, self.reported.high, key=lambda end: abs(end - self._mean))

    @property
    def farthest_distance(self) -> float:
        """Return E, the distance of our mean from the farthest number that prints as the report."""
        return abs(self._farthest - self._mean)

    def _is_near(self, one: float, other: float) -> bool:
        """Return whether two places on the scale lie within the margin, on the scale and in the claim's unit."""
        in_unit = abs(from_scale(self.scale, one) - from_scale(self.scale, other))
        return abs(one - other) <= self.margin and in_unit <= self.unit_margin

    @property
    def is_within_margin(self) -> bool:
        """Return whether D is within the margin."""
        return self._is_near(self._mean, self._nearest)

    @property
    def _nearest(self) -> float:
        """Return the number nearest to our mean that prints as the report."""
        return min(max(self._mean, self.reported.low), self.reported.high)

    @property
    def distance_in_unit(self) -> float:
        """Return D in the claim's unit."""
        return abs(from_scale(self.scale, self._mean) - from_scale(self.scale, self._nearest))

    @property
    def would_land(self) -> bool:
        """Return whether one more run would land within the margin of every number that prints as the report."""
        return self._lands(self._mean, self.half_width)

    def _lands(self, mean: float, half: float) -> bool:
        return self._is_near(mean + half, self.reported.low) and self._is_near(mean - half, self.reported.high)

    @property
    def scatters(self) -> bool:
        """Return whether one more run may lie farther from our mean than the margin: h > M."""
        return not all(self._is_near(self._mean, self._mean + side * self.half_width) for side in (-1, 1))

    @property
    def is_sharp(self) -> bool:
        """Return whether a report with such digits could be confirmed: half of what prints alike, plus h, <= M."""
        return self._is_sharp_with(self.half_width)

    def _is_sharp_with(self, half: float) -> bool:
        return self._lands(self.reported.middle, half)

    @property
    def seeds_to_settle(self) -> int | None:
        """Return the fewest seeds that make the rule sharp at this spread; None if no number of seeds does."""
        if not self._is_sharp_with(self._half_width_of(math.inf)):
            return None
        enough, too_few = ENOUGH, ENOUGH - 1
        while not self._is_sharp_with(self._half_width_of(enough)):
            enough, too_few = 2 * enough, enough
            if enough > MOST_SEEDS:
                return None
        while enough - too_few > 1:
            middle = (enough + too_few) // 2
            if self._is_sharp_with(self._half_width_of(middle)):
                enough = middle
            else:
                too_few = middle
        return enough

    def _half_width_of(self, n: float) -> float:
        """Return h with n seeds; for a report of several runs, of the two one-sided tests."""
        sd, freedom = self.spread
        if self.reported.sd is None:
            return quantile(0.5 + LEVEL / 2, freedom + n - self.ours.n) * one_more_error(sd, n)
        error, effective = welch((sd, n), (self.reported.sd, self.reported.n_runs))
        return quantile(1 - ALPHA, effective) * error if error else 0.0

    def outcome(self, p_adjusted: float) -> str:
        """Return the outcome, if there are enough seeds."""
        if p_adjusted < ALPHA:
            return CONTRADICTED
        same = self.p_equivalence
        return CONFIRMED if (self.would_land if same is None else same < ALPHA) else CANNOT_TELL


def on_scale(claim: Claim, sample: Samples, others: Sequence[Samples] = ()) -> OnScale | None:
    """Return a claim on its scale; None for fewer than two seeds, or a number that the scale cannot hold.

    `others`: what other recipes of the approach measured of the claim.
    """
    scale = scale_of(claim)
    ours = _converted(sample, scale)
    if ours is None or ours.n < 2:
        return None
    found = [one for other in others if (one := _converted(other, scale)) is not None]
    pooled = pool(ours, found) if claim.spread is None else None
    reported = Reported(*ends_on_scale(claim, scale), claim.spread, claim.n_runs)
    return OnScale(ours, reported, margin_on_scale(claim, scale), scale, claim.margin, pooled)


def _converted(sample: Samples, scale: Scale) -> Samples | None:
    try:
        return sample.converted(lambda value: to_scale(scale, value))
    except ValueError:
        return None


class Pooled(NamedTuple):
    """The standard deviation of the seeds of several recipes, each around its own mean."""

    sd: float
    freedom: int  # seeds minus recipes
    n_recipes: int
    p: float  # of Bartlett's test that all recipes scatter alike

    @property
    def is_allowed(self) -> bool:
        """Return whether the recipes may scatter alike."""
        return self.p > ALPHA


def pool(own: Samples, others: Sequence[Samples]) -> Pooled | None:
    """Return the pooled spread of a recipe's seeds and of other recipes'; None without other recipes.

    Recipes with one seed, or with a failed one, do not count. Seeds that are all equal never scatter like others.
    """
    groups = [own, *(one for one in others if one.n > 1 and one.missing_value is None)]
    if len(groups) == 1:
        return None
    parts = [(one.n - 1, (one.sd or 0.0) ** 2) for one in groups]
    freedom = sum(n for n, _ in parts)
    variance = sum(n * part for n, part in parts) / freedom
    return Pooled(math.sqrt(variance), freedom, len(groups), _bartlett(parts, freedom, variance))


def _bartlett(parts: Sequence[tuple[int, float]], freedom: int, variance: float) -> float:
    """Return the p-value of Bartlett's test, from the degrees of freedom and the variance of each group."""
    if any(part == 0 for _, part in parts):
        return 0.0
    from scipy import special  # here: it imports slowly

    statistic = sum(n * math.log(variance / part) for n, part in parts)
    others = len(parts) - 1
    correction = 1 + (sum(1 / n for n, _ in parts) - 1 / freedom) / (3 * others)
    return float(special.chdtrc(others, max(0.0, statistic / correction)))
