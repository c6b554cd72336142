"""Sigmas that cannot move, and sigmas of weights that were pruned."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bench.core.errors import ConfigError
from bench.judge.audit.case import Case
from bench.judge.audit.findings import Finding, Outcome
from bench.judge.audit.objective import Factor, Objective

DRAWS = 4  # gradients that a drift is the mean of
STILL = 0.05  # relative change of sigma over the whole training, below which it stayed where it started
SIGN_LIKE = ("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Rprop")


def frozen(case: Case, optimizer: torch.optim.Optimizer | None, steps: int) -> Finding:
    """Say whether sigma gets a gradient and, with an optimiser, how far rate x gradient x steps can take it.

    For SGD the drift is rate / (1 - momentum) x mean gradient x steps; optimisers that scale the gradient move each
    number by up to their rate a step, whatever the gradient is.
    """
    rule, objective, factors, subject = "sigma-frozen", case.objective, case.groups, case.subject
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise ConfigError(f"optimizer is a {type(optimizer).__name__}; give the torch.optim.Optimizer that trains")
    if case.lone_means:
        detail = (
            f"{', '.join(case.lone_means)} has no partner such as rho that can be trained: a sigma that is a buffer "
            "never moves; give factors= if it has another name"
        )
        return Finding(rule, subject, "not measured", detail)
    if not factors:
        return Finding(rule, subject, "not applicable", "no parameters named as mean and scale; give factors=")
    gradients = [
        objective.gradient(objective.loss(objective.batches[draw % len(objective.batches)], draw))
        for draw in range(DRAWS)
    ]
    stuck, reach = [], {}
    for factor in factors:
        std = factor.std()
        paths = objective.gradient(std.log().sum())
        raw = [name for name, path in paths.items() if bool(path.any())]
        if not any(bool(gradient[name].any()) for gradient in gradients for name in raw):
            stuck.append(factor.name)
        elif optimizer is not None:
            reach[factor.name] = max(
                _reach(objective, optimizer, name, [g[name] for g in gradients], steps)
                * float(paths[name].abs().mean())
                for name in raw
            )
    if stuck:
        return Finding(rule, subject, "fails", f"no gradient reaches the sigma of {', '.join(stuck)}")
    if optimizer is None:
        return Finding(rule, subject, "passes", "sigma gets a gradient everywhere; how far it moves needs optimizer=")
    least = min(reach, key=lambda name: reach[name])
    detail = f"in {steps:,} steps sigma can change by {reach[least]:.2%} (least: {least})"
    outcome: Outcome = "fails" if reach[least] < STILL else "passes"
    return Finding(rule, subject, outcome, detail, {"relative change": reach[least]})


def _reach(
    objective: Objective, optimizer: torch.optim.Optimizer, name: str, gradients: Sequence[torch.Tensor], steps: int
) -> float:
    """Return how far the numbers of a parameter can get, on average."""
    group = next((g for g in optimizer.param_groups if any(p is objective.parameters[name] for p in g["params"])), None)
    if group is None:  # the optimiser was not given it
        return 0.0
    rate = float(group["lr"])
    if type(optimizer).__name__ in SIGN_LIKE:
        return rate * steps
    drift = abs(float(torch.stack(list(gradients)).mean()))
    return rate / (1 - float(group.get("momentum", 0.0))) * drift * steps


def noisy_where_pruned(factors: Sequence[Factor], subject: str) -> Finding:
    """Say whether weights whose mean is exactly zero, among others whose is not, still have noise."""
    rule = "pruned-noise"
    pruned, noisy, example = 0, 0, 0.0
    for factor in factors:
        mean, std = factor.mean().detach(), factor.std().detach().expand_as(factor.mean())
        zero = mean == 0
        if bool(zero.all()):  # means that start at zero
            continue
        left = std[zero & (std > 0)]
        pruned += int(zero.sum())
        noisy += len(left)
        example = float(left.mean()) if len(left) else example
    if not pruned:
        return Finding(rule, subject, "not applicable", "no weight is pruned")
    detail = f"{noisy:,} of {pruned:,} weights with mean 0 have noise"
    if noisy:
        return Finding(rule, subject, "fails", f"{detail}, sigma {example:.3g} on average", {"noisy": noisy})
    return Finding(rule, subject, "passes", detail, {"noisy": 0})
