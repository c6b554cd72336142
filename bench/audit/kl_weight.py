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
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.audit.objective import Factor, Gradient, Objective

JITTER = 0.5  # of raw scales: where all sigmas are equal, H and C have the same direction
REWEIGHTED = 4  # rounds of least squares
EXACT = 0.1  # residuals below this share of the fit weigh alike
PROPORTIONAL = 0.02  # of the losses' range between batches: what may be left of it beside the NLL


@dataclass(frozen=True)
class Estimate:
    """A mean over draws and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Return the mean of draws."""
        if not all(map(math.isfinite, values)):
            return cls(math.nan, math.inf)
        spread = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf
        return cls(statistics.fmean(values), spread)

    def sure(self, relative: float = 0.1) -> bool:
        """Return whether the error is small beside the value."""
        return math.isfinite(self.value) and 2 * self.error <= relative * abs(self.value)


@dataclass(frozen=True)
class DataWeight:
    """The weight `a` of the NLL in the loss, and how far the loss is from a NLL + constant between batches."""

    weight: float
    misfit: float  # the part of the range of losses that the NLL does not explain


@dataclass(frozen=True)
class KlWeight:
    """What an epoch makes of the KL."""

    per_epoch: Estimate  # 1 for an ELBO
    prior_std: Estimate | None  # as the objective has it; None where it was not asked for
    by_factor: Mapping[str, float]  # the same, for each group of weights alone


def data_weight(objective: Objective, draws: int) -> DataWeight:
    """Measure `a`; needs the NLL."""
    pairs = [
        [(float(objective.loss(b, draw).detach()), float(objective.nll(b, draw).detach())) for b in objective.batches]
        for draw in range(draws)
    ]
    table = torch.tensor(pairs, dtype=torch.float64)  # [draws, batches, 2]
    table = table - table.mean(dim=1, keepdim=True)
    losses, nlls = table[..., 0].flatten(), table[..., 1].flatten()
    weight = float(losses @ nlls / (nlls @ nlls).clamp(min=1e-300))
    misfit = float((losses - weight * nlls).norm() / losses.norm().clamp(min=1e-300))
    return DataWeight(weight, misfit)


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
    shifts = {}
    for factor in factors:
        by_std = objective.gradient(factor.std().sum())
        by_mean = objective.gradient(factor.mean().sum())
        size = max(float(factor.mean().detach().std(correction=0)), float(factor.std().detach().mean()))
        for name, value in objective.parameters.items():
            normal = torch.rand(value.shape, generator=source, dtype=torch.float64) * 2 - 1
            if bool(by_std[name].any()):
                shifts[name] = JITTER * normal
            elif bool(by_mean[name].any()):
                shifts[name] = 0.5 * size * normal
    with objective.moved(shifts):
        yield


def kl_weight(
    objective: Objective,
    factors: Sequence[Factor],
    kl: Callable[[], Tensor] | None,
    weight: float | None,
    n_train: int,
    draws: int,
) -> KlWeight:
    """Measure the weight of the KL from its gradient; `weight` is that of the NLL, None for a sum taken as it is."""
    per_epoch = n_train / objective.batch_size / (1.0 if weight is None else weight)
    if kl is not None:
        columns = [objective.gradient(kl())]
        found = [_fit(data_free_gradient(objective, weight, draw), columns)[0] for draw in range(draws)]
        return KlWeight(Estimate.of([per_epoch * b for b in found]), None, {})
    with apart(objective, factors):
        directions = [_directions(objective, [factor]) for factor in factors]
        columns = _directions(objective, factors)
        targets = [data_free_gradient(objective, weight, draw) for draw in range(draws)]
    touched = [name for name in columns[0] if any(bool(column[name].any()) for column in columns)]
    pairs = [_fit({name: target[name] for name in touched}, columns) for target in targets]
    mean = {name: torch.stack([target[name] for target in targets]).mean(0) for name in touched}
    by_factor = {}
    for factor, own in zip(factors, directions, strict=True):
        names = [name for name in touched if any(bool(column[name].any()) for column in own)]
        by_factor[factor.name] = per_epoch * _fit({name: mean[name] for name in names}, own)[0]
    b, c = (Estimate.of([pair[index] for pair in pairs]) for index in (0, 1))
    return KlWeight(Estimate.of([per_epoch * pair[0] for pair in pairs]), _prior_std(b, c), by_factor)


def _prior_std(b: Estimate, c: Estimate) -> Estimate:
    if b.value * c.value <= 0:
        return Estimate(math.nan, math.inf)
    std = math.sqrt(b.value / c.value)
    return Estimate(std, std / 2 * math.hypot(b.error / b.value, c.error / c.value))


def _directions(objective: Objective, factors: Sequence[Factor]) -> list[Gradient]:
    entropy = -torch.stack([factor.std().log().sum() for factor in factors]).sum()
    second = torch.stack([(f.mean().square() + f.std().square()).sum() / 2 for f in factors]).sum()
    return [objective.gradient(entropy), objective.gradient(second)]


def _fit(target: Gradient, columns: Sequence[Gradient]) -> list[float]:
    """Return the coefficients of `columns` in `target`; each tensor weighs by the inverse of its residual."""
    names = list(target)
    if not names:
        return [math.nan] * len(columns)
    scale = {name: sum(_rms(column[name]) for column in columns) + 1e-300 for name in names}
    solution = _solve(target, columns, scale)
    # A tensor that fits exactly must not outweigh all others: one whose KL is left out fits 0 exactly.
    floor = {name: EXACT * _rms(_combined(columns, solution, name)) + 1e-9 * scale[name] for name in names}
    for _ in range(REWEIGHTED):
        scale = {n: _rms(target[n] - _combined(columns, solution, n)) + floor[n] for n in names}
        solution = _solve(target, columns, scale)
    return [float(value) for value in solution]


def _solve(target: Gradient, columns: Sequence[Gradient], scale: Mapping[str, float]) -> Tensor:
    gram = torch.zeros(len(columns), len(columns), dtype=torch.float64)
    right = torch.zeros(len(columns), dtype=torch.float64)
    for name, values in target.items():
        rows = torch.stack([column[name].flatten() for column in columns]) / scale[name]
        gram += rows @ rows.T
        right += rows @ (values.flatten() / scale[name])
    norm = gram.diagonal().clamp(min=1e-300).sqrt()  # the two directions differ by many powers of ten
    inverse: Tensor = torch.linalg.pinv(gram / norm.outer(norm), rtol=1e-12, hermitian=True)
    return inverse @ (right / norm) / norm


def _combined(columns: Sequence[Gradient], solution: Tensor, name: str) -> Tensor:
    return sum((k * column[name] for k, column in zip(solution, columns, strict=True)), torch.zeros(()))


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())
