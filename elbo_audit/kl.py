"""The rules on the KL: how often does an epoch count it, with which sign, and how wide is the prior?

`weighing` measures, this file judges, and `patterns` says which mistake fits the measured weights.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from elbo_audit.findings import Seen
from elbo_audit.least_squares import MeanOfDraws
from elbo_audit.likelihood import DataWeight
from elbo_audit.objective import Case, NotFinite
from elbo_audit.patterns import Setting, advice
from elbo_audit.weighing import KlWeight, TensorWeight, counts_rows, is_missing, measure

RULES = ("kl-scale", "kl-sign", "variance-as-std")

TOLERANCE = 0.05  # of the KL's weight
WIDTH_TOLERANCE = 0.05  # of the prior's standard deviation
WIDE = 1e4  # a prior that is wider than the weights by this factor does not pull them
ALIKE = 0.1  # of a weight, or of a prior's width: groups that differ by less are not called different
RARE = 0.001  # chance that noise alone puts one of the groups outside its interval
LISTED = 12  # most groups that a line names; of more groups it names only the extremes


def judge(case: Case, data: DataWeight | None, has_slopes: bool) -> dict[str, Seen]:
    """Return what the rules on the KL see.

    `data` is None if no NLL was given. Unless `has_slopes`, autograd's gradients are not the slopes of the loss, and
    tell nothing of the KL.
    """
    if not case.has_kl and not case.groups and not case.alone:
        detail = "no parameters named as mean and scale; give factors= or kl= if the weights have distributions"
        return dict.fromkeys(RULES, Seen("not applicable", detail))
    hidden = _why_unseen(case, data, has_slopes)
    if not hidden:
        try:
            found = measure(case, data)
            hidden = _why_untold(case, found)
        except NotFinite as error:
            hidden = f"{error}, however short the audit's steps are"
    if hidden:
        return dict.fromkeys(RULES, Seen("not measured", hidden))
    seen = dict(zip(RULES, (*_scale_and_sign(case, found, data), _width(case, found)), strict=True))
    return seen | {"kl-scale": _with_notes(case, found, seen["kl-scale"])}


def _with_notes(case: Case, found: KlWeight, scale: Seen) -> Seen:
    """Say how sigma was read, and what was not judged. A scale without its mean leaves the KL not measured."""
    few = f"not judged, for they have few numbers: {', '.join(found.untold)}" if found.untold else ""
    notes = [note for note in (few, found.reading, *case.alone.values()) if note]
    is_partial = case.alone and scale.outcome == "passes"
    detail = "; ".join([scale.detail, *notes])
    return scale._replace(outcome="not measured" if is_partial else scale.outcome, detail=detail)


def _why_untold(case: Case, found: KlWeight) -> str:
    """Return why what was measured tells nothing of the KL; '' if it does."""
    # With kl=, unlike weights of tensors are a mistake in any case. Without it, the loss may hold no KL of Gaussians.
    if found.missed and (not case.has_kl or not _differ([t.per_epoch for t in _known(found)])):
        return _unexplained(case, found.missed)
    names = {group.name for group in case.groups if group.may_be_layer}
    weights = {tensor.name: tensor.per_epoch for tensor in found.tensors if tensor.name in names}
    layers = [name for name, weight in weights.items() if is_missing(weight) and 1 - weight.value > 2 * weight.error]
    asked = f"no KL of {'; '.join(layers)} is seen: forgotten, or a layer that makes outputs? give factors="
    return asked if layers else ""


def _why_unseen(case: Case, data: DataWeight | None, has_slopes: bool) -> str:
    """Return why the KL cannot be measured; '' if it can."""
    if not has_slopes:
        why = "the gradient is not the slope of the loss (detached-gradient), so that it does not show the KL"
        return f"{why}; mend that first"
    if not case.has_kl and not case.groups:
        return f"{'; '.join(case.alone.values())}, or kl="
    if not case.has_kl and not case.trained:
        return f"no sigma can be trained, so that the KL's entropy has no gradient; give {case.other_kl}"
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


def _unexplained(case: Case, missed: Mapping[str, float]) -> str:
    """Say which parameter's gradient is least explained by the KL: by kl= if it was given, else by one of Gaussians."""
    worst = max(missed, key=lambda name: missed[name])
    share = f"{missed[worst]:.0%} of {worst}'s gradient, less its data part, is not that of"
    if case.has_kl:
        return f"{share} kl= (Pyro: of the sites): the loss holds another KL, or a further term"
    return (
        f"{share} a KL to a Gaussian around zero: another prior, another sigma than its name says, or a further term; "
        f"give {case.other_kl}"
    )


