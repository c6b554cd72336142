"""The rules on the KL: how often does an epoch count it, with which sign, and how wide is the prior?

`weighing` measures, this file and `prior` judge, and `patterns` says which mistake fits the measured weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from elbo_audit.findings import Advice, FindingOutcome, Seen
from elbo_audit.kl_weight import KlWeight, TensorWeight, is_entropy_turned, is_missing
from elbo_audit.likelihood import DataWeight
from elbo_audit.names import drawn_without_kl
from elbo_audit.no_nll import counts_rows, seen_at_zero
from elbo_audit.objective import Case, NotFinite
from elbo_audit.own_kl import measure_own_kl
from elbo_audit.patterns import ENTROPY, TOLERANCE, Setting, advice, in_words, is_one, known, unlike
from elbo_audit.prior import judge_prior
from elbo_audit.weighing import measure

RULES = ("kl-scale", "kl-sign", "variance-as-std")

NEAR = 0.05  # a KL that counts about M or B times has a well-known cause, though the likelihood's weight is assumed
MEAN = "the loss is a mean over rows, so that the KL's part of it cannot be seen; give nll="
GROWS = "no KL is seen: it is missing, or grows with the rows as KL x len(x) / N does; give nll="
LISTED = 12  # most groups that a line names; of more groups it names only the extremes


def judge(case: Case, data: DataWeight | None, has_slopes: bool) -> dict[str, Seen]:
    """Return what the rules on the KL see; nothing unless `has_slopes`: autograd's gradients are those of the loss."""
    if not case.has_kl and not case.groups and not case.alone:
        detail = "no parameters named as mean and scale; give factors= or kl= if the weights have distributions"
        return dict.fromkeys(RULES, Seen("not applicable", detail))
    hidden = _why_unseen(case, data, has_slopes)
    if hidden:
        return dict.fromkeys(RULES, Seen("not measured", hidden))
    is_sum = data is not None or counts_rows(case.objective)
    try:
        if not is_sum:
            return _at_zero(case, MEAN, is_sum)
        found = measure_own_kl(case, data) if case.has_kl else measure(case, data)
        if data is None and is_missing(found.per_epoch) and not found.missed:
            return _at_zero(case, GROWS, is_sum)
    except NotFinite as error:
        return dict.fromkeys(RULES, Seen("not measured", f"{error}, however short the audit's steps are"))
    if found.is_reverse:
        text = f"another KL: {'kl=' if case.has_kl else 'that of the loss'} is KL(p || q) of prior p and posterior q"
        turned = Seen("fails", f"{text}: swap them; no factor mends it", advised=True, advice=Advice("another KL"))
        return {**dict.fromkeys(RULES, Seen("not measured", f"{text}; mend that first")), "kl-scale": turned}
    if hidden := _why_undetermined(case, found):
        another = case.has_kl and (unlike(found) or not is_one(found.per_epoch))
        seen = Seen("not measured", hidden)
        failed = Seen("fails", f"another KL: {hidden}; no factor mends it", advised=True, advice=Advice("another KL"))
        return {"kl-scale": failed if another else seen, "kl-sign": seen, "variance-as-std": seen}
    scale, sign = _scale_and_sign(case, found, data)
    if scale.outcome == "passes" and data and (names := drawn_without_kl(case, data)):
        text = f"the KL of {'; '.join(names)} is missing: the gradients show mean and sigma of random weights"
        add = dict.fromkeys(names, data.weight * case.objective.batch_size / case.n_train)
        missing = Advice("missing", "KL", {}, add)
        scale = Seen("fails", f"{text} that the data alone move; add it; {scale.detail}", {}, True, missing)
    return dict(zip(RULES, (_with_notes(case, found, scale), sign, judge_prior(case, found)), strict=True))


