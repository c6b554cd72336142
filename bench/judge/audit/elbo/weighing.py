"""How often does each tensor's KL count in an epoch? Measured from gradients alone.

A training loss of a batch is a NLL + b KL, with NLL the batch's summed -log p(y | x, w). Over an epoch of M = N / B
steps the data count a times and the KL M b times: M b / a is 1 for an ELBO, M if every batch pays the whole KL.

`a` is the slope of the loss against the NLL between batches under the same noise, where the KL cancels. Subtract a
times the NLL's gradient from the loss's, and the KL's gradient is left. For independent Gaussians with a Gaussian prior
it is a sum of two known directions,

    b grad H + c grad C,    H = -sum log sigma,  C = sum (mu^2 + sigma^2) / 2,  c = b / prior variance

so that least squares gives b and the prior's standard deviation sqrt(b / c) without knowing the prior. Each group of
weights is fitted alone, and all together. A KL that the loss samples (log q - log p of one draw) has this gradient on
average; the audit averages its noise over draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.core.errors import ConfigError
from bench.core.streams import own_noise, stream_seed
from bench.judge.audit.elbo.least_squares import SURE, GradientFit, MeanOfDraws, fit, fit_drawn
from bench.judge.audit.elbo.likelihood import DataWeight
from bench.judge.audit.elbo.objective import (
    AuditedObjective,
    Batch,
    Case,
    Factor,
    Gradient,
    NotFinite,
    start_noise,
)

MISSING = 1e-4  # of a KL an epoch: float32's rounding alone may show this much
CHANGES = 0.05  # of the KL's weight: how far it may differ between batches
JITTER = 0.8  # of log sigma: where all sigmas are equal, H and C have the same direction
FLATTEST = 0.25  # d log sigma / d raw; a flatter raw scale is moved as if it were this
FEW = 4  # a group is judged alone if mean and sigma have more numbers: fewer fit any KL, not only one of Gaussians
NUMBERS = 250
"""Weights times draws of the smallest group. The noise of a weight is at most as skewed as the square of a normal.
Skewness shortens the intervals from Student's t in proportion to 1 / m for the mean of m such squares (Hall, The
Bootstrap and Edgeworth Expansion, 1992, chapter 2): simulated, those of 95 % cover 91.3 % for m = 24, in 8 draws, and
94.5 % for m = 252."""
ROUNDINGS = 4  # of a gradient's last digit: how far rounding may move the loss's gradient from the NLL's


@dataclass(frozen=True)
class TensorWeight:
    """How often the KL of one group of weights counts in an epoch, measured from this group alone."""

    name: str
    n: int  # number of weights
    per_epoch: MeanOfDraws
    precision: MeanOfDraws | None = None  # 1 / prior variance; None where kl= hides it


@dataclass(frozen=True)
class KlWeight:
    """How often the KL counts in an epoch, and what is known of the prior under it."""

    per_epoch: MeanOfDraws  # of all groups together, as if they weighed alike; 1 for an ELBO
    precision: MeanOfDraws | None  # 1 / prior variance, as the objective has it; None where kl= hides it
    tensors: Sequence[TensorWeight]
    missed: dict[str, float]  # share of a tensor's gradient that kl= (else: a KL of Gaussians around zero) leaves over
    by_batch: Sequence[float] = ()  # the weight in each batch, where it surely changes from batch to batch
    size: float = math.nan  # root mean square of the weights' means and sigmas
    pull: MeanOfDraws | None = None  # the KL's weight / prior variance


def is_missing(weight: MeanOfDraws) -> bool:
    """Return whether no KL is seen."""
    return abs(weight.value) <= max(2 * weight.error, MISSING)


def measure(case: Case, data: DataWeight | None) -> KlWeight:
    """Measure the weight of the KL from its gradient; without `data` the loss is a sum with one NLL in it."""
    if case.kl is not None:
        return _by_own_kl(case, data, case.kl)
    objective, factors = case.objective, case.trained
    return objective.seen_near(_shifts(objective, factors), lambda: _by_directions(case, data))


def _by_directions(case: Case, data: DataWeight | None) -> KlWeight:
    """Measure from H and C of the groups, where each direction can be told from the others."""
    objective, factors = case.objective, case.trained
    doubt, scale = _shared_error(objective, data), _epoch(case, data)
    groups = [(group, _directions(objective, group)) for group in _apart(objective, factors)]
    groups = [(group, own) for group, own in groups if _count(own) > FEW]
    fewest = min((_n_weights(group) for group, _ in groups), default=NUMBERS)
    targets = _targets(case, data, doubt, fewest)
    tensors: list[TensorWeight] = []
    judged: list[Factor] = []
    missed: dict[str, float] = {}
    for group, own in groups:
        alone = fit(_only(targets, own), own, doubt)
        judged += group
        n = _n_weights(group)
        name = "; ".join(factor.name for factor in group)
        tensors.append(TensorWeight(name, n, alone.coefficient(0).times(scale), alone.ratio(1, 0)))
        missed |= {name: alone.missed(name, SURE * float(doubt[name].norm())) for name in alone.targets[0]}
    columns = _directions(objective, judged or factors)
    seen = _only(targets, columns)
    whole = fit(seen, columns, doubt)
    # Each group has a C of its own: under one C for all, priors of unlike widths would move the weight.
    apart = [columns[0], *([own[1] for _, own in groups] or columns[1:])]
    counts, by_batch = _over_batches(fit(seen, apart, doubt), scale, len(objective.batches))
    missed = {name: share for name, share in missed.items() if share}
    pull = whole.coefficient(1).times(scale)
    return KlWeight(counts, whole.ratio(1, 0), tensors, missed, by_batch, _size(factors), pull)


def _by_own_kl(case: Case, data: DataWeight | None, kl: Callable[[], Tensor]) -> KlWeight:
    """Measure against the gradient of the user's KL, tensor by tensor where it does not change from draw to draw."""
    objective = case.objective
    directions = [_own_direction(objective, kl, draw) for draw in range(2)]
    doubt = _shared_error(objective, data)
    targets, scale = _targets(case, data, doubt, NUMBERS), _epoch(case, data)
    tensors: list[TensorWeight] = []
    if any(not torch.equal(part, directions[1][name]) for name, part in directions[0].items()):
        drawn = fit_drawn(targets, [_own_direction(objective, kl, draw) for draw in range(len(targets))])
        counts, by_batch = _over_batches(drawn, scale, len(objective.batches))
        return KlWeight(counts, None, [], {}, by_batch)
    missed: dict[str, float] = {}
    for name, part in directions[0].items():
        if bool(part.any()):
            alone = fit([{name: target[name]} for target in targets], [directions[0]], doubt)
            tensors.append(TensorWeight(name, part.numel(), alone.coefficient(0).times(scale)))
            missed[name] = alone.missed(name, SURE * float(doubt[name].norm()))
    counts, by_batch = _over_batches(fit(targets, directions[:1], doubt), scale, len(objective.batches))
    missed = {name: share for name, share in missed.items() if share}
    return KlWeight(counts, None, tensors, missed, by_batch)