def _scale_and_sign(case: Case, found: KlWeight, data: DataWeight | None) -> tuple[Seen, Seen]:
    steps = _whole_steps(case, found, data)
    value, error = steps * found.per_epoch.value, steps * found.per_epoch.error
    measured = {"kl_per_epoch": value, "standard error": error}
    detail = f"the KL counts {value:.4g} times in an epoch (standard error {error:.1g})"
    if steps != 1:
        detail += f" of {steps * case.n_train / case.objective.batch_size:.0f} batches"
    if data is None:
        detail += ", if the loss sums the rows' NLL with weight 1 (give nll= to measure that)"
    tensors = _known(found)
    if _differ([t.per_epoch for t in tensors]):
        return _of_tensors(case, found, tensors, data)
    if not math.isfinite(value) or (not found.per_epoch.sure() and abs(abs(value) - 1) < 2 * error + TOLERANCE):
        unsure = Seen("not measured", f"{detail}: too noisy to tell; raise draws=", measured)
        return unsure, unsure
    if is_missing(found.per_epoch):
        sign = Seen("not measured", "no KL is seen, so that it has no sign", measured)
        no_entropy = found.pull is not None and not is_missing(found.pull)
        what = "a prior pulls, but the entropy of the weights, the sum of log sigma," if no_entropy else "it"
        done = "subtract it from" if no_entropy else "add it to"
        return Seen("fails", f"{detail}: {what} is missing; {done} the loss", measured, advised=True), sign
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
    return Seen("fails", f"{detail}: {more}", measured, advised=True), sign


def _known(found: KlWeight) -> list[TensorWeight]:
    """Return the groups whose weight is known well enough to compare. A weight that is surely near 0 is known too."""
    known = [(t, t.per_epoch) for t in found.tensors]
    return [t for t, weight in known if weight.sure() or (is_missing(weight) and weight.error < ALIKE)]


def _whole_steps(case: Case, found: KlWeight, data: DataWeight | None) -> float:
    """Return the number of batches in an epoch as a multiple of N / B.

    A loss that sums its rows and adds KL / len(loader) is an ELBO, also if the last batch is short or dropped. So the
    number is N / B rounded up or down, if that makes the loss an ELBO; else it is N / B, and this returns 1.
    """
    value, error, steps = found.per_epoch.value, found.per_epoch.error, case.n_train / case.objective.batch_size
    if data is not None and abs(data.weight - 1) > TOLERANCE:
        return 1.0
    factors = (1.0, math.ceil(steps) / steps, math.floor(steps) / steps)
    return next((factor for factor in factors if abs(factor * value - 1) <= TOLERANCE + 2 * error), 1.0)


def _of_tensors(
    case: Case, found: KlWeight, tensors: Sequence[TensorWeight], data: DataWeight | None
) -> tuple[Seen, Seen]:
    """Judge weights that differ from group to group."""
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
    scale = Seen("fails", f"{detail}; {advice(ordered, None, _setting(case, data))}", measured, advised=True)
    wrong = [t.name for t in ordered if t.per_epoch.value < 0 and not is_missing(t.per_epoch)]
    turned = f"the KL of {', '.join(wrong)} has the wrong sign"
    return scale, Seen("fails", turned, measured) if wrong else Seen("passes", "no tensor's KL is negative", measured)


def _width(case: Case, found: KlWeight) -> Seen:
    """Judge the prior: of all groups together if they are alike, else group by group."""
    alike = not _differ([t.per_epoch for t in _known(found)])
    if alike and is_missing(found.per_epoch):
        return Seen("not measured", "no KL is seen, and so no prior")
    if found.precision is None:
        return Seen("not measured", "kl= hides the prior; give factors= to measure it")
    # A group without a KL has no prior, and would change the prior that is measured of all groups together.
    every = [(t.name, t.precision) for t in found.tensors if t.precision is not None and not is_missing(t.per_epoch)]
    known = [(name, precision) for name, precision in every if precision.sure(ALIKE) and precision.value > 0]
    if not _differ([precision for _, precision in known]):
        if alike or not every:
            return judge_width(found.precision, found.size, case.prior_std)
        return _worst_width(case, found.size, every)
    stds = {name: _root(precision).value for name, precision in known}
    least, most = (pick(stds, key=lambda name: stds[name]) for pick in (min, max))
    measured = {"least": stds[least], "most": stds[most]}
    detail = (
        f"the prior's standard deviation differs from tensor to tensor, from {stds[least]:.4g} ({least}) to "
        f"{stds[most]:.4g} ({most})"
    )
    if case.prior_std is None:
        return Seen("not measured", detail, measured)
    return Seen("fails", f"{detail}; meant is {case.prior_std:.4g}", measured, advised=True)


