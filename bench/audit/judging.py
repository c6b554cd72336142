"""What the measurements on an objective say: the rules on likelihood, KL, prior, detached and unused parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torch import Tensor

from bench.audit import slopes
from bench.audit.findings import Finding
from bench.audit.kl_weight import PROPORTIONAL, Estimate, KlWeight, counts_rows, data_weight, kl_weight
from bench.audit.objective import Factor, Objective
from bench.errors import ConfigError

TOLERANCE = 0.05  # of the KL's weight, and of the prior's standard deviation
OMITTED = 0.5  # a group of weights whose own KL counts less than this share of the rest


def judge(
    objective: Objective,
    groups: Sequence[Factor],
    kl: Callable[[], Tensor] | None,
    n_train: int,
    prior_std: float | None,
    draws: int,
    subject: str,
) -> tuple[list[Finding], dict[str, float]]:
    """Return what the rules on objectives find, and the numbers measured on the way."""
    if n_train < objective.batch_size:
        raise ConfigError(f"n_train is {n_train}, a batch has {objective.batch_size} rows; give the rows of an epoch")
    numbers: dict[str, float] = {}
    likelihood, weight = _likelihood(objective, draws, subject, numbers)
    found = [likelihood]
    found += _kl(objective, groups, kl, weight, n_train, prior_std, draws, subject, numbers)
    found += [_detached(objective, weight, subject), _unused(objective, subject)]
    return found, numbers


def _likelihood(
    objective: Objective, draws: int, subject: str, numbers: dict[str, float]
) -> tuple[Finding, float | None]:
    rule = "wrong-likelihood"
    if not objective.has_nll:
        return Finding(rule, subject, "not measured", "give nll= to compare the loss with the likelihood"), None
    measured = data_weight(objective, draws)
    numbers["data_weight"] = measured.weight
    detail = f"the loss counts the batch's summed NLL {measured.weight:.4g} times"
    rest = f"{measured.misfit:.1%} of its range over batches is something else"
    if measured.misfit > PROPORTIONAL:
        return Finding(rule, subject, "fails", f"{detail}, but {rest}", {"misfit": measured.misfit}), measured.weight
    return Finding(rule, subject, "passes", f"{detail}; {rest}", {"weight": measured.weight}), measured.weight


def _kl(
    objective: Objective,
    groups: Sequence[Factor],
    kl: Callable[[], Tensor] | None,
    weight: float | None,
    n_train: int,
    prior_std: float | None,
    draws: int,
    subject: str,
    numbers: dict[str, float],
) -> list[Finding]:
    rules = ("kl-scale", "kl-sign", "variance-as-std")
    if kl is None and not groups:
        detail = "no parameters named as mean and scale; give factors= or kl= if the weights have distributions"
        return [Finding(rule, subject, "not applicable", detail) for rule in rules]
    if weight is None and not counts_rows(objective):
        detail = "the loss is a mean over rows: what of it is the KL cannot be seen; give nll="
        return [Finding(rule, subject, "not measured", detail) for rule in rules]
    if weight is not None and weight <= 0:
        detail = f"the likelihood's weight is {weight:.3g}; check that nll= draws the noise that the loss draws"
        return [Finding(rule, subject, "not measured", detail) for rule in rules]
    found = kl_weight(objective, groups, kl, weight, n_train, draws)
    numbers["kl_per_epoch"] = found.per_epoch.value
    return [*_scale_and_sign(found, subject, weight is None), _prior(found, prior_std, subject, numbers)]


def _scale_and_sign(found: KlWeight, subject: str, assumed: bool) -> list[Finding]:
    value, error = found.per_epoch.value, found.per_epoch.error
    measured = {"kl_per_epoch": value, "standard error": error}
    detail = f"the KL counts {value:.4g} times in an epoch (standard error {error:.1g})"
    if assumed:
        detail += ", if the loss sums the rows' NLL with weight 1 (give nll= to measure that)"
    if not math.isfinite(value) or (not found.per_epoch.sure() and abs(value - 1) < 2 * error + TOLERANCE):
        unsure = f"{detail}: too noisy to tell; raise draws="
        return [Finding(rule, subject, "not measured", unsure, measured) for rule in ("kl-scale", "kl-sign")]
    sign = Finding("kl-sign", subject, "fails" if value < -2 * error else "passes", detail, measured)
    odd = {name: v for name, v in found.by_factor.items() if v < OMITTED * value}
    if odd and value > 2 * error:
        left_out = ", ".join(f"{name} {v:.3g}" for name, v in odd.items())
        return [Finding("kl-scale", subject, "fails", f"{detail}; not in all groups alike: {left_out}", measured), sign]
    right = abs(abs(value) - 1) <= TOLERANCE + 2 * error
    return [Finding("kl-scale", subject, "passes" if right else "fails", detail, measured), sign]


def _prior(found: KlWeight, meant: float | None, subject: str, numbers: dict[str, float]) -> Finding:
    rule = "variance-as-std"
    if found.prior_std is None:
        return Finding(rule, subject, "not measured", "kl= hides the prior; give factors= to measure it")
    estimate: Estimate = found.prior_std
    if not estimate.sure(2 * TOLERANCE):
        detail = "the prior's pull on the means is lost in noise, or it is no Gaussian around zero"
        return Finding(rule, subject, "not measured", detail)
    numbers["prior_std"] = estimate.value
    detail = f"the prior's standard deviation is {estimate.value:.4g} (standard error {estimate.error:.1g})"
    measured = {"prior_std": estimate.value, "standard error": estimate.error}
    if meant is None:
        return Finding(rule, subject, "not measured", f"{detail}; give prior_std= to compare", measured)
    if abs(estimate.value / meant - 1) <= TOLERANCE:
        return Finding(rule, subject, "passes", detail, measured)
    squared = abs(estimate.value / meant**2 - 1) <= TOLERANCE
    more = f"meant is {meant:.4g}" + (", whose square it is" if squared else "")
    return Finding(rule, subject, "fails", f"{detail}; {more}", measured)


def _detached(objective: Objective, weight: float | None, subject: str) -> Finding:
    rule = "detached-gradient"
    found = slopes.slopes(objective)
    bad = {slope.name: slope for slope in found if slope.differs}
    unresolved = [slope.name for slope in found if slope.loss is None]
    if weight is not None:  # what the data would drown: the slope of the KL part alone
        bad |= {slope.name: slope for slope in slopes.slopes(objective, weight) if slope.differs}
    if bad:
        shown = ", ".join(f"{s.name} (autograd {s.autograd:.3g}, loss {s.loss:.3g})" for s in bad.values())
        return Finding(rule, subject, "fails", f"the slope is not autograd's along {shown}", {"tensors": len(bad)})
    if len(unresolved) == len(found):
        return Finding(rule, subject, "not measured", "no slope stands out from rounding; audit in float64")
    detail = f"the loss's slope is autograd's along {len(found) - len(unresolved)} of {len(found)} parameter tensors"
    if unresolved:
        detail += f" (lost in rounding: {', '.join(unresolved)})"
    return Finding(rule, subject, "passes", detail, {"tensors": 0})


def _unused(objective: Objective, subject: str) -> Finding:
    names = slopes.unreached(objective)
    if names:
        detail = f"the gradient is the same whatever the batch for {', '.join(names)}"
        return Finding("unused-layer", subject, "fails", detail, {"tensors": len(names)})
    detail = f"the data reach all {len(objective.parameters)} parameter tensors"
    return Finding("unused-layer", subject, "passes", detail, {"tensors": 0})
