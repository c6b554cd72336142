"""How often does the KL term count in an epoch, and with which sign? Measured from gradients alone.

A training loss of a batch is a NLL + b KL, with NLL the batch's summed -log p(y | x, w). Over an epoch of M = N / B
steps the data count a times and the KL M b times: M b / a is 1 for an ELBO, M if every batch pays the whole KL.

`a` is the slope of the loss against the NLL between batches under the same noise, where the KL cancels. Subtract a
times the NLL's gradient from the loss's, and the KL's gradient is left. For independent Gaussians with a Gaussian prior
it is a sum of two known directions,

    b grad H + c grad C,    H = -sum log sigma,  C = sum (mu^2 + sigma^2) / 2,  c = b / prior variance

so that least squares gives b and the prior's standard deviation sqrt(b / c) without knowing the prior. A KL that the
loss samples (log q - log p of one draw) has this gradient on average; the audit averages its noise over draws. Each
tensor weighs by the inverse of its own residual, so that a noisy tensor weighs little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.core.errors import ConfigError
from bench.judge.audit.elbo import prior
from bench.judge.audit.elbo.least_squares import SURE, MeanOfDraws, fit
from bench.judge.audit.elbo.likelihood import DataWeight
from bench.judge.audit.elbo.objective import AuditedObjective, Batch, Case, Factor, Gradient
from bench.judge.audit.findings import Seen

RULES = ("kl-scale", "kl-sign", "variance-as-std")

TOLERANCE = 0.05  # of the KL's weight
OMITTED = 0.5  # a group of weights is left out if its own KL counts less than this share of the whole
MISSING = 1e-4  # of a KL an epoch: float32's rounding alone may show this much

JITTER = 0.8  # of log sigma: where all sigmas are equal, H and C have the same direction
FLATTEST = 0.25  # d log sigma / d raw; a flatter raw scale is moved as if it were this
FEW = 4  # a group is judged alone if mean and sigma have more numbers than this
ROUNDINGS = 4  # of a gradient's last digit: how far rounding may move the loss's gradient from the NLL's


@dataclass(frozen=True)
class KlWeight:
    """How often the KL counts in an epoch, and what is known of the prior under it."""

    per_epoch: MeanOfDraws  # 1 for an ELBO
    precision: MeanOfDraws | None  # 1 / prior variance, as the objective has it; None where kl= hides it
    by_factor: Mapping[str, float]  # the same as per_epoch, for each group of weights alone
    missed: Mapping[str, float]  # share of a tensor's gradient that no KL of Gaussians around zero explains
    size: float = math.nan  # root mean square of the weights' means and sigmas

    @property
    def missing(self) -> bool:
        """Return whether no KL is seen."""
        return abs(self.per_epoch.value) <= max(2 * self.per_epoch.error, MISSING)


def judge(case: Case, data: DataWeight | None) -> dict[str, Seen]:
    """Return what the rules on the KL see; `data` is None where no NLL was given."""
    if case.kl is None and not case.groups and not case.lone_means:
        detail = "no parameters named as mean and scale; give factors= or kl= if the weights have distributions"
        return dict.fromkeys(RULES, Seen("not applicable", detail))
    hidden = _why_unseen(case, data)
    if hidden:
        return dict.fromkeys(RULES, Seen("not measured", hidden))
    found = measure(case, data)
    if found.missed:
        worst = max(found.missed, key=lambda name: found.missed[name])
        detail = (
            f"{found.missed[worst]:.0%} of {worst}'s gradient, less its data part, is not that of a KL to a Gaussian "
            "around zero: another prior, another sigma than its name says, or a further term; give kl=, or factors="
        )
        return dict.fromkeys(RULES, Seen("not measured", detail))
    scale, sign = _scale_and_sign(found, assumed=data is None)
    if found.missing or found.precision is None:
        why = "no KL is seen, and so no prior" if found.missing else "kl= hides the prior; give factors= to measure it"
        width = Seen("not measured", why)
    else:
        width = prior.judge(found.precision, found.size, case.prior_std)
    return dict(zip(RULES, (scale, sign, width), strict=True))


def _why_unseen(case: Case, data: DataWeight | None) -> str:
    """Return why the KL cannot be seen, or nothing."""
    if case.kl is None and not case.groups:
        return f"{', '.join(case.lone_means)} has no partner such as rho that can be trained; give factors= or kl="
    if case.kl is None and not case.trained:
        return "no sigma can be trained, so that the KL's entropy has no gradient; give kl="
    if data is None:
        mean = "the loss is a mean over rows, so that the KL's part of it cannot be seen; give nll="
        return "" if _counts_rows(case.objective) else mean
    if data.rest == "other noise":
        return "nll= draws other noise than the loss, so that it cannot be subtracted from the loss"
    if data.rest == "rounding":
        return "rounding of the loss hides the likelihood; audit in float64"
    return f"the likelihood's weight is {data.weight:.3g}; mend that first" if data.weight <= 0 else ""


def _scale_and_sign(found: KlWeight, assumed: bool) -> tuple[Seen, Seen]:
    value, error = found.per_epoch.value, found.per_epoch.error
    measured = {"kl_per_epoch": value, "standard error": error}
    detail = f"the KL counts {value:.4g} times in an epoch (standard error {error:.1g})"
    if assumed:
        detail += ", if the loss sums the rows' NLL with weight 1 (give nll= to measure that)"
    if not math.isfinite(value) or (not found.per_epoch.sure() and abs(abs(value) - 1) < 2 * error + TOLERANCE):
        unsure = Seen("not measured", f"{detail}: too noisy to tell; raise draws=", measured)
        return unsure, unsure
    if found.missing:
        sign = Seen("not measured", "no KL is seen, so that it has no sign", measured)
        return Seen("fails", f"{detail}: it is missing; add it to the loss", measured), sign
    sign = Seen("fails" if value < 0 else "passes", detail, measured)
    omitted = {name: v for name, v in found.by_factor.items() if v < OMITTED * value}
    if omitted and value > 0:
        listed = ", ".join(f"{name} {v:.3g}" for name, v in omitted.items())
        return Seen("fails", f"{detail}; not in all groups alike: {listed}", measured), sign
    right = abs(abs(value) - 1) <= TOLERANCE + 2 * error
    return Seen("passes" if right else "fails", detail, measured), sign


def measure(case: Case, data: DataWeight | None) -> KlWeight:
    """Measure the weight of the KL from its gradient; without `data` the loss is a sum with one NLL in it."""
    objective, factors, draws = case.objective, case.trained, range(case.draws)
    weight = None if data is None else data.weight
    per_epoch = case.n_train / objective.batch_size / (1.0 if weight is None else weight)
    if case.kl is not None:
        targets = [_without_data(objective, weight, draw) for draw in draws]
        found = fit(targets, [objective.gradient(_number(case.kl()))])
        return KlWeight(found.coefficient(0).times(per_epoch), None, {}, {})
    with _apart(objective, factors):
        directions = [_directions(objective, [factor]) for factor in factors]
        columns = _directions(objective, factors)
        targets = [_without_data(objective, weight, draw) for draw in draws]
        doubt = _shared_error(objective, data)
        size = _size(factors)
    whole = fit(_only(targets, columns), columns, doubt)
    by_factor: dict[str, float] = {}
    missed: dict[str, float] = {}
    for factor, own in zip(factors, directions, strict=True):
        alone = fit(_only(targets, own), own)
        if sum(int(own[0][name].numel()) for name in alone.targets[0]) > FEW:
            by_factor[factor.name] = per_epoch * alone.coefficient(0).value
            missed |= {name: alone.missed(name, SURE * float(doubt[name].norm())) for name in alone.targets[0]}
    counts, precision = whole.coefficient(0).times(per_epoch), whole.ratio(1, 0)
    return KlWeight(counts, precision, by_factor, {name: share for name, share in missed.items() if share}, size)


def _counts_rows(objective: AuditedObjective) -> bool:
    """Return whether the loss grows with the number of rows (a sum) or not (a mean)."""
    batch, other = objective.batches[:2]
    single, double, third = (float(objective.loss(rows, 0).detach()) for rows in (batch, _twice(batch), other))
    return abs(double - single) > abs(third - single) + 1e-6 * abs(single)


def _twice(batch: Batch) -> Batch:
    return tuple(torch.cat([part, part]) if isinstance(part, Tensor) and part.dim() else part for part in batch)


def _without_data(objective: AuditedObjective, weight: float | None, draw: int) -> Gradient:
    """Return the loss's gradient less that of its data part.

    Without a NLL it compares a batch with twice the same batch: only the data part doubles.
    """
    batch = objective.batches[draw % len(objective.batches)]
    whole = objective.gradient(objective.loss(batch, draw))
    if weight is not None:
        data = objective.gradient(objective.nll(batch, draw))
        return {name: whole[name] - weight * data[name] for name in whole}
    doubled = objective.gradient(objective.loss(_twice(batch), draw))
    return {name: 2 * whole[name] - doubled[name] for name in whole}


@contextmanager
def _apart(objective: AuditedObjective, factors: Sequence[Factor]) -> Iterator[None]:
    """Move means and sigmas, for a while, to where each direction can be told from the others."""
    source = torch.Generator().manual_seed(0)
    shifts: dict[str, Tensor] = {}
    for factor in factors:
        by_std = objective.gradient(factor.std().log().sum())
        by_mean = objective.gradient(factor.mean().sum())
        n_std = factor.std().numel()
        size = max(float(factor.mean().detach().std(correction=0)), float(factor.std().detach().mean()))
        for name, value in objective.parameters.items():
            slope = by_std[name].abs() * value.numel() / n_std  # of log sigma: a raw scale may be sigma, or a scalar
            reach = torch.where(slope > 0, JITTER / slope.clamp(min=FLATTEST), size * (by_mean[name] != 0))
            if bool(reach.any()):
                shifts[name] = reach * (torch.rand(value.shape, generator=source, dtype=torch.float64) * 2 - 1)
    with objective.moved(shifts):
        yield


def _only(targets: Sequence[Gradient], columns: Sequence[Gradient]) -> list[Gradient]:
    """Return the parts of the gradients that the directions touch."""
    names = [name for name in columns[0] if any(bool(column[name].any()) for column in columns)]
    return [{name: target[name] for name in names} for target in targets]


def _shared_error(objective: AuditedObjective, data: DataWeight | None) -> Gradient:
    """Return the standard error that all draws share: that of the NLL's weight, and rounding."""
    value = objective.loss(objective.batches[0], 0)
    relative = ROUNDINGS * torch.finfo(value.dtype).eps
    if data is not None and data.weight:
        relative += data.error / abs(data.weight)
    return {name: relative * part for name, part in objective.gradient(value).items()}


def _directions(objective: AuditedObjective, factors: Sequence[Factor]) -> list[Gradient]:
    """Return the gradients of H and C."""
    entropy = -torch.stack([factor.spread().log().sum() for factor in factors]).sum()
    second = torch.stack([(f.mean().square() + f.spread().square()).sum() / 2 for f in factors]).sum()
    return [objective.gradient(entropy), objective.gradient(second)]


def _size(factors: Sequence[Factor]) -> float:
    values = [part.detach().flatten().double() for f in factors for part in (f.mean(), f.std())]
    return float(torch.cat(values).square().mean().sqrt())


def _number(value: object) -> Tensor:
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.reshape(())
    raise ConfigError(f"kl() returned {type(value).__name__}; it must return a tensor of one number")