def _worst_width(case: Case, size: float, groups: Sequence[tuple[str, MeanOfDraws]]) -> Seen:
    """Judge the prior of each group. Return one that fails, else one that passes; if several do, one with a number."""
    rank = ("fails", "passes", "not measured")
    seen = [(name, judge_width(precision, size, case.prior_std)) for name, precision in groups]
    name, worst = min(seen, key=lambda pair: (rank.index(pair[1].outcome), "prior_std" not in pair[1].measured))
    return worst._replace(detail=f"of {name}: {worst.detail}")


def judge_width(precision: MeanOfDraws, size: float, meant: float | None) -> Seen:
    """Return what the rule on the prior's width sees.

    Args:
        precision: 1 / prior variance, as measured.
        size: root mean square of the weights.
        meant: the standard deviation that the user means the prior to have; None if unknown.
    """
    std = _root(precision)
    if not std.sure(2 * WIDTH_TOLERANCE):
        return _lost_in_noise(precision, size, meant)
    detail = f"the prior's standard deviation is {std.value:.4g} (standard error {std.error:.1g})"
    measured = {"prior_std": std.value, "standard error": std.error}
    if meant is None:
        return Seen("not measured", f"{detail}; give prior_std= to compare", measured)
    if _agrees(std, meant):
        return Seen("passes", detail, measured)
    # The rule's remedy is to take a square root. It fits only if the width is the square of the one that is meant.
    is_square = _agrees(std, meant**2)
    more = f"meant is {meant:.4g}" + (", whose square it is" if is_square else "")
    return Seen("fails", f"{detail}; {more}", measured, advised=not is_square)


def _lost_in_noise(precision: MeanOfDraws, size: float, meant: float | None) -> Seen:
    """Judge a prior whose pull is lost in noise. It may still be surely wider than stated, or than any prior."""
    at_least = (max(precision.value, 0.0) + 3 * precision.error + 1e-300) ** -0.5
    measured = {"at least": at_least}
    if meant is not None and at_least > (1 + WIDTH_TOLERANCE) * meant:
        detail = f"the prior's standard deviation is above {at_least:.3g}; meant is {meant:.4g}"
        return Seen("fails", detail, measured, advised=True)
    if meant is None and at_least > WIDE * size:
        detail = f"the KL pulls the weights to no prior: its standard deviation would be above {at_least:.2g}; "
        return Seen("fails", f"{detail}look for a detached mean", measured, advised=True)
    detail = f"noise hides how the prior pulls the means, its standard deviation is above {at_least:.3g}; raise draws="
    return Seen("not measured", detail, measured)


def _agrees(std: MeanOfDraws, meant: float) -> bool:
    """Return whether a standard deviation may be the one that is meant, given its error."""
    return abs(std.value - meant) <= WIDTH_TOLERANCE * meant + 2 * std.error


def _root(precision: MeanOfDraws) -> MeanOfDraws:
    """Return the standard deviation that belongs to a precision; NaN unless the precision is positive."""
    if not precision.value > 0:
        return MeanOfDraws(math.nan, math.inf)
    std = precision.value**-0.5
    return MeanOfDraws(std, std * precision.error / precision.value / 2, precision.freedom)


def _differ(values: Sequence[MeanOfDraws]) -> bool:
    """Return whether two of the values differ by more than their errors and by more than `ALIKE`."""
    level = 1 - RARE / max(len(values), 1)
    return any(
        abs(one.value - other.value) > one.half_width(level) + other.half_width(level)
        and abs(one.value - other.value) > ALIKE * max(abs(one.value), abs(other.value))
        for one, other in itertools.combinations(values, 2)
    )


def _is_an_epoch(case: Case) -> bool:
    """Return whether the batches are one whole epoch, and each was drawn equally often."""
    n_batches = len(case.objective.batches)
    rows = n_batches * case.objective.batch_size
    return abs(rows - case.n_train) < case.objective.batch_size and case.draws % n_batches == 0


def _setting(case: Case, data: DataWeight | None) -> Setting:
    return Setting(case.n_train, case.objective.batch_size, 1.0 if data is None else data.weight)
