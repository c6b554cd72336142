"""Which gradient: is autograd's the slope of the loss, and do the data reach every parameter?"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from bench.judge.audit.elbo.likelihood import DataWeight
from bench.judge.audit.elbo.objective import AuditedObjective, Factor, Gradient, NotFinite
from bench.judge.audit.findings import Seen

MOVES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # length of a step, relative to the parameter's own size
RESOLVED = 0.1  # a slope counts if two step lengths agree to this share, and rounding is less
NEARER = 0.5  # shorter steps come nearer to autograd's slope if they leave less than this share of the difference
SAME_DATA = 1e-6  # of a tensor's gradient: how far rounding moves a part that should cancel
NUDGE = 0.1  # of each number: how far the other parameters are moved
HALF = (torch.bfloat16, torch.float16)  # the coarser first
ANEW = "draw noise anew for each pass (torch.randn_like) instead of writing it in place"


def detached(objective: AuditedObjective, data: DataWeight | None) -> Seen:
    """Compare autograd's gradient with the slope of the loss along it, one parameter tensor at a time."""
    found = slopes(objective)
    bad = {slope.name: slope for slope in found if slope.differs}
    unresolved = [slope.name for slope in found if slope.loss is None]
    if data is not None and data.usable:  # the data part may drown the KL part: look at its slope alone
        bad |= {slope.name: slope for slope in slopes(objective, data.weight) if slope.differs}
    overwritten = _overwritten(objective)  # exact, while differences may be as large as 30 % without a mistake
    wrong, written = overwritten or ([], "")
    if bad or wrong:
        shown = ", ".join(slope.shown() for slope in bad.values())
        parts = [f"the slope is not autograd's along {shown}"] if bad else []
        if wrong:
            parts.append(
                f"the loss writes {written} in place before backward has used it, as passes that share a buffer do, "
                f"which changes the gradient of {', '.join(wrong)}: {ANEW}"
            )
        elif overwritten is None:
            parts.append(f"if noise is kept in a buffer, {ANEW}")
        is_explained = bool(wrong) and set(bad) <= set(wrong)
        return Seen("fails", "; ".join(parts), {"tensors": len({*bad, *wrong})}, advised=is_explained)
    coarsest = _coarsest(objective)
    why = "audit in float64"
    if coarsest in HALF:
        why = f"parts of the loss are computed in {str(coarsest).removeprefix('torch.')}; audit without autocast"
    if len(unresolved) == len(found):
        return Seen("not measured", f"no slope stands out from rounding; {why}")
    detail = f"the loss's slope is autograd's along {len(found) - len(unresolved)} of {len(found)} parameter tensors"
    if unresolved:
        detail += f" (no step length resolves it along {', '.join(unresolved)})"
    return Seen("passes", detail, {"tensors": 0})


def _coarsest(objective: AuditedObjective) -> torch.dtype:
    """Return the half precision type that autograd saves tensors of, as under autocast; else the loss's own type."""
    kinds: set[torch.dtype] = set()

    def keep(saved: Tensor) -> Tensor:
        kinds.add(saved.dtype)
        return saved.detach()

    own = objective.loss(objective.batches[0], 0).dtype
    with contextlib.suppress(RuntimeError), torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
        objective.loss(objective.batches[0], 0)  # torch.func has no such hooks and raises
    return next((kind for kind in HALF if kind in kinds), own)


def _overwritten(objective: AuditedObjective) -> tuple[list[str], str] | None:
    """Return the parameters whose gradients an in-place write changes, and what is written; None if unknown.

    Their gradients are others with the tensors as autograd saved them. `.data` hides such a write from autograd, which
    would else refuse it.
    """
    kept: list[tuple[Tensor, Tensor]] = []

    def keep(saved: Tensor) -> int:
        kept.append((saved.detach(), saved.detach().clone()))
        return len(kept) - 1

    try:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda index: kept[index][1]):
            value = objective.loss(objective.batches[0], 0)
        right = objective.gradient(value)
        changed = [now for now, then in kept if not torch.equal(now, then) and not bool(then.isnan().any())]
    except RuntimeError:  # such as torch.func, which has no such hooks
        return None
    if not changed:
        return [], ""
    plain = objective.gradient(objective.loss(objective.batches[0], 0))
    names = [name for name in plain if not _same(name, [plain, right])]
    written = {tensor.data_ptr(): tensor for tensor in changed}
    return names, ", ".join(_named(objective, tensor, names) for tensor in written.values())


