"""How wide is the prior that the loss holds, and is it the one that is meant?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from elbo_audit.findings import Advice, Seen
from elbo_audit.kl_weight import KlWeight, TensorWeight, is_entropy_turned, is_missing
from elbo_audit.least_squares import MeanOfDraws
from elbo_audit.objective import Case
from elbo_audit.patterns import ALIKE, TOLERANCE, cause_of, differ, is_one, root, unlike

PRIOR = Advice("prior", "prior")  # a prior has its width; no factor of the KL mends it
WIDE = 1e4  # a prior that is wider than the weights by this factor does not pull them


def judge_prior(case: Case, found: KlWeight) -> Seen:
    """Judge the prior: of all groups together if they are alike, else group by group."""
    alike = not unlike(found)
    if alike and is_missing(found.per_epoch):
        return Seen("not measured", "no KL is seen, and so no prior")
    meant = 1.0 if case.has_kl else case.prior_std  # beside kl=, in units of its prior
    whole = _prior_of(TensorWeight("all", 0, found.per_epoch, found.precision, found.pull), meant)
    if case.prior_std is not None and found.own_prior is not None and (whole is None or is_one(whole)):
        return judge_width(found.own_prior, found.size, case.prior_std, " in kl=")
    if whole is None:
        return Seen("not measured", "kl= hides the prior; give factors= to measure it")
    if case.has_kl:
        return judge_width(whole, found.size, meant, " times that of kl=")
    if alike and (odd := _odd_pull(found)):
        return odd
    # A group without a KL has no prior, and would change the prior that is measured of all groups together.
    every = [(t.name, prior) for t in found.tensors if (prior := _prior_of(t, meant)) and not is_missing(t.per_epoch)]
    sure = [(name, precision) for name, precision in every if precision.sure(ALIKE) and precision.value > 0]
    if not differ([precision for _, precision in sure]):
        if alike or not every:
            return judge_width(whole, found.size, meant)
        return _worst_width(case, found.size, every)
    stds = {name: root(precision).value for name, precision in sure}
    least, most = (pick(stds, key=lambda name: stds[name]) for pick in (min, max))
    measured = {"least": stds[least], "most": stds[most]}
    detail = (
        f"the prior's standard deviation differs from tensor to tensor, from {stds[least]:.4g} ({least}) to "
        f"{stds[most]:.4g} ({most})"
    )
    if case.prior_std is None:
        return Seen("not measured", detail, measured)
    return Seen("fails", f"{detail}; meant is {case.prior_std:.4g}", measured, advised=True, advice=PRIOR)


def _odd_pull(found: KlWeight) -> Seen | None:
    """Return a failure if the prior does not pull the means to zero, though it pulls the sigmas; None if it may."""
    if found.pulls is None or is_entropy_turned(found):  # of the latter kl-sign says it
        return None
    count = found.per_epoch.value
    odd = found.pulls.odd(found.size)
    means, scales = (math.copysign(pull.value, pull.value * count) for pull in found.pulls[1:])
    measured = {"pull of means": means, "pull of sigmas": scales}
    if odd == "sign":
        text = f"the prior pushes the means away from zero: an epoch counts {means:.3g} x mean^2 / 2; turn its sign"
        return Seen("fails", text, measured, advised=True, advice=Advice("sign", "prior"))
    if odd == "missing":
        text = (
            f"an epoch counts {scales:.3g} x sigma^2 / 2 of the prior, but no mean^2 / 2: it is left out, or detached"
        )
        return Seen("fails", text, measured, advised=True, advice=PRIOR)
    return None


def _prior_of(tensor: TensorWeight, meant: float | None) -> MeanOfDraws | None:
    """Return 1 / prior variance: from the pull alone, if the entropy has a wrong weight of its own."""
    reference = None if meant is None else meant**-2
    return tensor.pull if cause_of(tensor, reference) == "entropy" else tensor.precision


def _worst_width(case: Case, size: float, groups: Sequence[tuple[str, MeanOfDraws]]) -> Seen:
    """Judge the prior of each group. Return one that fails, else one that passes; if several do, one with a number."""
    rank = ("fails", "passes", "not measured")
    seen = [(name, judge_width(precision, size, case.prior_std)) for name, precision in groups]
    name, worst = min(seen, key=lambda pair: (rank.index(pair[1].outcome), "prior_std" not in pair[1].measured))
    return worst._replace(detail=f"of {name}: {worst.detail}")


def judge_width(precision: MeanOfDraws, size: float, meant: float | None, unit: str = "") -> Seen:
    """Compare a prior's measured precision with the standard deviation that is `meant`, if it is known.

    `size` is the root mean square of the weights, `unit` that of the standard deviation, in words.
    """
    std = root(precision)
    if not std.sure(2 * TOLERANCE):
        return _lost_in_noise(precision, size, meant)
    detail = f"the prior's standard deviation is {std.value:.4g}{unit} (standard error {std.error:.1g})"
    measured = {"prior_std": std.value, "standard error": std.error}
    if meant is None:
        return Seen("not measured", f"{detail}; give prior_std= to compare", measured)
    if _agrees(std, meant):
        return Seen("passes", detail, measured)
    # The rule's remedy is to take a square root. It fits only if the width is the square of the one that is meant.
    is_square = _agrees(std, meant**2)
    more = f"meant is {meant:.4g}" + (", whose square it is" if is_square else "")
    text = f"another prior: {detail}; {more}; no factor of the KL mends it"
    return Seen("fails", text, measured, advised=not is_square, advice=PRIOR)


def _lost_in_noise(precision: MeanOfDraws, size: float, meant: float | None) -> Seen:
    """Judge a prior whose pull is lost in noise. It may still be surely wider than stated, or than any prior."""
    at_least = (max(precision.value, 0.0) + 3 * precision.error + 1e-300) ** -0.5
    measured = {"at least": at_least}
    if meant is not None and at_least > (1 + TOLERANCE) * meant:
        detail = f"the prior's standard deviation is above {at_least:.3g}; meant is {meant:.4g}"
        return Seen("fails", detail, measured, advised=True, advice=PRIOR)
    if meant is None and at_least > WIDE * size:
        detail = f"the KL pulls the weights to no prior: its standard deviation would be above {at_least:.2g}; "
        return Seen("fails", f"{detail}look for a detached mean", measured, advised=True)
    detail = f"no pull of a prior is seen: it is left out, or its standard deviation is above {at_least:.3g}"
    return Seen("not measured", f"{detail}; audit in float64, give prior_std=, or raise draws=", measured)


def _agrees(std: MeanOfDraws, meant: float) -> bool:
    """Return whether a standard deviation may be the one that is meant, given its error."""
    return abs(std.value - meant) <= TOLERANCE * meant + 2 * std.error
