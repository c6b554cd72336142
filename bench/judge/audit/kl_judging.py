"""What the measured weight of the KL says: its scale, its sign, and the prior under it."""

from __future__ import annotations

import math

from bench.judge.audit.case import Case
from bench.judge.audit.findings import Finding
from bench.judge.audit.fitting import Estimate
from bench.judge.audit.kl_weight import KlWeight, counts_rows, kl_weight
from bench.judge.audit.likelihood import DataWeight

TOLERANCE = 0.05  # of the KL's weight, and of the prior's standard deviation
OMITTED = 0.5  # a group of weights whose own KL counts less than this share of the rest
MISSING = 1e-4  # of a KL an epoch: float32's rounding leaves that much of none
WIDE = 1e4  # times the size of the weights: no prior

RULES = ("kl-scale", "kl-sign", "variance-as-std")


def judge_kl(case: Case, data: DataWeight | None, numbers: dict[str, float]) -> list[Finding]:
    """Return what the rules on the KL find, one finding a rule."""
    if case.kl is None and not case.groups and not case.lone_means:
        detail = "no parameters named as mean and scale; give factors= or kl= if the weights have distributions"
        return [Finding(rule, case.subject, "not applicable", detail) for rule in RULES]
    unseen = _unseen(case, data)
    if unseen:
        return [Finding(rule, case.subject, "not measured", unseen) for rule in RULES]
    found = kl_weight(case.objective, case.trained, case.kl, data, case.n_train, case.draws)
    if found.missed:
        worst = max(found.missed, key=lambda name: found.missed[name])
        detail = (
            f"{found.missed[worst]:.0%} of what the data leave of {worst}'s gradient is not that of a KL to a Gaussian "
            "around zero: another prior, another sigma than its name says, or a further term; give kl=, or factors="
        )
        return [Finding(rule, case.subject, "not measured", detail) for rule in RULES]
    numbers["kl_per_epoch"] = found.per_epoch.value
    scale, sign = _scale_and_sign(found, case.subject, data is None)
    if _missing(found.per_epoch):
        return [scale, sign, Finding("variance-as-std", case.subject, "not measured", "no KL is seen, and so no prior")]
    return [scale, sign, _prior(found, case.prior_std, case.subject, numbers)]


def _missing(counts: Estimate) -> bool:
    return abs(counts.value) <= max(2 * counts.error, MISSING)


def _unseen(case: Case, data: DataWeight | None) -> str:
    """Return why the KL cannot be seen, or nothing."""
    if case.kl is None and not case.groups:
        return f"{', '.join(case.lone_means)} has no partner such as rho that can be trained; give factors= or kl="
    if case.kl is None and not case.trained:
        return "no sigma can be trained, so that the KL's entropy has no gradient; give kl="
    if data is None and not counts_rows(case.objective):
        return "the loss is a mean over rows: what of it is the KL cannot be seen; give nll="
    if data is not None and data.rest == "other noise":
        return "nll= draws other noise than the loss, so that what the data leave of the loss is unknown"
    if data is not None and data.rest == "rounding":
        return "the likelihood is lost in the loss's rounding; audit in float64"
    if data is not None and data.weight <= 0:
        return f"the likelihood's weight is {data.weight:.3g}; mend that first"
    return ""


def _scale_and_sign(found: KlWeight, subject: str, assumed: bool) -> tuple[Finding, Finding]:
    value, error = found.per_epoch.value, found.per_epoch.error
    measured = {"kl_per_epoch": value, "standard error": error}
    detail = f"the KL counts {value:.4g} times in an epoch (standard error {error:.1g})"
    if assumed:
        detail += ", if the loss sums the rows' NLL with weight 1 (give nll= to measure that)"
    if not math.isfinite(value) or (not found.per_epoch.sure() and abs(abs(value) - 1) < 2 * error + TOLERANCE):
        unsure = f"{detail}: too noisy to tell; raise draws="
        scale, sign = (Finding(rule, subject, "not measured", unsure, measured) for rule in ("kl-scale", "kl-sign"))
        return scale, sign
    if _missing(found.per_epoch):
        missing = f"{detail}: it is missing; add it to the loss"
        sign = Finding("kl-sign", subject, "not measured", "no KL is seen, so that it has no sign", measured)
        return Finding("kl-scale", subject, "fails", missing, measured), sign
    sign = Finding("kl-sign", subject, "fails" if value < 0 else "passes", detail, measured)
    odd = {name: v for name, v in found.by_factor.items() if v < OMITTED * value}
    if odd and value > 0:
        left_out = ", ".join(f"{name} {v:.3g}" for name, v in odd.items())
        return Finding("kl-scale", subject, "fails", f"{detail}; not in all groups alike: {left_out}", measured), sign
    right = abs(abs(value) - 1) <= TOLERANCE + 2 * error
    return Finding("kl-scale", subject, "passes" if right else "fails", detail, measured), sign


def _prior(found: KlWeight, meant: float | None, subject: str, numbers: dict[str, float]) -> Finding:
    rule = "variance-as-std"
    if found.precision is None:
        return Finding(rule, subject, "not measured", "kl= hides the prior; give factors= to measure it")
    estimate = _root(found.precision)
    if not estimate.sure(2 * TOLERANCE):
        return _unseen_prior(found, meant, subject)
    numbers["prior_std"] = estimate.value
    detail = f"the prior's standard deviation is {estimate.value:.4g} (standard error {estimate.error:.1g})"
    measured = {"prior_std": estimate.value, "standard error": estimate.error}
    if meant is None:
        return Finding(rule, subject, "not measured", f"{detail}; give prior_std= to compare", measured)
    if _is(estimate, meant):
        return Finding(rule, subject, "passes", detail, measured)
    more = f"meant is {meant:.4g}" + (", whose square it is" if _is(estimate, meant**2) else "")
    return Finding(rule, subject, "fails", f"{detail}; {more}", measured)


def _unseen_prior(found: KlWeight, meant: float | None, subject: str) -> Finding:
    """Say how wide a prior is whose pull is lost in noise: it may still be wider than what is meant, or than any."""
    rule = "variance-as-std"
    assert found.precision is not None
    at_least = (max(found.precision.value, 0.0) + 3 * found.precision.error + 1e-300) ** -0.5
    if meant is not None and at_least > (1 + TOLERANCE) * meant:
        detail = f"the prior's standard deviation is above {at_least:.3g}; meant is {meant:.4g}"
        return Finding(rule, subject, "fails", detail, {"at least": at_least})
    if meant is None and at_least > WIDE * found.size:
        detail = f"the KL pulls the weights to no prior: its standard deviation would be above {at_least:.2g}; "
        return Finding(rule, subject, "fails", f"{detail}look for a detached mean", {"at least": at_least})
    detail = (
        f"the prior's pull on the means is lost in noise, its standard deviation above {at_least:.3g}; raise draws="
    )
    return Finding(rule, subject, "not measured", detail, {"at least": at_least})


def _is(estimate: Estimate, meant: float) -> bool:
    """Return whether a standard deviation is the one that is meant, as far as its error tells."""
    return abs(estimate.value - meant) <= TOLERANCE * meant + 2 * estimate.error


def _root(precision: Estimate) -> Estimate:
    """Return the standard deviation that a precision is of."""
    if not precision.value > 0:
        return Estimate(math.nan, math.inf)
    std = precision.value**-0.5
    return Estimate(std, std * precision.error / precision.value / 2)
