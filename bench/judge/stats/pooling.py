"""One spread from the seeds of several recipes of an approach, where Bartlett's test allows.

Five seeds of one recipe give a standard deviation with four degrees of freedom, which makes every interval wide. Other
recipes of the approach, measured alike, have other means but often the same spread.

Source: Bartlett 1937, Properties of sufficiency and statistical tests, Proc. R. Soc. A 160. It assumes normal seeds and
finds small differences rarely, so a verdict shows what the claim's own seeds say too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from bench.judge.comparison import ALPHA
from bench.judge.samples import Samples


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
