"""How wide is the prior under the KL: is its standard deviation the one that is meant?"""

from __future__ import annotations

import math
from collections.abc import Mapping

from bench.judge.audit.elbo.least_squares import MeanOfDraws
from bench.judge.audit.findings import Seen

TOLERANCE = 0.05  # of the standard deviation
WIDE = 1e4  # a prior that is wider than the weights by this factor pulls them nowhere


def judge(precision: MeanOfDraws, size: float, meant: float | None) -> Seen:
    """Return what the rule on the prior's width sees.

    Args:
        precision: 1 / prior variance, as measured.
        size: root mean square of the weights.
        meant: the standard deviation that is meant, if it was given.
    """
    std = _root(precision)
    if not std.sure(2 * TOLERANCE):
        return _lost_in_noise(precision, size, meant)
    detail = f"the prior's standard deviation is {std.value:.4g} (standard error {std.error:.1g})"
    measured = {"prior_std": std.value, "standard error": std.error}
    if meant is None:
        return Seen("not measured", f"{detail}; give prior_std= to compare", measured)
    if _is(std, meant):
        return Seen("passes", detail, measured)
    more = f"meant is {meant:.4g}" + (", whose square it is" if _is(std, meant**2) else "")
    return Seen("fails", f"{detail}; {more}", measured)


def judge_each(precisions: Mapping[str, MeanOfDraws], meant: float | None) -> Seen:
    """Return what the rule sees where the prior differs from tensor to tensor."""
    stds = {name: _root(precision) for name, precision in precisions.items()}
    least, most = (pick(stds, key=lambda name: stds[name].value) for pick in (min, max))
    measured = {"least": stds[least].value, "most": stds[most].value}
    detail = (
        f"the prior's standard deviation differs from tensor to tensor, from {measured['least']:.4g} ({least}) to "
        f"{measured['most']:.4g} ({most})"
    )
    if meant is None:
        return Seen("not measured", detail, measured)
    return Seen("fails", f"{detail}; meant is {meant:.4g}", measured)


def _lost_in_noise(precision: MeanOfDraws, size: float, meant: float | None) -> Seen:
    """Judge a prior whose pull is lost in noise: it may still be wider than stated, or wider than any prior."""
    at_least = (max(precision.value, 0.0) + 3 * precision.error + 1e-300) ** -0.5
    measured = {"at least": at_least}
    if meant is not None and at_least > (1 + TOLERANCE) * meant:
        detail = f"the prior's standard deviation is above {at_least:.3g}; meant is {meant:.4g}"
        return Seen("fails", detail, measured)
    if meant is None and at_least > WIDE * size:
        detail = f"the KL pulls the weights to no prior: its standard deviation would be above {at_least:.2g}; "
        return Seen("fails", f"{detail}look for a detached mean", measured)
    detail = f"noise hides how the prior pulls the means, its standard deviation is above {at_least:.3g}; raise draws="
    return Seen("not measured", detail, measured)


def _is(std: MeanOfDraws, meant: float) -> bool:
    """Return whether a standard deviation is the one that is meant, as far as its error tells."""
    return abs(std.value - meant) <= TOLERANCE * meant + 2 * std.error


def _root(precision: MeanOfDraws) -> MeanOfDraws:
    """Return the standard deviation that belongs to a precision."""
    if not precision.value > 0:
        return MeanOfDraws(math.nan, math.inf)
    std = precision.value**-0.5
    return MeanOfDraws(std, std * precision.error / precision.value / 2, precision.freedom)