def _named(objective: AuditedObjective, tensor: Tensor, names: Sequence[str]) -> str:
    """Return a tensor's name if it was given, else its shape, and which of `names` has this shape."""
    known = [name for name in objective.named if objective.holds(name, tensor)]
    shape = " x ".join(map(str, tensor.shape)) or "one number"
    like = [name for name in names if objective.parameters[name].shape == tensor.shape]
    return known[0] if known else f"a tensor of {shape}{' (as ' + like[0] + ')' if like else ''}"


def unused(objective: AuditedObjective, factors: Sequence[Factor]) -> Seen:
    """Look for parameters that no data reach, apart from those of the prior."""
    gradients = [objective.gradient(objective.loss(batch, 0)) for batch in objective.batches]
    unreached = [name for name in objective.parameters if _same(name, gradients)]
    try:
        reached = [name for name in objective.parameters if name not in unreached]
        prior = [name for name in unreached if _moves_with_others(objective, name, reached, factors)]
        while above := [name for name in unreached if name not in prior and _is_above(objective, name, prior, factors)]:
            prior += above
    except NotFinite as error:
        return Seen("not measured", f"{', '.join(unreached)}: {error}")
    names = [name for name in unreached if name not in prior]
    if names:
        detail = f"the gradient is the same whatever the batch for {', '.join(names)}"
        return Seen("fails", detail, {"tensors": len(names)})
    detail = f"the data reach all {len(objective.parameters) - len(prior)} parameter tensors"
    if prior:
        detail += f" but {', '.join(prior)}, whose gradient other parameters move: a prior's, or not reached yet"
    return Seen("passes", detail, {"tensors": 0})


@dataclass(frozen=True)
class Slope:
    """One parameter tensor's slope along its own gradient, as autograd has it and as the loss has it."""

    name: str
    autograd: float
    loss: float | None  # None where steps of no length resolve it
    step: float = 0.0  # length of the central difference that gave `loss`

    @property
    def differs(self) -> bool:
        """Return whether the two differ by more than the steps can leave."""
        return self.loss is not None and abs(self.loss - self.autograd) > 3 * RESOLVED * max(
            abs(self.loss), abs(self.autograd)
        )

    def shown(self) -> str:
        """Return both slopes, and the step that shows the difference."""
        step = f" by steps of {self.step:.2g}" if self.step else ""
        return f"{self.name} (autograd {self.autograd:.3g}, loss {self.loss:.3g}{step})"


def slopes(objective: AuditedObjective, without_data: float | None = None) -> list[Slope]:
    """Compare autograd with finite differences, tensor by tensor, under the same noise.

    The direction is the gradient itself; where autograd gives zero, a fixed random one.

    Args:
        objective: what is audited.
        without_data: weight of the NLL in the loss, to subtract the NLL from the loss first; None for the whole loss.
    """

    def value() -> Tensor:
        whole = objective.loss(objective.batches[0], 0)
        return whole if without_data is None else whole - without_data * objective.nll(objective.batches[0], 0)

    gradient = objective.gradient(value())
    rounding = 4 * torch.finfo(_coarsest(objective)).eps * abs(objective.value())
    return [_slope(objective, value, name, gradient, rounding) for name in objective.parameters]


