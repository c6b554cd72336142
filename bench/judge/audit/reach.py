"""Parameters that no data reach: layers that are never used, and parameters of the prior, which need not be."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bench.judge.audit.objective import Factor, Gradient, Objective

SAME_DATA = 1e-6  # of a tensor's gradient: what rounding makes of a part that should cancel
NUDGE = 0.1  # of each number: how far the other parameters are moved


def unreached(objective: Objective, draw: int = 0) -> list[str]:
    """Return the parameter tensors whose gradient is the same for every batch: no data reach them."""
    gradients = [objective.gradient(objective.loss(batch, draw)) for batch in objective.batches]
    return [name for name in objective.parameters if _same(name, gradients)]


def of_the_prior(objective: Objective, names: Sequence[str], factors: Sequence[Factor], draw: int = 0) -> list[str]:
    """Return those of the unreached parameters that act on parameters which data reach.

    A prior's scale gets its gradient from the weights under it, and another one when they move. That of an unused
    layer depends on the layer alone. Mean and sigma of the same weights are one layer: neither excuses the other.
    """
    used = [name for name in objective.parameters if name not in names]
    apart = [_names(objective, factor) for factor in factors]
    found = []
    for name in names:
        partners = {other for group in apart if name in group for other in group}
        others = [other for other in used if other not in partners]
        if others and not _same(name, _before_and_after(objective, others, draw)):
            found.append(name)
    return found


def _before_and_after(objective: Objective, moved: Sequence[str], draw: int) -> list[Gradient]:
    source = torch.Generator().manual_seed(0)
    shifts = {}
    for name in moved:
        value = objective.parameters[name].detach().cpu().double()
        size = value if bool(value.any()) else torch.ones_like(value)
        shifts[name] = NUDGE * size * (torch.rand(value.shape, generator=source, dtype=torch.float64) * 2 - 1)
    batch = objective.batches[0]
    before = objective.gradient(objective.loss(batch, draw))
    with objective.moved(shifts):
        return [before, objective.gradient(objective.loss(batch, draw))]


def _names(objective: Objective, factor: Factor) -> set[str]:
    """Return the parameters that a factor's means and standard deviations are made of."""
    paths = [objective.gradient(factor.mean().sum()), objective.gradient(factor.std().sum())]
    return {name for path in paths for name, value in path.items() if bool(value.any())}


def _same(name: str, gradients: Sequence[Gradient]) -> bool:
    first = gradients[0][name]
    largest = float(first.abs().max())
    return all(float((other[name] - first).abs().max()) <= SAME_DATA * largest for other in gradients[1:])