def _own_direction(objective: AuditedObjective, kl: Callable[[], Tensor], draw: int) -> Gradient:
    """Return the gradient of the user's KL, with the noise that the loss of this draw has."""
    with own_noise(), torch.enable_grad():
        start_noise(stream_seed(draw, "audit"))
        return objective.gradient(_number(kl()))


def _epoch(case: Case, data: DataWeight | None) -> float:
    """Return the weight in an epoch, relative to the data's, of a coefficient of 1 in a step."""
    return case.n_train / case.objective.batch_size / (1.0 if data is None else data.weight)


def _targets(case: Case, data: DataWeight | None, doubt: Gradient, n_weights: int) -> list[Gradient]:
    """Return the KL's gradient in each draw; more draws than `case.draws` if noise shows and a group has few weights.

    Args:
        case: what is audited.
        data: the NLL's weight.
        doubt: the error that all draws share, and rounding.
        n_weights: weights of the smallest group.
    """
    weight = None if data is None else data.weight
    found = [_without_data(case.objective, weight, draw) for draw in range(case.draws)]
    n_batches = len(case.objective.batches)
    more = math.ceil(NUMBERS / n_weights) - case.draws
    if more <= 0 or not _is_noisy(found[::n_batches], doubt):
        return found
    more = n_batches * math.ceil(more / n_batches)  # each batch as often as the others
    return found + [_without_data(case.objective, weight, draw) for draw in range(case.draws, case.draws + more)]


