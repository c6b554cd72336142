"""Audit the objective of a Bayesian network in PyTorch or Pyro, numerically.

    from bench.judge.audit import elbo
    report = elbo.audit_torch(loss, model.named_parameters(), batches, n_train=60_000, nll=nll)
    print(report)

`audit_torch` takes the loss of a training step as a black box. `audit_pyro` takes model, guide and estimator. Each
file answers one question:

    likelihood   how often does the loss count the data, and what other terms does it have?
    kl           how often does an epoch count the KL of each tensor, with which sign, and how wide is the prior?
    gradients    is autograd's gradient the slope of the loss, and do the data influence every parameter?
    sigma        can training change sigma, does the optimiser decay it, and is it zero where the mean was pruned?

`bench.judge.audit.predictions` says which mean of the draws a reported prediction is, and whether two calls agree.

The audit does not cover latent variables of single rows, as a VAE has. docs/audit.md says which mistakes each argument
makes visible, and which mistakes the audit cannot see.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from bench.core.errors import ConfigError, MissingFramework, unknown_name
from bench.judge.audit.elbo import gradients, kl, likelihood, sigma
from bench.judge.audit.elbo.names import factors_by_name, means_without_scale
from bench.judge.audit.elbo.objective import AuditedObjective, Batch, Case, Factor, Loss, Program
from bench.judge.audit.findings import Finding, Seen
from bench.judge.audit.predictions import audit_prediction, entropy_of, repeats

__all__ = ["ElboReport", "Factor", "audit_prediction", "audit_pyro", "audit_torch", "entropy_of"]

DRAWS = 8  # number of seeds to average a sampled KL over

_NUMBERS = {  # of `ElboReport.numbers`: the rule that measures each, and its key in that finding
    "data_weight": ("wrong-likelihood", "weight"),
    "kl_per_epoch": ("kl-scale", "kl_per_epoch"),
    "prior_std": ("variance-as-std", "prior_std"),
}


@dataclass(frozen=True)
class ElboReport:
    """What an audit found."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Return whether no rule fails."""
        return all(finding.outcome != "fails" for finding in self.findings)

    @property
    def numbers(self) -> dict[str, float]:
        """Return what was measured: kl_per_epoch (1 for an ELBO), data_weight, prior_std."""
        measured = {finding.rule: finding.measured for finding in self.findings}
        return {name: measured[rule][key] for name, (rule, key) in _NUMBERS.items() if key in measured[rule]}

    @property
    def kl_weights(self) -> dict[str, float]:
        """Return how often an epoch counts the KL of each group of weights, by the group's name."""
        found = self.of("kl-scale").measured
        return {key.removeprefix("of "): value for key, value in found.items() if key.startswith("of ")}

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
) -> ElboReport:
    """Audit the loss of a training step.

    Args:
        loss: `loss(*batch)` is the differentiable number that a step minimises; noise from torch's global generator.
        parameters: names and leaf tensors, such as `model.named_parameters()`.
        batches: three or more batches of one size, each the arguments of `loss`, rows first.
        n_train: N, rows of the training set.
        nll: `nll(*batch)` is -log p(y | x, w) summed over the batch. It must draw the noise that `loss` draws; where a
            step averages over several draws, give their mean. Without `nll`, the audit assumes that the loss counts
            the likelihood once, and cannot measure the KL of a loss that is a mean over rows.
        kl: the unscaled KL, for posteriors that are not independent Gaussians.
        factors: means and standard deviations of the weights; by default paired by the parameters' names.
        prior_std: the standard deviation that the prior should have.
        optimizer: the one that trains; with `epochs`, it tells how far sigma can get.
        epochs: of the planned training.
        predict: returns predictions of the network, in the state in which it is tested.
        deterministic: whether `predict` should give the same twice; by default if no weight has a sigma.
        draws: number of seeds to average over.

    Raises:
        ConfigError: arguments that do not fit together, or a loss that is not finite.
    """
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise ConfigError(f"optimizer is a {type(optimizer).__name__}; give the torch.optim.Optimizer that trains")
    objective = AuditedObjective(loss, parameters, batches, nll)
    groups = list(factors) if factors is not None else factors_by_name(lambda: objective.named)
    lone = means_without_scale(objective.parameters, groups) if factors is None and kl is None else []
    case = Case(objective, groups, kl, n_train, prior_std, draws, lone)
    seen = _apply_rules(case, optimizer, epochs * math.ceil(n_train / objective.batch_size))
    if optimizer is not None:
        seen["decayed-posterior"] = sigma.decayed(case, optimizer)
    if predict is not None:
        seen["dropout-at-test"] = repeats(predict, not groups if deterministic is None else deterministic)
    return _report(seen)