def _slope(
    objective: AuditedObjective, value: Callable[[], Tensor], name: str, gradient: Gradient, rounding: float
) -> Slope:
    direction = gradient[name]
    if not bool(direction.any()):
        direction = torch.randn(direction.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    direction = direction / direction.norm()
    expected = float((gradient[name] * direction).sum())
    size = float(objective.parameters[name].detach().double().norm()) or float(direction.numel()) ** 0.5 * 0.1
    tried: list[_Step] = []
    for length in (size * m for m in MOVES):
        slope = _difference(objective, value, name, direction, length)
        if not math.isfinite(slope):
            continue
        tried.append(_Step(slope, rounding / length, length))
        agreed = Slope(name, expected, slope, length)
        if len(tried) > 1 and _straight(tried[-2], tried[-1], expected) and not agreed.differs:
            return agreed  # shorter steps, of which each costs two losses, would tell the same
    for index, (one, two) in enumerate(pairwise(tried)):
        if _straight(one, two, expected) and not _nears(expected, two.slope, tried[index + 2 :]):
            return Slope(name, expected, two.slope, two.length)
    flat = bool(tried) and all(abs(step.slope) <= step.noise for step in tried) and expected == 0
    return Slope(name, expected, 0.0 if flat else None)


class _Step(NamedTuple):
    slope: float
    noise: float  # what rounding may leave of the slope
    length: float


def _straight(one: _Step, two: _Step, expected: float) -> bool:
    """Return whether two lengths of step give the same slope, within their rounding errors."""
    largest = max(abs(one.slope), abs(two.slope), abs(expected))
    return abs(one.slope - two.slope) <= RESOLVED * largest and max(one.noise, two.noise) <= RESOLVED * largest


def _nears(expected: float, slope: float, shorter: Sequence[_Step]) -> bool:
    """Return whether shorter steps come nearer to autograd's slope: longer ones stepped over a spike of the loss."""
    resolved = [s.slope for s in shorter if s.noise <= RESOLVED * max(abs(s.slope), abs(slope), abs(expected))]
    return any(abs(found - expected) < NEARER * abs(slope - expected) for found in resolved)


def _difference(
    objective: AuditedObjective, value: Callable[[], Tensor], name: str, direction: Tensor, length: float
) -> float:
    """Return the central difference over a step of this length to either side; NaN where the loss is not finite."""
    ends = []
    for sign in (1, -1):
        try:
            with objective.moved({name: sign * length * direction}):
                ends.append(float(value().detach()))
        except NotFinite:
            return math.nan
    return (ends[0] - ends[1]) / (2 * length)


def _moves_with_others(
    objective: AuditedObjective, name: str, reached: Sequence[str], factors: Sequence[Factor]
) -> bool:
    """Return whether a parameter that no data reach acts on parameters that data reach, or on a prior's.

    A prior's scale gets its gradient from the weights under it, and another gradient when they move. The gradient of
    an unused layer depends on the layer alone. Mean and sigma of the same weights are one layer: neither excuses the
    other.
    """
    groups = [objective.paths(factor.mean().sum()) | objective.paths(factor.std().sum()) for factor in factors]
    layer = {other for group in groups if name in group for other in group}
    others = [other for other in reached if other not in layer]
    return bool(others) and not _same(name, _before_and_after(objective, others))


def _is_above(objective: AuditedObjective, name: str, prior: Sequence[str], factors: Sequence[Factor]) -> bool:
    """Return whether a parameter is of the prior of a prior: no larger than what it acts on, unlike an unused layer."""
    n = objective.parameters[name].numel()
    below = [other for other in prior if objective.parameters[other].numel() >= n]
    return _moves_with_others(objective, name, below, factors)


def _before_and_after(objective: AuditedObjective, moved: Sequence[str]) -> list[Gradient]:
    """Return the gradients before and after a nudge of some parameters."""
    source = torch.Generator().manual_seed(0)
    shifts = {}
    for name in moved:
        value = objective.parameters[name].detach().cpu().double()
        size = value if bool(value.any()) else torch.ones_like(value)
        shifts[name] = NUDGE * size * (torch.rand(value.shape, generator=source, dtype=torch.float64) * 2 - 1)
    before = objective.gradient(objective.loss(objective.batches[0], 0))
    after = objective.seen_near(shifts, lambda: objective.gradient(objective.loss(objective.batches[0], 0)))
    return [before, after]


def _same(name: str, gradients: Sequence[Gradient]) -> bool:
    first = gradients[0][name]
    largest = float(first.abs().max())
    return all(float((other[name] - first).abs().max()) <= SAME_DATA * largest for other in gradients[1:])