def _is_noisy(draws: Sequence[Gradient], doubt: Gradient) -> bool:
    """Return whether the gradient of one batch differs from draw to draw by more than rounding."""
    first = draws[0]
    return any(
        float((draw[name] - first[name]).norm()) > SURE * float(doubt[name].norm())
        for draw in draws[1:]
        for name in first
    )


def _over_batches(found: GradientFit, scale: float, n_batches: int) -> tuple[MeanOfDraws, Sequence[float]]:
    """Return the weight in an epoch. Return each batch's weight too, if batches differ by more than noise.

    If they differ, the error is that of the draws within the batches.
    """
    weight = found.coefficient(0).times(scale)
    draws = (found.draws[:, 0] * scale).tolist()
    groups = [draws[index::n_batches] for index in range(n_batches) if draws[index::n_batches]]
    freedom = len(draws) - len(groups)
    if freedom < 1 or not all(map(math.isfinite, draws)):
        return weight, ()
    means = [sum(group) / len(group) for group in groups]
    within = sum((value - mean) ** 2 for group, mean in zip(groups, means, strict=True) for value in group) / freedom
    critical = MeanOfDraws(0.0, math.sqrt(within), freedom).half_width(1 - 0.001 / len(groups))
    middle = sum(means) / len(means)
    gap = max(abs(mean - middle) for mean in means)
    if gap <= critical or gap <= CHANGES * abs(middle):
        return weight, ()
    error = math.sqrt(within * sum(1 / len(group) for group in groups)) / len(groups)
    return MeanOfDraws(middle, error, freedom).plus_error(found.doubt[0] * scale), means


def _apart(objective: AuditedObjective, factors: Sequence[Factor]) -> list[list[Factor]]:
    """Group the factors so that no parameter is in two groups: a shared sigma sees the KL of all its weights."""
    groups: list[tuple[list[Factor], set[str]]] = []
    for factor in factors:
        paths = objective.paths(factor.mean().sum()) | objective.paths(factor.std().log().sum())
        touching = [group for group in groups if group[1] & paths]
        merged = ([f for group in touching for f in group[0]] + [factor], paths.union(*(g[1] for g in touching)))
        groups = [group for group in groups if group not in touching] + [merged]
    return [group for group, _ in groups]


def counts_rows(objective: AuditedObjective) -> bool:
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
        return _finite({name: whole[name] - weight * data[name] for name in whole})
    doubled = objective.gradient(objective.loss(_twice(batch), draw))
    return _finite({name: 2 * whole[name] - doubled[name] for name in whole})


def _finite(gradient: Gradient) -> Gradient:
    for name, part in gradient.items():
        if not bool(part.isfinite().all()):
            raise NotFinite(f"the gradient of {name} is not finite near the given parameters")
    return gradient


def _shifts(objective: AuditedObjective, factors: Sequence[Factor]) -> dict[str, Tensor]:
    """Return how to move means and sigmas to where each direction can be told from the others."""
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
    return shifts


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


def _n_weights(factors: Sequence[Factor]) -> int:
    return sum(int(factor.mean().numel()) for factor in factors)


def _count(columns: Sequence[Gradient]) -> int:
    """Return how many numbers of the parameters the directions touch."""
    return sum(int(part.numel()) for part in _only(columns, columns)[0].values())


def _size(factors: Sequence[Factor]) -> float:
    values = [part.detach().flatten().double() for f in factors for part in (f.mean(), f.std())]
    return float(torch.cat(values).square().mean().sqrt())


def _number(value: object) -> Tensor:
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.reshape(())
    raise ConfigError(f"kl() returned {type(value).__name__}; it must return a tensor of one number")
