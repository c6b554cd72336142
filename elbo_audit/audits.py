"""The two audits: every rule for objectives on a loss in PyTorch, and on model, guide and estimator of Pyro."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from elbo_audit import gradients, kl, likelihood, sigma
from elbo_audit.errors import AuditError, MissingLibrary
from elbo_audit.findings import Finding, Seen
from elbo_audit.names import factors_by_name, means_without_scale
from elbo_audit.objective import AuditedObjective, Batch, Case, Factor, Loss, Program
from elbo_audit.predictions import repeats
from elbo_audit.report import ElboReport

DRAWS = 8  # number of seeds to average a sampled KL over


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
        AuditError: arguments that do not fit together, or a loss that is not finite.
    """
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise AuditError(f"optimizer is a {type(optimizer).__name__}; give the torch.optim.Optimizer that trains")
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
        AuditError: arguments that do not fit together, or a loss that is not finite.
        MissingLibrary: Pyro is not installed.
    """
    try:
        from elbo_audit.pyro_sites import PyroObjective  # here: Pyro is an optional package
    except ModuleNotFoundError as error:
        raise MissingLibrary("audit_pyro needs Pyro: pip install 'bnn-uncertainty-bench[pyro]'") from error

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