def audit_pyro(
    model: Program,
    guide: Program,
    batches: Sequence[Batch],
    n_train: int,
    *,
    loss: object = None,
    factors: Sequence[Factor] | None = None,
    prior_std: float | None = None,
    draws: int = DRAWS,
) -> ElboReport:
    """Audit model, guide and estimator of Pyro, as an SVI step on a batch uses them.

    The likelihood comes from the observed sites. The KL comes from the parameters that are paired by name; if there are
    none, it is log q - log p of the latent sites. Scales, as of `poutine.scale`, are left out of both.

    Args:
        model: called with a batch.
        guide: called with a batch.
        batches: three or more batches of one size.
        n_train: N, rows of the training set.
        loss: the estimator, such as TraceMeanField_ELBO(); by default Trace_ELBO().
        factors: means and standard deviations of the weights; by default paired by the names in Pyro's store.
        prior_std: the standard deviation that the prior should have.
        draws: number of seeds to average over.

    Raises:
        ConfigError: arguments that do not fit together, or a loss that is not finite.
        MissingFramework: Pyro is not installed.
    """
    try:
        from bench.judge.audit.elbo.pyro_sites import PyroObjective  # here: Pyro is an optional package
    except ModuleNotFoundError as error:
        raise MissingFramework("audit_pyro needs Pyro: pip install 'bnn-uncertainty-bench[pyro]'") from error

    sites = PyroObjective(model, guide, batches, loss)
    objective = AuditedObjective(sites.loss, sites.parameters(), batches, sites.nll)
    groups = list(factors) if factors is not None else factors_by_name(sites.values)
    unscaled = None if groups else partial(sites.kl, *objective.batches[0])
    other = "factors=[], which takes the KL from the latent sites"
    case = Case(objective, groups, unscaled, n_train, prior_std, draws, other_kl=other)
    seen = _apply_rules(case, None, 0)
    if constant := ", ".join(sites.constant_scales(*objective.batches[0])):
        detail = f"the guide's scale of {constant} is a constant; make it a pyro.param, constraint=positive"
        seen["sigma-frozen"] = Seen("fails", detail)
    return _report(seen)


def _apply_rules(case: Case, optimizer: torch.optim.Optimizer | None, steps: int) -> dict[str, Seen]:
    """Return what each rule sees, in the order of the report."""
    objective = case.objective
    before = objective.value()
    data = likelihood.data_weight(objective, case.draws) if objective.has_nll else None
    slope = gradients.detached(objective, data)
    seen = {
        "wrong-likelihood": likelihood.judge(data),
        **kl.judge(case, data, has_slopes=slope.outcome != "fails"),
        "detached-gradient": slope,
        "unused-layer": gradients.unused(objective, case.groups),
    }
    drift = objective.drift(before)
    if drift:  # a changed state also changes the differences that these rules compare
        detail = (
            f"calls with the same batch and noise differ by {drift:.2g}: the loss keeps a state, such as a warm-up's "
            "counter, or draws from a generator of its own; hold that still, such as at the warm-up's end"
        )
        seen = dict.fromkeys(seen, Seen("not measured", detail))
    if objective.sets_seed():
        seen["repeated-noise"] = Seen("fails", "the loss sets torch's seed, so that every step draws the same noise")
    else:
        seen["repeated-noise"] = Seen("passes", "the loss does not set torch's seed")
    seen["sigma-frozen"] = sigma.frozen(case, optimizer, steps)
    seen["pruned-noise"] = sigma.noisy_where_pruned(case)
    return seen


def _report(seen: Mapping[str, Seen]) -> ElboReport:
    return ElboReport(tuple(Finding(rule, "objective", *what) for rule, what in seen.items()))
