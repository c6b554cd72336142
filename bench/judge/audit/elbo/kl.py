"""The rules on the KL: how often does an epoch count it, with which sign, and how wide is the prior?

`weighing` measures, `patterns` says which mistake fits the weights; this file decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.judge.audit.elbo import prior
from bench.judge.audit.elbo.least_squares import MeanOfDraws
from bench.judge.audit.elbo.likelihood import DataWeight
from bench.judge.audit.elbo.objective import Case, NotFinite
from bench.judge.audit.elbo.patterns import Setting, advice
from bench.judge.audit.elbo.weighing import KlWeight, TensorWeight, counts_rows, measure
from bench.judge.audit.findings import Seen

RULES = ("kl-scale", "kl-sign", "variance-as-std")

TOLERANCE = 0.05  # of the KL's weight
ALIKE = 0.1  # of a weight, or of a prior's width: groups that differ by less are not called different
RARE = 0.001  # chance that noise alone puts one of the groups outside its interval
LISTED = 12  # groups that a line shows; of more it shows the extremes


def judge(case: Case, data: DataWeight | None) -> dict[str, Seen]:
    """Return what the rules on the KL see; `data` is None where no NLL was given."""
    if case.kl is None and not case.groups and not case.lone_means:
        detail = "no parameters named as mean and scale; give factors= or kl= if the weights have distributions"
        return dict.fromkeys(RULES, Seen("not applicable", detail))
    hidden = _why_unseen(case, data)
    if hidden:
        return dict.fromkeys(RULES, Seen("not measured", hidden))
    try:
        found = measure(case, data)
    except NotFinite as error:
        return dict.fromkeys(RULES, Seen("not measured", f"{error}, however short the audit's steps are"))
    if found.missed:
        worst = max(found.missed, key=lambda name: found.missed[name])
        detail = (
            f"{found.missed[worst]:.0%} of {worst}'s gradient, less its data part, is not that of a KL to a Gaussian "
            "around zero: another prior, another sigma than its name says, or a further term; give kl=, or factors="
        )
        return dict.fromkeys(RULES, Seen("not measured", detail))
    scale, sign = _scale_and_sign(case, found, data)
    if found.missing or found.precision is None:
        why = "no KL is seen, and so no prior" if found.missing else "kl= hides the prior; give factors= to measure it"
        width = Seen("not measured", why)
    else:
        width = _width(case, found, found.precision)
    return dict(zip(RULES, (scale, sign, width), strict=True))


def unseen_without_slopes(case: Case) -> dict[str, Seen]:
    """Return the rules on the KL where the gradient is not the slope of the loss: gradients tell nothing of it."""
    if case.kl is None and not case.groups and not case.lone_means:
        return judge(case, None)
    detail = "the gradient is not the slope of the loss (detached-gradient), so that it does not show the KL"
    return dict.fromkeys(RULES, Seen("not measured", f"{detail}; mend that first"))


def _why_unseen(case: Case, data: DataWeight | None) -> str:
    """Return why the KL cannot be seen, or nothing."""
    if case.kl is None and not case.groups:
        return f"{', '.join(case.lone_means)} has no partner such as rho that can be trained; give factors= or kl="
    if case.kl is None and not case.trained:
        return "no sigma can be trained, so that the KL's entropy has no gradient; give kl="
    if data is None:
        mean = "the loss is a mean over rows, so that the KL's part of it cannot be seen; give nll="
        return "" if counts_rows(case.objective) else mean
    if data.rest == "other noise":
        return "nll= draws other noise than the loss, so that it cannot be subtracted from the loss"
    if data.rest == "other likelihood":
        return "the loss holds another likelihood than nll= (wrong-likelihood), which hides the KL; mend that first"
    if data.rest == "rounding":
        return "rounding of the loss hides the likelihood; audit in float64"
    return f"the likelihood's weight is {data.weight:.3g}; mend that first" if data.weight <= 0 else ""


def _scale_and_sign(case: Case, found: KlWeight, data: DataWeight | None) -> tuple[Seen, Seen]:
    steps = _whole_steps(case, found, data)
    value, error = steps * found.per_epoch.value, steps * found.per_epoch.error
    measured = {"kl_per_epoch": value, "standard error": error}
    detail = f"the KL counts {value:.4g} times in an epoch (standard error {error:.1g})"
    if steps != 1:
        detail += f" of {steps * case.n_train / case.objective.batch_size:.0f} batches"
    if data is None:
        detail += ", if the loss sums the rows' NLL with weight 1 (give nll= to measure that)"
    tensors, unlike = _sure(found.tensors), _unlike(found.tensors)
    if unlike:
        return _of_tensors(case, found, tensors, data)
    if not math.isfinite(value) or (not found.per_epoch.sure() and abs(abs(value) - 1) < 2 * error + TOLERANCE):
        unsure = Seen("not measured", f"{detail}: too noisy to tell; raise draws=", measured)
        return unsure, unsure
    if found.missing:
        sign = Seen("not measured", "no KL is seen, so that it has no sign", measured)
        return Seen("fails", f"{detail}: it is missing; add it to the loss", measured), sign
    sign = Seen("fails" if value < 0 else "passes", detail, measured)
    if found.by_batch and not _is_an_epoch(case):
        shown = ", ".join(f"{weight:.3g}" for weight in found.by_batch)
        why = (
            f"the KL's weight changes from batch to batch ({shown}), as in a warm-up or a re-weighting over batches: "
            "what counts is its sum over an epoch; give the batches of one whole epoch, or hold the weight still"
        )
        return Seen("not measured", why, {}), sign
    measured |= {f"of {tensor.name}": steps * tensor.per_epoch.value for tensor in found.tensors}
    if abs(abs(value) - 1) <= TOLERANCE + 2 * error:
        return Seen("passes", detail, measured), sign
    more = advice(tensors or found.tensors, abs(value), _setting(case, data))
    return Seen("fails", f"{detail}: {more}", measured), sign


def _whole_steps(case: Case, found: KlWeight, data: DataWeight | None) -> float:
    """Return by how much an epoch has more or fewer batches than N / B, if that makes the loss an ELBO; else 1.

    Summed rows plus KL / len(loader) are an ELBO even if the last batch is short or dropped.
    """
    value, error, steps = found.per_epoch.value, found.per_epoch.error, case.n_train / case.objective.batch_size
    if data is not None and abs(data.weight - 1) > TOLERANCE:
        return 1.0
    factors = (1.0, math.ceil(steps) / steps, math.floor(steps) / steps)
    return next((factor for factor in factors if abs(factor * value - 1) <= TOLERANCE + 2 * error), 1.0)


def _of_tensors(
    case: Case, found: KlWeight, tensors: Sequence[TensorWeight], data: DataWeight | None
) -> tuple[Seen, Seen]:
    """Judge weights that differ from group to group, so that no single number describes them."""
    ordered = sorted(tensors, key=lambda tensor: tensor.per_epoch.value)
    least, most = ordered[0], ordered[-1]
    measured = {f"of {tensor.name}": tensor.per_epoch.value for tensor in found.tensors}
    measured |= {"least": least.per_epoch.value, "most": most.per_epoch.value}
    detail = (
        f"the KL's weight in an epoch differs from tensor to tensor, from {least.per_epoch.value:.3g} ({least.name}) "
        f"to {most.per_epoch.value:.3g} ({most.name})"
    )
    if 2 < len(ordered) <= LISTED:
        detail += ": " + ", ".join(f"{tensor.name} {tensor.per_epoch.value:.3g}" for tensor in found.tensors)
    scale = Seen("fails", f"{detail}; {advice(ordered, None, _setting(case, data))}", measured)
    wrong = [t.name for t in ordered if t.per_epoch.value < 0 and not t.missing]
    turned = f"the KL of {', '.join(wrong)} has the wrong sign"
    return scale, Seen("fails", turned, measured) if wrong else Seen("passes", "no tensor's KL is negative", measured)


def _width(case: Case, found: KlWeight, pooled: MeanOfDraws) -> Seen:
    """Judge the prior: of all groups together if they are alike, else group by group."""
    known = [t for t in found.tensors if t.precision is not None and t.precision.sure(ALIKE) and t.precision.value > 0]
    if not _differ([t.precision for t in known if t.precision is not None]):
        return prior.judge(pooled, found.size, case.prior_std)
    return prior.judge_each({t.name: t.precision for t in known if t.precision is not None}, case.prior_std)


def _sure(tensors: Sequence[TensorWeight]) -> list[TensorWeight]:
    """Return the groups whose weight is known well enough to compare. A missing KL counts as known."""
    return [t for t in tensors if t.per_epoch.sure() or (t.missing and t.per_epoch.error < ALIKE)]


def _unlike(tensors: Sequence[TensorWeight]) -> bool:
    """Return whether the groups' weights surely differ."""
    known = _sure(tensors)
    return _differ([t.per_epoch for t in known])


def _differ(values: Sequence[MeanOfDraws]) -> bool:
    """Return whether two of the values differ by more than their errors and a tenth."""
    level = 1 - RARE / max(len(values), 1)
    for index, one in enumerate(values):
        for other in values[:index]:
            reach = one.half_width(level) + other.half_width(level)
            gap = abs(one.value - other.value)
            if gap > reach and gap > ALIKE * max(abs(one.value), abs(other.value)):
                return True
    return False


def _is_an_epoch(case: Case) -> bool:
    """Return whether the batches are all of an epoch and each was drawn."""
    n_batches = len(case.objective.batches)
    rows = n_batches * case.objective.batch_size
    return abs(rows - case.n_train) < case.objective.batch_size and case.draws % n_batches == 0


def _setting(case: Case, data: DataWeight | None) -> Setting:
    return Setting(case.n_train, case.objective.batch_size, 1.0 if data is None else data.weight)
