"""Which gradient: is autograd's the slope of the loss, and do the data reach every parameter?"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from elbo_audit.factors import Array, Gradient, Group
from elbo_audit.findings import Seen
from elbo_audit.likelihood import DataWeight
from elbo_audit.objective import NotFinite, Objective
from elbo_audit.streams import generator

MOVES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # length of a step, relative to the parameter's own size
RESOLVED = 0.1  # a slope is resolved if two lengths of step agree to this share and rounding is smaller
NEARER = 0.5  # shorter steps are nearer to autograd's slope if they leave less than this share of the difference
SAME_DATA = 1e-6  # of a tensor's gradient: two gradients that differ by less are equal up to rounding
NUDGE = 0.1  # of each number: how far parameters are moved, to see which gradients depend on them


def detached(objective: Objective, data: DataWeight | None) -> Seen:
    """Compare autograd's gradient with the slope of the loss along it, one parameter tensor at a time."""
    found = slopes(objective)
    bad = {slope.name: slope for slope in found if slope.differs}
    unresolved = [slope.name for slope in found if slope.loss is None]
    if data is not None and data.usable:  # the slope of the data part may hide that of the KL: look at the KL alone
        bad |= {slope.name: slope for slope in slopes(objective, data.of(0)) if slope.differs}
    # This comparison is exact. Finite differences allow 30 %, and miss a smaller change.
    overwritten, sentence = objective.overwritten()
    if bad or overwritten:
        shown = ", ".join(slope.shown() for slope in bad.values())
        parts = [f"the gradient is not the slope of the loss along {shown}"] if bad else []
        parts += [sentence] if overwritten else []
        is_explained = set(bad) <= set(overwritten)
        return Seen("fails", "; ".join(parts), {"tensors": len({*bad, *overwritten})}, advised=is_explained)
    half = objective.precision()[1]
    why = f"parts of the loss are computed in {half}; audit without autocast" if half else "audit in float64"
    if len(unresolved) == len(found):
        return Seen("not measured", f"no slope stands out from rounding; {why}")
    resolved = f"{len(found) - len(unresolved)} of {len(found)} parameter tensors"
    detail = f"the gradient is the slope of the loss for {resolved}"
    if unresolved:
        detail += f" (no step length resolves it along {', '.join(unresolved)})"
    return Seen("passes", detail, {"tensors": 0})


def unused(objective: Objective, factors: Sequence[Group]) -> Seen:
    """Look for parameters that no data reach. Those of a prior are no mistake: see `_moves_with_others`."""
    gradients = [objective.loss_gradient(batch, 0) for batch in objective.batches]
    unreached = [name for name in objective.shapes if same(gradients, name)]
    try:
        reached = [name for name in objective.shapes if name not in unreached]
        prior = [name for name in unreached if _moves_with_others(objective, name, reached, factors)]
        while above := [name for name in unreached if name not in prior and _is_above(objective, name, prior, factors)]:
            prior += above
    except NotFinite as error:
        return Seen("not measured", f"{', '.join(unreached)}: {error}")
    names = [name for name in unreached if name not in prior]
    if names:
        detail = f"the gradient is the same whatever the batch for {', '.join(names)}"
        kinds = Counter(re.sub(r"\d+", "#", name) for name in objective.shapes)
        is_loop = any(kinds[re.sub(r"\d+", "#", name)] > 1 for name in names)  # layers that differ by a number
        more = "" if is_loop else "; use it in the forward pass, or leave it out"
        return Seen("fails", detail + more, {"tensors": len(names)}, advised=not is_loop)
    detail = f"the data reach all {len(objective.shapes) - len(prior)} parameter tensors"
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
        return f"{self.name} (gradient {self.autograd:.3g}, slope {self.loss:.3g}{step})"


def slopes(objective: Objective, without_data: float | None = None) -> list[Slope]:
    """Compare autograd with finite differences, tensor by tensor, under the same noise.

    If `without_data` is given, it is the weight of the NLL, which is subtracted from the loss first.
    """
    batch, weight = objective.batches[0], without_data

    def value() -> float:
        whole = objective.loss(batch, 0)
        return whole if weight is None else whole - weight * objective.nll(batch, 0)

    gradient = objective.loss_gradient(batch, 0)
    if weight is not None:
        data = objective.nll_gradient(batch, 0)
        gradient = {name: part - weight * data[name] for name, part in gradient.items()}
    rounding = 4 * objective.precision()[0] * abs(objective.first_loss())
    return [_slope(objective, value, name, gradient, rounding) for name in objective.shapes]


