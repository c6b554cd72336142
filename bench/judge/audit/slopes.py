"""Gradients that are not the loss's slope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from bench.judge.audit.objective import Gradient, Objective

MOVES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # length of a step, relative to the parameter's own size
RESOLVED = 0.1  # a slope counts where two step lengths agree to this, and rounding is less
NEARER = 0.5  # of a difference from autograd: what is left of it after shorter steps where longer ones saw too little


@dataclass(frozen=True)
class Slope:
    """One parameter tensor's slope along its own gradient, as autograd has it and as the loss has it."""

    name: str
    autograd: float
    loss: float | None  # None where steps of any length leave it unresolved

    @property
    def differs(self) -> bool:
        """Return whether the two are different beyond what the steps can tell."""
        return self.loss is not None and abs(self.loss - self.autograd) > 3 * RESOLVED * max(
            abs(self.loss), abs(self.autograd)
        )


def slopes(objective: Objective, without_data: float | None = None, draw: int = 0) -> list[Slope]:
    """Compare autograd with finite differences, tensor by tensor, under the same noise.

    The direction is the gradient itself; where autograd gives zero, a fixed random one.

    Args:
        objective: what is audited.
        without_data: weight of the NLL in the loss, to look at what remains of the loss without it; None for all of it.
        draw: whose noise is used.
    """

    def value() -> Tensor:
        whole = objective.loss(objective.batches[0], draw)
        return whole if without_data is None else whole - without_data * objective.nll(objective.batches[0], draw)

    gradient = objective.gradient(value())
    eps = torch.finfo(value().dtype).eps
    rounding = 4 * eps * float(objective.loss(objective.batches[0], draw).detach().abs())
    return [_slope(objective, value, name, gradient, rounding) for name in objective.parameters]


def _slope(objective: Objective, value: Callable[[], Tensor], name: str, gradient: Gradient, rounding: float) -> Slope:
    direction = gradient[name]
    if not bool(direction.any()):
        direction = torch.randn(direction.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    direction = direction / direction.norm()
    expected = float((gradient[name] * direction).sum())
    size = float(objective.parameters[name].detach().double().norm()) or float(direction.numel()) ** 0.5 * 0.1
    found = [(_difference(objective, value, name, direction, size * m), rounding / (size * m)) for m in MOVES]
    for index, ((one, noise), (two, more_noise)) in enumerate(pairwise(found)):
        largest = max(abs(one), abs(two), abs(expected))
        straight = abs(one - two) <= RESOLVED * largest and max(noise, more_noise) <= RESOLVED * largest
        if straight and not _nears(expected, two, found[index + 2 :]):
            return Slope(name, expected, two)
    flat = all(abs(slope) <= noise for slope, noise in found) and expected == 0
    return Slope(name, expected, 0.0 if flat else None)


def _nears(expected: float, slope: float, shorter: Sequence[tuple[float, float]]) -> bool:
    """Return whether shorter steps come nearer to autograd's slope: longer ones stepped over a spike of the loss."""
    resolved = [v for v, noise in shorter if noise <= RESOLVED * max(abs(v), abs(slope), abs(expected))]
    return any(abs(v - expected) < NEARER * abs(slope - expected) for v in resolved)


def _difference(
    objective: Objective, value: Callable[[], Tensor], name: str, direction: Tensor, length: float
) -> float:
    """Return the central difference over a step of that length to either side."""
    ends = []
    for sign in (1, -1):
        with objective.moved({name: sign * length * direction}):
            ends.append(float(value().detach()))
    return (ends[0] - ends[1]) / (2 * length)
