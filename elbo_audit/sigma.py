"""Can sigma move in the planned training, and is it zero where the mean was pruned?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from elbo_audit.factors import Array, Gradient, Group
from elbo_audit.findings import Seen
from elbo_audit.least_squares import SURE, common
from elbo_audit.objective import Case, Objective

DRAWS = 4  # least number of gradients to average a drift over
MORE = 4  # times the draws, if noise hides how far sigma gets
STILL = 0.05  # relative change of sigma over the whole training; below it, sigma counts as frozen
RAISED = 2.0  # times the largest sigma of the other weights: if sigma of all zero means is larger, they were pruned
QUIET = 0.1  # of the mean sigma of the other weights: if sigma of zero means is smaller, it may have been pruned too


Kind = Literal["by gradient", "scaled", "adagrad", "unknown"]  # how an optimiser's step depends on the gradient


@dataclass(frozen=True)
class Training:
    """What the audit asks of an optimiser and of the planned training."""

    optimizer: str  # its name
    kind: Kind
    steps: int
    rates: Mapping[str, float]  # by parameter; with momentum, already divided by 1 - momentum
    decays: Mapping[str, float]  # weight decay by parameter


def frozen(case: Case, training: Training | None) -> Seen:
    """Say whether sigma gets a gradient and, with an optimiser, how far rate x gradient x steps can take it.

    SGD has a drift of rate / (1 - momentum) x gradient x steps, where the gradient is the root mean square of what
    several draws have in common, and a random walk of rate / (1 - momentum) x noise x root of steps. If neither alone
    surely moves sigma, but both together may, noise hides how far sigma gets. Optimisers that scale the gradient can
    move each number by their rate in each step, whatever the gradient is; Adagrad by rate / root of t in step t.
    """
    objective = case.objective
    if case.alone:
        return Seen("not measured", "; ".join(case.alone.values()))
    if not case.groups:
        return Seen("not applicable", "no parameters named as mean and scale; give factors=")
    slopes: dict[str, dict[str, float]] = {}  # of log sigma: mean size, by group and parameter
    for factor in case.groups:
        found = factor.by_log_std()
        slopes[factor.name] = {name: float(np.abs(slope).mean()) for name, slope in found.items() if slope.any()}
    n_draws, stuck = max(DRAWS, case.draws), list(slopes)
    for n in (1, n_draws) if training is None else (n_draws,):
        drawn = _drawn(objective, slopes, n)
        stuck = [group for group in stuck if not any(drawn[name].any() for name in slopes[group])]
        if not stuck:
            break
    if stuck:
        return Seen("fails", f"no gradient reaches the sigma of {', '.join(stuck)}")
    if training is None:
        return Seen("passes", "sigma gets a gradient everywhere; how far an optimiser takes it is not asked")
    if training.kind == "unknown":
        detail = f"how far {training.optimizer} takes sigma is not known; of SGD, Adagrad, RMSprop and Adam it is"
        return Seen("not measured", detail)
    seen = _moves(training, slopes, drawn)
    if seen.outcome == "not measured":
        seen = _moves(training, slopes, _drawn(objective, slopes, MORE * n_draws))
    return seen


def _drawn(objective: Objective, slopes: Mapping[str, Mapping[str, float]], n_draws: int) -> dict[str, Array]:
    """Return the gradients [draws, n] of the parameters that make sigma."""
    names = {name for raw in slopes.values() for name in raw}
    gradients: list[Gradient] = []
    for draw in range(n_draws):
        whole = objective.loss_gradient(objective.batches[draw % len(objective.batches)], draw)
        gradients.append({name: whole[name].ravel() for name in names})
    return {name: np.stack([gradient[name] for gradient in gradients]) for name in names}


def _moves(training: Training, slopes: Mapping[str, Mapping[str, float]], drawn: Mapping[str, Array]) -> Seen:
    """Say how far the optimiser can take sigma. It fails only if the largest change within the noise is too small."""
    least, most = {}, {}  # change of log sigma
    for group, raw in slopes.items():
        reach = [(slope, _reach(training, name, drawn[name])) for name, slope in raw.items()]
        least[group], most[group] = (max(slope * ends[end] for slope, ends in reach) for end in (0, 1))
    low, high = (min(reach, key=lambda group: reach[group]) for reach in (least, most))
    steps = training.steps
    if most[high] < STILL:
        low, least = high, most
    elif least[low] < STILL:
        detail = f"noise hides how far sigma of {low} can change in {steps:,} steps"
        ends = {"at least": least[low], "at most": most[low]}
        return Seen("not measured", f"{detail}: {least[low]:.2%} to {most[low]:.2%}; raise draws=", ends)
    detail = f"in {steps:,} steps sigma can change by {least[low]:.2%} (least: {low})"
    return Seen("fails" if least[low] < STILL else "passes", detail, {"relative change": least[low]})


def _reach(training: Training, name: str, drawn: Array) -> tuple[float, float]:
    """Return how far a parameter surely gets, and how far it may get, on average; `drawn` has gradients [draws, n]."""
    if name not in training.rates:  # the optimiser was not given it
        return 0.0, 0.0
    rate, steps = training.rates[name], training.steps
    if training.kind == "adagrad":
        return 2 * rate * math.sqrt(steps), 2 * rate * math.sqrt(steps)  # the sum of rate / root of t over the steps
    if training.kind == "scaled":
        return rate * steps, rate * steps
    found = common(drawn)  # squared, and so unsigned: opposite moves do not cancel
    ends = (found.value - SURE * found.error, found.value + SURE * found.error)
    least, most = (rate * steps * math.sqrt(max(end, 0.0) / drawn.shape[1]) for end in ends)
    walk = rate * math.sqrt(steps * float(drawn.var(0, ddof=1).mean()))
    return max(least, walk), most + walk


def decayed(case: Case, training: Training) -> Seen:
    """Say whether the optimiser decays means or scales of a posterior. That is a mistake: the prior is in the KL."""
    named = {name for factor in case.groups for name in factor.means | factor.scales} | case.alone.keys()
    if not named:
        return Seen("not applicable", "no parameters named as mean and scale; give factors=")
    hit = {name: training.decays[name] for name in sorted(named) if training.decays.get(name)}
    if not hit:
        return Seen("passes", "the optimiser decays no mean and no scale", {"tensors": 0})
    shown = ", ".join(f"{name} ({decay:.3g})" for name, decay in hit.items())
    effect = "for a mean, a second prior; for a scale, a pull to raw value 0, whatever sigma that is"
    detail = f"{training.optimizer}'s weight_decay pulls {shown}: {effect}"
    return Seen("fails", detail, {"tensors": len(hit)})


def noisy_where_pruned(case: Case) -> Seen:
    """Say whether weights whose mean is exactly zero still have noise, where other means of the tensor are not zero.

    A block of means, such as biases, may have started at zero: it counts as pruned only if its sigma differs.
    """
    pruned, noisy, example, unsure = 0, 0, 0.0, []
    for factor in case.groups:
        mean, std = factor.mean(), factor.spread()
        zero = mean == 0
        if zero.all():  # means that start at zero
            continue
        left = std[zero & (std > 0)]
        pruned += int(zero.sum())
        if not len(left):
            continue
        masked = _is_scattered(zero) and left.mean() > QUIET * std[~zero].mean()
        raised = left.min() > RAISED * std[~zero].max()
        if masked or raised or _was_reset(case.objective, factor, zero):
            noisy += len(left)
            example = float(left.mean())
        else:
            unsure.append(factor.name)
    if not pruned:
        return Seen("not applicable", "no weight is pruned")
    detail = f"{noisy:,} of {pruned:,} weights with mean 0 have noise"
    if noisy:
        return Seen("fails", f"{detail}, sigma {example:.3g} on average", {"noisy": noisy})
    if unsure:
        return Seen("not measured", f"some means of {'; '.join(unsure)} are 0: pruned, or started at zero?")
    return Seen("passes", detail, {"noisy": 0})


def _is_scattered(zero: NDArray[np.bool_]) -> bool:
    """Return whether zeros are scattered, as a mask leaves them: not whole slices, and mostly not side by side."""
    slices = (zero.all(axis, keepdims=True) for axis in range(zero.ndim) if zero.ndim > 1)
    if any((each == zero).all() for each in slices):
        return False
    flat = zero.ravel()
    n_zeros, changes = int(flat.sum()), int((flat[1:] != flat[:-1]).sum())
    # a random mask has at least as many changes as the rarer of zeros and others
    return 2 * changes > min(n_zeros, len(flat) - n_zeros)


def _was_reset(objective: Objective, factor: Group, zero: NDArray[np.bool_]) -> bool:
    """Return whether the raw scale is exactly 0 where `zero` is true, and nowhere else."""
    raws = [objective.value(name) for name in factor.scales]
    return any(np.array_equal(raw == 0, zero) for raw in raws)
