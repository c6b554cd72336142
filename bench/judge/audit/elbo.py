"""Audit the objective of a Bayesian network in PyTorch or Pyro, numerically.

    from bench.judge.audit import elbo
    report = elbo.audit_torch(loss, model.named_parameters(), batches, n_train=60_000, nll=nll)
    print(report)

`audit_torch` takes the loss of a training step as a black box; `audit_pyro` takes model, guide and estimator. Both
say how often the KL counts in an epoch, and which parameters are detached, unused or cannot move. Latent variables of
single rows, as a VAE has, are outside it. See docs/audit.md for what each argument makes visible, and what stays
invisible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bench.core.errors import unknown_name
from bench.judge.audit import sigma
from bench.judge.audit.case import Case
from bench.judge.audit.findings import Finding
from bench.judge.audit.judging import judge
from bench.judge.audit.objective import Batch, Factor, Loss, Objective
from bench.judge.audit.pairing import factors_by_name, without_scale
from bench.judge.audit.predictions import audit_prediction, entropy_of, repeats

__all__ = ["Factor", "Report", "audit_prediction", "audit_pyro", "audit_torch", "entropy_of"]

DRAWS = 8  # seeds that a sampled KL is averaged over


@dataclass(frozen=True)
class Report:
    """What an audit found."""

    findings: tuple[Finding, ...]
    numbers: Mapping[str, float]  # kl_per_epoch (1 for an ELBO), data_weight, prior_std, as measured

    @property
    def ok(self) -> bool:
        """Return whether no rule fails."""
        return all(finding.outcome != "fails" for finding in self.findings)

    def of(self, rule: str) -> Finding:
        """Return the finding of a rule; raises ConfigError for one that this audit did not apply."""
        found = {finding.rule: finding for finding in self.findings}
        if rule not in found:
            raise unknown_name("rule of this audit", rule, found)
        return found[rule]

    def __str__(self) -> str:
        return "\n".join(finding.line() for finding in self.findings)


def audit_torch(
    loss: Loss,
    parameters: Iterable[tuple[str, Tensor]],
    batches: Sequence[Batch],
    n_train: int,
    *,
    nll: Loss | None = None,
    kl: Callable[[], Tensor] | None = None,
    factors: Sequence[Factor] | None = None,
    prior_std: float | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    epochs: int = 1,
    predict: Callable[[], Tensor] | None = None,
    deterministic: bool | None = None,
    draws: int = DRAWS,
    subject: str = "objective",
) -> Report:
    """Audit the loss of a training step.

    Args:
        loss: `loss(*batch)` is the differentiable number that a step minimises; noise from torch's global generator.
        parameters: names and leaf tensors, such as `model.named_parameters()`.
        batches: three or more batches of one size, each the arguments of `loss`, rows first.
        n_train: N, rows of the training set.
        nll: `nll(*batch)` is -log p(y | x, w) summed over the batch, drawing the noise that `loss` draws: where a step
            averages over several draws, their mean. Without it the likelihood is taken to weigh 1, and a loss that
            is a mean over rows cannot be audited for its KL.
        kl: the unscaled KL, for posteriors that are not independent Gaussians.
        factors: means and standard deviations of the weights; by default paired by the parameters' names.
        prior_std: standard deviation of the prior that is meant.
        optimizer: with `epochs`, tells how far sigma can get.
        epochs: of the planned training.
        predict: makes the predictions of the network as tested.
        deterministic: whether `predict` is meant to give the same twice; by default if no weight has a sigma.
        draws: seeds that are averaged over.
        subject: what the findings are about.

    Raises:
        ConfigError: arguments that do not fit together, or a loss that is not finite.
    """
    objective = Objective(loss, parameters, batches, nll)
    groups = list(factors) if factors is not None else factors_by_name(lambda: objective.named)
    lone = without_scale(objective.parameters, groups) if factors is None and kl is None else []
    case = Case(objective, groups, kl, n_train, prior_std, draws, subject, lone)
    found, numbers = judge(case)
    found.append(sigma.frozen(case, optimizer, epochs * math.ceil(n_train / objective.batch_size)))
    found.append(sigma.noisy_where_pruned(groups, subject))
    if predict is not None:
        found.append(repeats(predict, not groups if deterministic is None else deterministic, subject))
    return Report(tuple(found), numbers)


def audit_pyro(
    model: Callable[..., Any],
    guide: Callable[..., Any],
    batches: Sequence[Batch],
    n_train: int,
    *,
    loss: Any = None,
    factors: Sequence[Factor] | None = None,
    prior_std: float | None = None,
    draws: int = DRAWS,
    subject: str = "objective",
) -> Report:
    """Audit model, guide and estimator of Pyro, as an SVI step on a batch uses them.

    The likelihood is that of the observed sites, without any scale; the KL is taken from the parameters paired by name,
    else from the latent sites' log q - log p without any scale.

    Args:
        model: called with a batch.
        guide: called with a batch.
        batches: three or more batches of one size.
        n_train: N, rows of the training set.
        loss: the estimator, such as TraceMeanField_ELBO(); by default Trace_ELBO().
        factors: means and standard deviations of the weights; by default paired by the names in Pyro's store.
        prior_std: standard deviation of the prior that is meant.
        draws: seeds that are averaged over.
        subject: what the findings are about.

    Raises:
        ConfigError: arguments that do not fit together, or a loss that is not finite.
        MissingFramework: Pyro is not installed.
    """
    from bench.judge.audit.pyro_sites import PyroObjective

    sites = PyroObjective(model, guide, batches, loss)
    objective = Objective(sites.loss, sites.parameters(), batches, sites.nll)
    groups = list(factors) if factors is not None else factors_by_name(sites.values)
    kl = None if groups else sites.kl_of(objective.batches[0], draws)
    case = Case(objective, groups, kl, n_train, prior_std, draws, subject)
    found, numbers = judge(case)
    found.append(sigma.frozen(case, None, 0))
    found.append(sigma.noisy_where_pruned(groups, subject))
    return Report(tuple(found), numbers)