def _slope(objective: Objective, value: Callable[[], float], name: str, gradient: Gradient, rounding: float) -> Slope:
    direction = gradient[name]
    if not direction.any():  # any direction
        direction = generator("directions").standard_normal(direction.shape)
    direction = direction / np.linalg.norm(direction)
    expected = float((gradient[name] * direction).sum())
    size = float(np.linalg.norm(objective.value(name))) or float(direction.size) ** 0.5 * 0.1
    tried: list[_Step] = []
    for length in (size * m for m in MOVES):
        slope = _difference(objective, value, name, direction, length)
        if not math.isfinite(slope):
            continue
        tried.append(_Step(slope, rounding / length, length))
        agreed = Slope(name, expected, slope, length)
        if len(tried) > 1 and _straight(tried[-2], tried[-1], expected) and not agreed.differs:
            return agreed  # shorter steps would show the same; each costs two calls of the loss
        if len(tried) > 1 and all(step.is_lost(expected) for step in tried[-2:]):
            break  # rounding hides shorter steps even more
    for index, (one, two) in enumerate(pairwise(tried)):
        if _straight(one, two, expected) and not _nears(expected, two.slope, tried[index + 2 :]):
            return Slope(name, expected, two.slope, two.length)
    flat = bool(tried) and all(abs(step.slope) <= step.noise for step in tried) and expected == 0
    return Slope(name, expected, 0.0 if flat else None)


class _Step(NamedTuple):
    slope: float
    noise: float  # what rounding may leave of the slope
    length: float

    def is_lost(self, expected: float) -> bool:
        """Return whether rounding hides both the slope and the one that is expected."""
        return self.noise > RESOLVED * max(abs(self.slope), abs(expected))


def _straight(one: _Step, two: _Step, expected: float) -> bool:
    """Return whether two lengths of step give the same slope, within their rounding errors."""
    largest = max(abs(one.slope), abs(two.slope), abs(expected))
    return abs(one.slope - two.slope) <= RESOLVED * largest and max(one.noise, two.noise) <= RESOLVED * largest


def _nears(expected: float, slope: float, shorter: Sequence[_Step]) -> bool:
    """Return whether shorter steps come nearer to autograd's slope, as where longer ones step over a spike."""
    resolved = [s.slope for s in shorter if s.noise <= RESOLVED * max(abs(s.slope), abs(slope), abs(expected))]
    return any(abs(found - expected) < NEARER * abs(slope - expected) for found in resolved)


def _difference(objective: Objective, value: Callable[[], float], name: str, direction: Array, length: float) -> float:
    """Return the central difference over a step of this length to either side; NaN where the loss is not finite."""
    ends = []
    for sign in (1, -1):
        try:
            with objective.moved({name: sign * length * direction}):
                ends.append(value())
        except NotFinite:
            return math.nan
    return (ends[0] - ends[1]) / (2 * length)


def _moves_with_others(objective: Objective, name: str, movable: Sequence[str], factors: Sequence[Group]) -> bool:
    """Return whether a parameter's gradient changes when the parameters `movable` of other layers move.

    The gradient of a prior's scale depends on the weights that have this prior, that of an unused layer on it alone.
    """
    groups = [factor.means | factor.scales for factor in factors]
    layer = {other for group in groups if name in group for other in group}
    others = [other for other in movable if other not in layer]
    return bool(others) and not same(_before_and_after(objective, others), name)


def _is_above(objective: Objective, name: str, prior: Sequence[str], factors: Sequence[Group]) -> bool:
    """Return whether a parameter belongs to the prior of `prior`. An unused layer under `prior` has more numbers."""
    n = math.prod(objective.shapes[name])
    below = [other for other in prior if math.prod(objective.shapes[other]) >= n]
    return _moves_with_others(objective, name, below, factors)


def _before_and_after(objective: Objective, moved: Sequence[str]) -> list[Gradient]:
    """Return the loss's gradients before and after some parameters are moved a little."""
    batch = objective.batches[0]
    before = objective.loss_gradient(batch, 0)
    return [before, objective.seen_near(nudges(objective, moved), lambda: objective.loss_gradient(batch, 0))]


def nudges(objective: Objective, names: Sequence[str]) -> Gradient:
    """Return small random shifts of parameters."""
    source, shifts = generator("nudges"), {}
    for name in names:
        value = objective.value(name)
        size = value if value.any() else np.ones_like(value)
        shifts[name] = NUDGE * size * source.uniform(-1, 1, value.shape)
    return shifts


def same(gradients: Sequence[Gradient], name: str) -> bool:
    """Return whether gradients agree in one parameter's part, but for rounding."""
    first = gradients[0][name]
    largest = float(np.abs(first).max())
    return all(float(np.abs(other[name] - first).max()) <= SAME_DATA * largest for other in gradients[1:])
