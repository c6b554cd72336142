"""Can sigma move in the planned training, and is it zero where the mean was pruned?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from bench.judge.audit.elbo.least_squares import common
from bench.judge.audit.elbo.objective import AuditedObjective, Case, Factor, Gradient
from bench.judge.audit.findings import Seen

DRAWS = 4  # number of gradients to average a drift over
STILL = 0.05  # a smaller relative change over the whole training leaves sigma where it started
SIGN_LIKE = ("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Rprop")


def frozen(case: Case, optimizer: torch.optim.Optimizer | None, steps: int) -> Seen:
    """Say whether sigma gets a gradient and, with an optimiser, how far rate x gradient x steps can take it.

    For SGD the drift is rate / (1 - momentum) x gradient x steps, with the root mean square of the part of the gradient
    that several draws share. Optimisers that scale the gradient move each number by up to their rate in a step,
    whatever the gradient is.
    """
    objective = case.objective
    if case.lone_means:
        detail = (
            f"{', '.join(case.lone_means)} has no partner such as rho that can be trained: a sigma that is a buffer "
            "never moves; give factors= if it has another name"
        )
        return Seen("not measured", detail)
    if not case.groups:
        return Seen("not applicable", "no parameters named as mean and scale; give factors=")
    gradients = [
        objective.gradient(objective.loss(objective.batches[draw % len(objective.batches)], draw))
        for draw in range(DRAWS)
    ]
    stuck, reach = [], {}
    for factor in case.groups:
        slopes = objective.gradient(factor.std().log().sum())
        raw = [name for name, slope in slopes.items() if bool(slope.any())]
        if not any(bool(gradient[name].any()) for gradient in gradients for name in raw):
            stuck.append(factor.name)
        elif optimizer is not None:
            reach[factor.name] = max(
                _reach(objective, optimizer, name, gradients, steps) * float(slopes[name].abs().mean()) for name in raw
            )
    if stuck:
        return Seen("fails", f"no gradient reaches the sigma of {', '.join(stuck)}")
    if optimizer is None:
        return Seen("passes", "sigma gets a gradient everywhere; how far it moves needs optimizer=")
    least = min(reach, key=lambda name: reach[name])
    detail = f"in {steps:,} steps sigma can change by {reach[least]:.2%} (least: {least})"
    return Seen("fails" if reach[least] < STILL else "passes", detail, {"relative change": reach[least]})


def constant(sites: Sequence[str]) -> Seen:
    """Judge sites of a guide whose scale depends on no parameter, though their mean does."""
    detail = f"the guide's scale of {', '.join(sites)} is a constant; make it a pyro.param, constraint=positive"
    return Seen("fails", detail)


def _reach(
    objective: AuditedObjective,
    optimizer: torch.optim.Optimizer,
    name: str,
    gradients: Sequence[Gradient],
    steps: int,
) -> float:
    """Return how far the numbers of a parameter can get, on average."""
    group = next((g for g in optimizer.param_groups if any(objective.holds(name, p) for p in g["params"])), None)
    if group is None:  # the optimiser was not given it
        return 0.0
    rate = float(group["lr"])
    if type(optimizer).__name__ in SIGN_LIKE:
        return rate * steps
    found = common(torch.stack([gradient[name].flatten() for gradient in gradients]))
    drift = math.sqrt(max(found.value, 0.0) / gradients[0][name].numel())  # unsigned: opposite moves do not cancel
    return rate / (1 - float(group.get("momentum", 0.0))) * drift * steps


def decayed(case: Case, optimizer: torch.optim.Optimizer) -> Seen:
    """Say whether the optimiser decays means or scales of a posterior: its prior is in the KL already."""
    objective = case.objective
    scales = {name for factor in case.groups for name in objective.paths(factor.std().sum())}
    means = {name for factor in case.groups for name in objective.paths(factor.mean().sum())} | set(case.lone_means)
    if not scales | means:
        return Seen("not applicable", "no parameters named as mean and scale; give factors=")
    hit: dict[str, float] = {}
    for group in optimizer.param_groups:
        decay = float(group.get("weight_decay", 0.0))
        held = [name for name in sorted(scales | means) if any(objective.holds(name, p) for p in group["params"])]
        hit |= dict.fromkeys(held, decay) if decay else {}
    if not hit:
        return Seen("passes", "the optimiser decays no mean and no scale", {"tensors": 0})
    kind = type(optimizer).__name__
    shown = ", ".join(f"{name} ({decay:.3g})" for name, decay in hit.items())
    effects = ["a decayed mean has a second prior"] if means & hit.keys() else []
    effects += ["a decayed scale is pulled to raw value 0, whatever sigma that is"] if scales & hit.keys() else []
    return Seen("fails", f"{kind}'s weight_decay pulls {shown}: {'; '.join(effects)}", {"tensors": len(hit)})


def noisy_where_pruned(factors: Sequence[Factor]) -> Seen:
    """Say whether weights whose mean is exactly zero, among others whose mean is not, still have noise."""
    pruned, noisy, example = 0, 0, 0.0
    for factor in factors:
        mean, std = factor.mean().detach(), factor.spread().detach()
        zero = mean == 0
        if bool(zero.all()):  # means that start at zero
            continue
        left = std[zero & (std > 0)]
        pruned += int(zero.sum())
        noisy += len(left)
        example = float(left.mean()) if len(left) else example
    if not pruned:
        return Seen("not applicable", "no weight is pruned")
    detail = f"{noisy:,} of {pruned:,} weights with mean 0 have noise"
    if noisy:
        return Seen("fails", f"{detail}, sigma {example:.3g} on average", {"noisy": noisy})
    return Seen("passes", detail, {"noisy": 0})