def _at_zero(case: Case, why: str, is_sum: bool) -> dict[str, Seen]:
    """Judge the KL of the weights that inputs of zero do not reach, where no nll= shows how the data weigh.

    Unless labels show how often the likelihood counts, once is assumed. A right loss may weigh it otherwise, as a mean
    of squares does. So only no KL fails, and one that counts M or B times: it is divided by the wrong one of N, M and
    B, or by none.
    """
    unseen = dict.fromkeys(RULES, Seen("not measured", why))
    if case.has_kl or (part := seen_at_zero(case, is_sum)) is None:
        return unseen
    few, data = part
    found = measure(few, data)
    if found.missed or found.by_batch:
        return unseen
    of = "; ".join(group.name for group in few.trained)
    if data.rest == "labels":
        scale, sign = _scale_and_sign(few, found, data)
        beside = f"beside an NLL that counts {data.weight:.4g} times, as the losses of all labels show"
        scale = scale._replace(detail=f"{scale.detail}, {beside}")
        rules = zip(RULES, (scale, sign, judge_prior(few, found)), strict=True)
        if len(few.trained) == len(case.trained):
            return dict(rules)
        shown = f"seen for inputs of zero, of {of} alone; give nll= for the others"
        unjudged: dict[FindingOutcome, FindingOutcome] = {"passes": "not measured"}
        return {
            rule: seen._replace(outcome=unjudged.get(seen.outcome, seen.outcome), detail=f"{seen.detail}; {shown}")
            for rule, seen in rules
        }
    weight, absent = found.per_epoch, is_missing(found.per_epoch) and bool(found.tensors)
    assumed = f"if the loss {'sums' if is_sum else 'averages'} the rows' NLL"
    shown = f"for inputs of zero, that of {of} counts {in_words(weight)} {assumed}; give nll= to measure it"
    measured = {"of inputs of zero": weight.value}
    seen = unseen | {"kl-scale": Seen("not measured", f"{why.partition(';')[0]}; {shown}", measured)}
    rows = case.objective.batch_size
    is_heavy = any(abs(weight.value / often - 1) < NEAR for often in (case.n_train / rows, rows))  # M or B
    if not absent and not (weight.sure() and is_heavy):
        return seen
    whole = TensorWeight("all", sum(t.n for t in found.tensors), weight, found.precision, found.pull)
    text, what = advice(found.tensors, None if absent else whole, _setting(case, data))
    detail = f"{text}; it has no gradient for inputs of zero" if absent else f"{text}; {shown}"
    return seen | {"kl-scale": Seen("fails", detail, measured, advised=True, advice=what)}


def _with_notes(case: Case, found: KlWeight, scale: Seen) -> Seen:
    """Say how sigma was read, and what was not judged. A scale without its mean leaves the KL not measured."""
    few = f"not judged, for they have few numbers: {', '.join(found.undetermined)}" if found.undetermined else ""
    alone, is_partial = [*case.alone.values()], case.alone and scale.outcome == "passes"
    parts = [*alone, scale.detail, few, found.reading] if is_partial else [scale.detail, few, found.reading, *alone]
    detail = "; ".join(text for text in parts if text)
    return scale._replace(outcome="not measured" if is_partial else scale.outcome, detail=detail)


def _why_undetermined(case: Case, found: KlWeight) -> str:
    """Return why what was measured tells nothing of the KL; '' if it does."""
    if found.missed:
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
        return f"no sigma can be trained, so that the KL's entropy has no gradient; give {case.objective.other_kl}"
    if data is None:
        return ""
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
        return f"{share} kl= (Pyro: of the sites): the loss holds another KL (as of another prior), or a further term"
    return (
        f"{share} a KL to a Gaussian around zero: another prior, another sigma than its name says, or a further term; "
        f"give {case.objective.other_kl}"
    )


