"""How often the KL term counts in an epoch, measured from gradients alone.

A training loss of a batch is a NLL + b KL, with NLL the batch's summed -log p(y | x, w). Over an epoch of M = N / B
steps the data count a times and the KL M b times: M b / a is 1 for an ELBO, M if every batch pays the whole KL.

`a` is the slope of the loss against the NLL between batches under the same noise, where the KL cancels. What a NLL
leaves of the loss's gradient is the KL's. For independent Gaussians with a Gaussian prior that is a sum of two known
directions,

    b grad H + c grad C,    H = -sum log sigma,  C = sum (mu^2 + sigma^2) / 2,  c = b / prior variance

so that least squares gives b and the prior's standard deviation sqrt(b / c) without knowing the prior. A KL that the
loss samples (log q - log p of one draw) has this gradient on average; its noise is averaged over draws. Tensors that
are mostly noise get little weight: each counts by the inverse of its own residual.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.core.errors import ConfigError
from bench.judge.audit.fitting import SURE, Estimate, fit
from bench.judge.audit.likelihood import DataWeight
from bench.judge.audit.objective import Factor, Gradient, Objective

JITTER = 0.8  # of log sigma: where all sigmas are equal, H and C have the same direction
FLATTEST = 0.25  # d log sigma / d raw below which a raw scale is moved no further
FEW = 4  # numbers that mean and sigma of a group need to have beyond which the group is judged alone
ROUNDINGS = 4  # of a gradient's last digit: what may differ between the loss's and the NLL's


@dataclass(frozen=True)
class KlWeight:
    """What an epoch makes of the KL."""

    per_epoch: Estimate  # 1 for an ELBO
    precision: Estimate | None  # 1 / prior variance, as the objective has it; None where kl= hides it
    by_factor: Mapping[str, float]  # the same as per_epoch, for each group of weights alone
    missed: Mapping[str, float]  # share of a tensor's gradient that no KL of Gaussians around zero has
    size: float = math.nan  # root mean square of the weights' means and sigmas


def counts_rows(objective: Objective) -> bool:
    """Return whether the loss grows with the number of rows (a sum) or not (a mean): a batch and twice the same."""
    batch = objective.batches[0]
    twice = tuple(torch.cat([part, part]) if isinstance(part, Tensor) and part.dim() else part for part in batch)
    other = objective.batches[1]
    single, double, third = (float(objective.loss(part, 0).detach()) for part in (batch, twice, other))
    between = abs(third - single)
    return abs(double - single) > between + 1e-6 * abs(single)


def data_free_gradient(objective: Objective, weight: float | None, draw: int) -> Gradient:
    """Return what the data leave of the loss's gradient; without a NLL by setting a batch against twice the same."""
    batch = objective.batches[draw % len(objective.batches)]
    whole = objective.gradient(objective.loss(batch, draw))
    if weight is not None:
        data = objective.gradient(objective.nll(batch, draw))
        return {name: whole[name] - weight * data[name] for name in whole}
    twice = tuple(torch.cat([part, part]) if isinstance(part, Tensor) and part.dim() else part for part in batch)
    doubled = objective.gradient(objective.loss(twice, draw))
    return {name: 2 * whole[name] - doubled[name] for name in whole}


@contextmanager
def apart(objective: Objective, factors: Sequence[Factor]) -> Iterator[None]:
    """Move means and sigmas to where every direction can be told from the others, for a while."""
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


def kl_weight(
    objective: Objective,
    factors: Sequence[Factor],
    kl: Callable[[], Tensor] | None,
    data: DataWeight | None,
    n_train: int,
    draws: int,
) -> KlWeight:
    """Measure the weight of the KL from its gradient; `data` is the NLL's weight, None for a sum taken as it is."""
    weight = None if data is None else data.weight
    per_epoch = n_train / objective.batch_size / (1.0 if weight is None else weight)
    if kl is not None:
        targets = [data_free_gradient(objective, weight, draw) for draw in range(draws)]
        found = fit(targets, [objective.gradient(_tensor(kl()))])
        return KlWeight(_scaled(found.coefficient(0), per_epoch), None, {}, {})
    with apart(objective, factors):
        directions = [_directions(objective, [factor]) for factor in factors]
        columns = _directions(objective, factors)
        targets = [data_free_gradient(objective, weight, draw) for draw in range(draws)]
        doubt = _doubt(objective, data)
        size = _size(factors)
    whole = fit(_only(targets, columns), columns, doubt)
    by_factor: dict[str, float] = {}
    missed: dict[str, float] = {}
    for factor, own in zip(factors, directions, strict=True):
        alone = fit(_only(targets, own), own)
        if sum(int(own[0][name].numel()) for name in alone.targets[0]) > FEW:
            by_factor[factor.name] = per_epoch * alone.coefficient(0).value
            missed |= {name: alone.missed(name, SURE * float(doubt[name].norm())) for name in alone.targets[0]}
    b = _scaled(whole.coefficient(0), per_epoch)
    return KlWeight(b, whole.ratio(1, 0), by_factor, {name: share for name, share in missed.items() if share}, size)


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(factor * estimate.value, abs(factor) * estimate.error)


def _only(targets: Sequence[Gradient], columns: Sequence[Gradient]) -> list[Gradient]:
    """Return the parts of the gradients that the directions touch."""
    names = [name for name in columns[0] if any(bool(column[name].any()) for column in columns)]
    return [{name: target[name] for name in names} for target in targets]


def _doubt(objective: Objective, data: DataWeight | None) -> Gradient:
    """Return the standard error of what the data leave that all draws share: of the NLL's weight, and rounding."""
    batch = objective.batches[0]
    value = objective.loss(batch, 0)
    relative = ROUNDINGS * torch.finfo(value.dtype).eps
    gradient = objective.gradient(value)
    if data is not None and data.weight:
        relative += data.error / abs(data.weight)
    return {name: relative * part for name, part in gradient.items()}


def _directions(objective: Objective, factors: Sequence[Factor]) -> list[Gradient]:
    entropy = -torch.stack([_spread(factor).log().sum() for factor in factors]).sum()
    second = torch.stack([(f.mean().square() + _spread(f).square()).sum() / 2 for f in factors]).sum()
    return [objective.gradient(entropy), objective.gradient(second)]


def _spread(factor: Factor) -> Tensor:
    """Return a sigma for each mean: weights may share one."""
    mean, std = factor.mean(), factor.std()
    try:
        return std.expand_as(mean)
    except RuntimeError as error:
        shapes = f"{tuple(mean.shape)} and {tuple(std.shape)}"
        raise ConfigError(f"mean and std of '{factor.name}' have shapes {shapes}; give a std for each mean") from error


def _size(factors: Sequence[Factor]) -> float:
    values = [part.detach().flatten().double() for f in factors for part in (f.mean(), f.std())]
    return float(torch.cat(values).square().mean().sqrt())


def _tensor(value: object) -> Tensor:
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.reshape(())
    raise ConfigError(f"kl() returned {type(value).__name__}; it must return a tensor of one number")
