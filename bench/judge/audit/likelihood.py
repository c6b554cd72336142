"""How often a loss counts the likelihood, and whether what else it holds is another likelihood or another noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bench.judge.audit.fitting import SURE, common
from bench.judge.audit.objective import Batch, Objective

PROPORTIONAL = 0.02  # of the losses' range between batches: what may be left of it beside the NLL
ALIKE = 0.9  # correlation from draw to draw of what is drawn alike; a mean of two draws with one of them has 0.7
ROUNDINGS = 16  # of a loss's last digit: what may differ between batches without being data

Rest = Literal["proportional", "other noise", "other likelihood", "rounding"]
"""What a loss holds beside a NLL + constant. `other noise`: nothing that outlasts averaging over the draws. `rounding`:
what differs between batches is too near the loss's last digits to tell."""


@dataclass(frozen=True)
class DataWeight:
    """The weight `a` of the NLL in the loss, and how far the loss is from a NLL + constant between batches."""

    weight: float
    misfit: float  # the part of the range of losses that the NLL does not explain
    rest: Rest
    error: float  # standard error of `weight`; where the likelihood is right, rounding makes it


def data_weight(objective: Objective, draws: int) -> DataWeight:
    """Measure `a`; needs the NLL."""
    pairs = [
        [(float(objective.loss(b, draw).detach()), float(objective.nll(b, draw).detach())) for b in objective.batches]
        for draw in range(draws)
    ]
    table = torch.tensor(pairs, dtype=torch.float64)  # [draws, batches, 2]
    digit = torch.finfo(objective.loss(objective.batches[0], 0).dtype).eps
    smallest = ROUNDINGS * digit * table.abs().amax((0, 1))  # of the loss, of the NLL
    table = table - table.mean(dim=1, keepdim=True)
    losses, nlls = table.unbind(-1)
    if float(losses.abs().max()) <= float(smallest[0]) / PROPORTIONAL:
        return _by_gradients(objective, draws)
    freedom = losses.numel() - len(losses) - 1  # a constant for each draw, and the weight
    weight, misfit, error = _proportion(losses, nlls, freedom)
    return DataWeight(weight, misfit, _rest(losses, nlls, misfit, smallest), error)


def _proportion(losses: Tensor, nlls: Tensor, freedom: int) -> tuple[float, float, float]:
    """Return a of losses = a nlls by least squares, the share of the losses that is left, and a's standard error."""
    weight = float((losses * nlls).sum() / nlls.square().sum().clamp(min=1e-300))
    left = float((losses - weight * nlls).norm())
    error = left / math.sqrt(max(freedom, 1)) / float(nlls.norm().clamp(min=1e-300))
    return weight, left / float(losses.norm()), error


def _by_gradients(objective: Objective, draws: int) -> DataWeight:
    """Measure `a` where a large constant, such as a KL that is not scaled, rounds away how the losses differ.

    Under the same noise the gradients of two batches differ by that of the likelihood alone, without the constant.
    """
    losses, nlls = (
        torch.stack([_without_mean(objective, function, draw) for draw in range(draws)])
        for function in (objective.loss, objective.nll)
    )
    if not bool(losses.any()):
        return DataWeight(0.0, 0.0, "proportional", 0.0)
    weight, misfit, error = _proportion(losses, nlls, losses.numel())
    return DataWeight(weight, misfit, "proportional" if misfit <= PROPORTIONAL else "rounding", error)


def _without_mean(objective: Objective, function: Callable[[Batch, int], Tensor], draw: int) -> Tensor:
    """Return the gradients of the batches [batches, n], less their mean over batches."""
    gradients = [objective.gradient(function(batch, draw)) for batch in objective.batches]
    rows = torch.stack([torch.cat([part.flatten() for part in gradient.values()]) for gradient in gradients])
    return rows - rows.mean(0)


def _rest(losses: Tensor, nlls: Tensor, misfit: float, smallest: Tensor) -> Rest:
    """Say what the NLL leaves of losses [draws, batches], both without their means over batches."""
    if misfit <= PROPORTIONAL:
        return "proportional"
    noise = [part - part.mean(0) for part in (losses, nlls)]  # from draw to draw
    noisy = [bool((part.abs() > size).any()) for part, size in zip(noise, smallest, strict=True)]
    if noisy[0] != noisy[1]:  # one of the two draws nothing: a NLL at the mean weights is no NLL of a draw
        return "other noise"
    if not any(noisy) or float((noise[0] * noise[1]).sum()) > ALIKE * float(noise[0].norm() * noise[1].norm()):
        return "other likelihood"
    left = losses - _across_draws(losses, nlls) * nlls
    rest = common(left)
    sure = rest.value > SURE * rest.error and rest.value > PROPORTIONAL**2 * common(losses).value
    return "other likelihood" if sure else "other noise"


def _across_draws(losses: Tensor, nlls: Tensor) -> float:
    """Return the weight by products of different draws alone: noise that the two do not share leaves it unbiased."""
    both = (losses.sum(0) * nlls.sum(0)).sum() - (losses * nlls).sum()
    one = nlls.sum(0).square().sum() - nlls.square().sum()
    return float(both / one) if float(one) > 0 else 0.0