def _scale_and_sign(case: Case, found: KlWeight, data: DataWeight | None) -> tuple[Seen, Seen]:
    steps = _whole_steps(case, found, data)
    weight = found.per_epoch.times(steps)
    value, error = weight.value, weight.error
    measured = {"kl_per_epoch": value, "standard error": error}
    detail = f"the KL counts {in_words(weight)}"
    detail += _assumed(case, steps, data)
    tensors = known(found)
    if unlike(found):
        return _of_tensors(case, found, tensors, data)
    if not math.isfinite(value) or (not found.per_epoch.sure() and abs(abs(value) - 1) < 2 * error + TOLERANCE):
        other = "" if case.has_kl else f"give {case.objective.other_kl} if the prior is no Gaussian around zero, else "
        unsure = Seen("not measured", f"{detail}: too noisy to tell; {other}raise draws=", measured)
        return unsure, unsure
    absent = is_missing(weight)
    sign = Seen("passes", "the KL is positive", {})
    if value < 0:
        turned = Advice("sign", "KL", {"all": -1.0})
        sign = Seen("fails", "the KL is subtracted, so that training moves away from the prior", {}, advice=turned)
        if is_entropy_turned(found):
            text = f"{ENTROPY} is added to the loss, and the prior pulls as it should: turn the entropy's sign"
            sign = Seen("fails", text, {}, advised=True, advice=turned._replace(part="entropy"))
    if absent:
        sign = Seen("not measured", "no KL is seen, so that it has no sign", measured)
    elif found.by_batch and not _is_an_epoch(case):
        each = ", ".join(f"{steps * weight:.3g}" for weight in found.by_batch[:LISTED])
        why = (
            f"the KL's weight differs from batch to batch ({each}); give the batches of one whole epoch, and a "
            "multiple of their number as draws=, or hold the weight still"
        )
        return Seen("not measured", why, {}), sign
    measured |= {f"of {tensor.name}": steps * tensor.per_epoch.value for tensor in found.tensors}
    if abs(abs(value) - 1) <= TOLERANCE + 2 * error:
        return Seen("passes", detail, measured), sign
    whole = TensorWeight("all", sum(tensor.n for tensor in tensors), weight, found.precision, found.pull)
    text, what = advice(tensors or found.tensors, whole, _setting(case, data))
    shown = text if what.part == "entropy" else f"{text}; {detail}"
    return Seen("fails", shown, measured, advised=True, advice=what), sign


def _assumed(case: Case, steps: float, data: DataWeight | None) -> str:
    """Say which number of batches an epoch is taken to have, and what else is taken for granted."""
    exact, given = case.n_train / case.objective.batch_size, case.n_batches
    parts = [] if data is not None else ["that the loss sums the rows' NLL with weight 1 (give nll= to measure that)"]
    if not given and exact != round(exact) and not _by_rows(case, data):
        number = f"{steps * exact:.0f} batches in an epoch, a short last one {'kept' if steps > 1 else 'dropped'}"
        number = number if steps != 1 else f"that an epoch has N / B = {exact:.6g} batches"
        parts.append(f"{number} (n_batches= says how many)")
    return f", assuming {' and '.join(parts)}" if parts else ""


def _whole_steps(case: Case, found: KlWeight, data: DataWeight | None) -> float:
    """Return the number of batches in an epoch as a multiple of N / B; 1 unless rounding makes the loss an ELBO.

    A sum over rows + KL / len(loader) is an ELBO, also if the last batch is short or dropped.
    """
    exact = case.n_train / case.objective.batch_size
    if _by_rows(case, data):
        return 1.0
    if case.n_batches:
        return case.n_batches / exact
    factors = (1.0, math.ceil(exact) / exact, math.floor(exact) / exact)
    return next((factor for factor in factors if is_one(found.per_epoch.times(factor))), 1.0)


def _by_rows(case: Case, data: DataWeight | None) -> bool:
    """Return whether the loss is a mean over the rows of a batch, or N times it, whose KL no number of steps moves."""
    if data is None:
        return False
    rows = data.weight * case.objective.batch_size
    return any(abs(rows / other - 1) <= TOLERANCE for other in (1, case.n_train))


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
    text, what = advice(ordered, None, _setting(case, data))
    scale = Seen("fails", f"{text}; {detail}", measured, advised=True, advice=what)
    wrong = [t.name for t in ordered if t.per_epoch.value < 0 and not is_missing(t.per_epoch)]
    turned = Advice("sign", "KL", dict.fromkeys(wrong, -1.0))
    sign = Seen("fails", f"the KL of {', '.join(wrong)} has the wrong sign", measured, advice=turned)
    return scale, sign if wrong else Seen("passes", "no tensor's KL is negative", measured)


def _is_an_epoch(case: Case) -> bool:
    """Return whether the batches are one whole epoch, and each was drawn equally often."""
    n_batches = len(case.objective.batches)
    rows = n_batches * case.objective.batch_size
    return abs(rows - case.n_train) < case.objective.batch_size and case.draws % n_batches == 0


def _setting(case: Case, data: DataWeight | None) -> Setting:
    reference = 1.0 if case.has_kl else None if case.prior_std is None else case.prior_std**-2
    weight = 1.0 if data is None else data.weight
    of = case.objective
    return Setting(case.n_train, of.batch_size, weight, case.n_batches or 0.0, reference, of.plates)
