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

from elbo_audit.findings import Seen
from elbo_audit.likelihood import DataWeight
from elbo_audit.objective import AuditedObjective, Factor, Gradient, NotFinite

MOVES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # length of a step, relative to the parameter's own size
RESOLVED = 0.1  # a slope is resolved if two lengths of step agree to this share and rounding is smaller
NEARER = 0.5  # shorter steps are nearer to autograd's slope if they leave less than this share of the difference
SAME_DATA = 1e-6  # of a tensor's gradient: two gradients that differ by less are equal up to rounding
NUDGE = 0.1  # of each number: how far parameters are moved, to see which gradients depend on them
HALF = (torch.bfloat16, torch.float16)  # the coarser first


def detached(objective: AuditedObjective, data: DataWeight | None) -> Seen:
    """Compare autograd's gradient with the slope of the loss along it, one parameter tensor at a time."""
    found = slopes(objective)
    bad = {slope.name: slope for slope in found if slope.differs}
    unresolved = [slope.name for slope in found if slope.loss is None]
    if data is not None and data.usable:  # the slope of the data part may hide that of the KL: look at the KL alone
        bad |= {slope.name: slope for slope in slopes(objective, data.weight) if slope.differs}
    # This comparison is exact. Finite differences allow 30 %, and miss a smaller change.
    overwritten, written = _overwritten(objective)
    if bad or overwritten:
        shown = ", ".join(slope.shown() for slope in bad.values())
        parts = [f"the slope is not autograd's along {shown}"] if bad else []
        if overwritten:
            parts.append(
                f"the loss writes {written} in place before backward has used it, as passes that share a buffer do, "
                f"which changes the gradient of {', '.join(overwritten)}: draw noise anew for each pass "
                "(torch.randn_like) instead of writing it in place"
            )
        is_explained = set(bad) <= set(overwritten)
        return Seen("fails", "; ".join(parts), {"tensors": len({*bad, *overwritten})}, advised=is_explained)
    coarsest = _coarsest(objective)
    why = "audit in float64"
    if coarsest in HALF:
        why = f"parts of the loss are computed in {str(coarsest).removeprefix('torch.')}; audit without autocast"
    if len(unresolved) == len(found):
        return Seen("not measured", f"no slope stands out from rounding; {why}")
    resolved = f"{len(found) - len(unresolved)} of {len(found)} parameter tensors"
    detail = f"autograd's gradient is the slope of the loss for {resolved}"
    if unresolved:
        detail += f" (no step length resolves it along {', '.join(unresolved)})"
    return Seen("passes", detail, {"tensors": 0})


def _coarsest(objective: AuditedObjective) -> torch.dtype:
    """Return the half precision type of tensors that autograd saves, as under autocast; else the loss's own type."""
    kinds: set[torch.dtype] = set()

    def keep(saved: Tensor) -> Tensor:
        kinds.add(saved.dtype)
        return saved.detach()

    own = objective.loss(objective.batches[0], 0).dtype
    with contextlib.suppress(RuntimeError), torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
        objective.loss(objective.batches[0], 0)  # torch.func raises: it does not allow these hooks
    return next((kind for kind in HALF if kind in kinds), own)


def _overwritten(objective: AuditedObjective) -> tuple[list[str], str]:
    """Return the parameters whose gradients an in-place write changes, and which tensors are written.

    Autograd saves tensors in the forward pass. If the loss writes into one of them through `.data`, autograd does not
    notice, and backward uses the new values. So the gradient is computed twice: with copies of the tensors as they
    were saved, and as autograd does it. Both results are empty where a loss lets nobody see what autograd saves.
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
    except RuntimeError:  # torch.func does not allow these hooks
        return [], ""
    if not changed:
        return [], ""
    plain = objective.gradient(objective.loss(objective.batches[0], 0))
    names = [name for name in plain if not _same(name, [plain, right])]
    written = {tensor.data_ptr(): tensor for tensor in changed}
    return names, ", ".join(_words_for(objective, tensor, names) for tensor in written.values())


def _words_for(objective: AuditedObjective, tensor: Tensor, names: Sequence[str]) -> str:
    """Return a tensor's name, if the audit was given it; else its shape, and the first of `names` of this shape."""
    known = [name for name in objective.named if objective.holds(name, tensor)]
    shape = " x ".join(map(str, tensor.shape)) or "one number"
    like = [name for name in names if objective.parameters[name].shape == tensor.shape]
    return known[0] if known else f"a tensor of {shape}{' (as ' + like[0] + ')' if like else ''}"


def unused(objective: AuditedObjective, factors: Sequence[Factor]) -> Seen:
    """Look for parameters that no data reach. Those of a prior are no mistake: see `_moves_with_others`."""
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
    """The slope along one parameter tensor's gradient: from autograd, and from finite differences of the loss."""

    name: str
    autograd: float
    loss: float | None  # None if no length of step resolves it
    step: float = 0.0  # length of the central difference that gave `loss`

    @property
    def differs(self) -> bool:
        """Return whether the two differ by more than the errors of finite differences explain."""
        return self.loss is not None and abs(self.loss - self.autograd) > 3 * RESOLVED * max(
            abs(self.loss), abs(self.autograd)
        )

    def shown(self) -> str:
        """Return both slopes, and the step that shows the difference."""
        step = f" by steps of {self.step:.2g}" if self.step else ""
        return f"{self.name} (autograd {self.autograd:.3g}, loss {self.loss:.3g}{step})"


def slopes(objective: AuditedObjective, without_data: float | None = None) -> list[Slope]:
    """Compare autograd with finite differences, tensor by tensor, under the same noise.

    The direction is the gradient itself; where autograd gives zero, a fixed random one. If `without_data` is given, it
    is the weight of the NLL, and the NLL is subtracted from the loss first.
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
            return agreed  # shorter steps would show the same; each costs two calls of the loss
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
    """Return whether shorter steps come nearer to autograd's slope, as where longer ones step over a spike."""
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
    objective: AuditedObjective, name: str, movable: Sequence[str], factors: Sequence[Factor]
) -> bool:
    """Return whether a parameter's gradient changes when the parameters `movable` move.

    The gradient of a prior's scale depends on the weights that have this prior. The gradient of an unused layer depends
    on the layer alone. Mean and sigma of the same weights belong to one layer, so they are not moved for each other.
    """
    groups = [objective.paths(factor.mean().sum()) | objective.paths(factor.std().sum()) for factor in factors]
    layer = {other for group in groups if name in group for other in group}
    others = [other for other in movable if other not in layer]
    return bool(others) and not _same(name, _before_and_after(objective, others))


def _is_above(objective: AuditedObjective, name: str, prior: Sequence[str], factors: Sequence[Factor]) -> bool:
    """Return whether a parameter belongs to the prior of a prior, whose parameters are `prior`.

    It has no more numbers than the parameter of `prior` that it acts on. An unused layer under `prior` has more.
    """
    n = objective.parameters[name].numel()
    below = [other for other in prior if objective.parameters[other].numel() >= n]
    return _moves_with_others(objective, name, below, factors)


def _before_and_after(objective: AuditedObjective, moved: Sequence[str]) -> list[Gradient]:
    """Return the loss's gradients before and after some parameters are moved a little."""
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
