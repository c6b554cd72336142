"""What the measurements on an objective say: the rules on the likelihood, and on detached and unused parameters."""

from __future__ import annotations

from bench.judge.audit import reach, slopes
from bench.judge.audit.case import Case
from bench.judge.audit.findings import Finding
from bench.judge.audit.kl_judging import judge_kl
from bench.judge.audit.likelihood import DataWeight, data_weight

LIKE_THE_LOSS = "give an nll= that draws like the loss: the same calls in the same order, as many draws a step"


def judge(case: Case) -> tuple[list[Finding], dict[str, float]]:
    """Return what the rules on objectives find, and the numbers measured on the way."""
    numbers: dict[str, float] = {}
    data = data_weight(case.objective, case.draws) if case.objective.has_nll else None
    if data is not None:
        numbers["data_weight"] = data.weight
    found = [_likelihood(data, case.subject), *judge_kl(case, data, numbers)]
    usable = data is not None and data.rest not in ("other noise", "rounding")
    found += [_detached(case, data.weight if data is not None and usable else None), _unused(case)]
    return found, numbers


def _likelihood(data: DataWeight | None, subject: str) -> Finding:
    rule = "wrong-likelihood"
    if data is None:
        return Finding(rule, subject, "not measured", "give nll= to compare the loss with the likelihood")
    detail = f"the loss counts the batch's summed NLL {data.weight:.4g} times"
    rest = f"{data.misfit:.1%} of its range over batches is something else"
    measured = {"weight": data.weight, "misfit": data.misfit}
    if data.rest == "other noise":
        detail += f" and {rest}, which may be noise: {LIKE_THE_LOSS}; or raise draws="
        return Finding(rule, subject, "not measured", detail, measured)
    if data.rest == "rounding":
        detail = "what differs between the batches is lost in the loss's rounding; audit in float64"
        return Finding(rule, subject, "not measured", detail, measured)
    if data.weight == 0:
        detail = "the loss is the same for every batch: it holds no likelihood"
    elif data.weight < 0:
        detail += ": minimising it makes the data less likely (nll= is -log p, and the loss adds it)"
    if data.weight <= 0:
        return Finding(rule, subject, "fails", detail, measured)
    if data.rest == "other likelihood":
        return Finding(rule, subject, "fails", f"{detail}, but {rest}", measured)
    return Finding(rule, subject, "passes", f"{detail}; {rest}", measured)


def _detached(case: Case, weight: float | None) -> Finding:
    rule = "detached-gradient"
    found = slopes.slopes(case.objective)
    bad = {slope.name: slope for slope in found if slope.differs}
    unresolved = [slope.name for slope in found if slope.loss is None]
    if weight is not None:  # what the data would drown: the slope of the KL part alone
        bad |= {slope.name: slope for slope in slopes.slopes(case.objective, weight) if slope.differs}
    if bad:
        shown = ", ".join(f"{s.name} (autograd {s.autograd:.3g}, loss {s.loss:.3g})" for s in bad.values())
        return Finding(rule, case.subject, "fails", f"the slope is not autograd's along {shown}", {"tensors": len(bad)})
    if len(unresolved) == len(found):
        return Finding(rule, case.subject, "not measured", "no slope stands out from rounding; audit in float64")
    detail = f"the loss's slope is autograd's along {len(found) - len(unresolved)} of {len(found)} parameter tensors"
    if unresolved:
        detail += f" (lost in rounding: {', '.join(unresolved)})"
    return Finding(rule, case.subject, "passes", detail, {"tensors": 0})


def _unused(case: Case) -> Finding:
    rule = "unused-layer"
    unreached = reach.unreached(case.objective)
    prior = reach.of_the_prior(case.objective, unreached, case.groups)
    names = [name for name in unreached if name not in prior]
    if names:
        detail = f"the gradient is the same whatever the batch for {', '.join(names)}"
        return Finding(rule, case.subject, "fails", detail, {"tensors": len(names)})
    detail = f"the data reach all {len(case.objective.parameters) - len(prior)} parameter tensors"
    if prior:
        detail += f" but {', '.join(prior)}, whose gradient other parameters move: a prior's, or not reached yet"
    return Finding(rule, case.subject, "passes", detail, {"tensors": 0})
