"""The audits of a loss in PyTorch, and of model, guide and estimator of Pyro."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Literal

import torch
from torch import Tensor, optim

from elbo_audit import kl, sigma
from elbo_audit.audits import DRAWS, apply_rules, report
from elbo_audit.errors import AuditError, MissingLibrary
from elbo_audit.factors import Factor, Gaussian
from elbo_audit.findings import Advice, Seen
from elbo_audit.names import alone, gaussians
from elbo_audit.objective import Batch, Case, count
from elbo_audit.predictions import repeats
from elbo_audit.report import ElboReport
from elbo_audit.sigma import Training
from elbo_audit.torch_objective import Loss, TorchObjective, as_array

Program = Callable[..., object]  # a model or guide of Pyro, called with a batch

_SCALED = (optim.Adam, optim.AdamW, optim.Adamax, optim.NAdam, optim.RAdam, optim.RMSprop, optim.Rprop)
_BY_GRADIENT = (optim.SGD, optim.ASGD)


def audit_torch(
    loss: Loss,
    parameters: Iterable[tuple[str, Tensor]],
    batches: Sequence[Batch],
    n_train: int,
    *,
    nll: Loss | None = None,
    kl: Callable[[], Tensor] | None = None,
    factors: Sequence[Factor | Gaussian] | None = None,
    prior_std: float | None = None,
    optimizer: optim.Optimizer | None = None,
    epochs: int = 1,
    predict: Callable[[], Tensor] | None = None,
    deterministic: bool | None = None,
    n_batches: int | Sized | None = None,
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
        n_batches: steps of an epoch, or the loader; without it, the audit assumes N / B, rounded as suits the loss.
        draws: number of seeds to average over.

    Raises:
        AuditError: arguments that do not fit together, or a loss that is not finite.
    """
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise AuditError(f"optimizer is a {type(optimizer).__name__}; give the torch.optim.Optimizer that trains")
    objective = TorchObjective(loss, parameters, batches, nll, kl)
    lone: dict[str, str] = {}
    if factors is None:
        named = {name: objective.value(name) for name in objective.named}
        factors = pairs = gaussians(named, objective.shapes)
        lone = alone(objective.shapes, pairs) if kl is None else {}
    groups = [objective.group(factor) for factor in factors]
    case = Case(objective, groups, n_train, prior_std, draws, lone, count(n_batches))
    training = None
    if optimizer is not None:
        training = _training(objective, optimizer, epochs * math.ceil(n_train / objective.batch_size))
    seen = apply_rules(case, training)
    if training is not None:
        seen["decayed-posterior"] = sigma.decayed(case, training)
    if predict is not None:
        seen["dropout-at-test"] = repeats(predict, not factors if deterministic is None else deterministic)
    return report(seen)


def _training(objective: TorchObjective, optimizer: optim.Optimizer, steps: int) -> Training:
    """Return what an optimiser does to each parameter."""
    rates: dict[str, float] = {}
    decays: dict[str, float] = {}
    for group in optimizer.param_groups:
        rate, decay = float(group["lr"]), float(group.get("weight_decay", 0.0))
        rate /= 1 - float(group.get("momentum", 0.0)) if isinstance(optimizer, _BY_GRADIENT) else 1
        held = [name for name in objective.shapes if any(objective.holds(name, tensor) for tensor in group["params"])]
        rates = dict.fromkeys(held, rate) | rates  # the first group counts
        decays |= dict.fromkeys(held, decay) if decay else {}
    kind: Literal["by gradient", "scaled", "adagrad", "unknown"] = "unknown"
    if isinstance(optimizer, optim.Adagrad):
        kind = "adagrad"
    elif isinstance(optimizer, (*_SCALED, *_BY_GRADIENT)):
        kind = "scaled" if isinstance(optimizer, _SCALED) else "by gradient"
    return Training(type(optimizer).__name__, kind, steps, rates, decays)


def audit_pyro(
    model: Program,
    guide: Program,
    batches: Sequence[Batch],
    n_train: int,
    *,
    loss: object = None,
    factors: Sequence[Factor | Gaussian] | None = None,
    prior_std: float | None = None,
    n_batches: int | Sized | None = None,
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
        prior_std: the standard deviation that the prior should have; by default that of the model's latent sites.
        n_batches: steps of an epoch, or the loader; without it, the audit assumes N / B, rounded as suits the loss.
        draws: number of seeds to average over.

    Raises:
        AuditError: arguments that do not fit together, or a loss that is not finite.
        MissingLibrary: Pyro is not installed.
    """
    try:
        from elbo_audit.pyro_sites import PyroSites  # here: Pyro is an optional package
    except ModuleNotFoundError as error:
        raise MissingLibrary("audit_pyro needs Pyro: pip install 'bnn-uncertainty-bench[pyro]'") from error

    sites = PyroSites(model, guide, batches, loss)
    named = {name: as_array(value) for name, value in sites.values().items()}
    trained = {name for name, value in sites.values().items() if value.requires_grad}
    found = gaussians(named, trained)  # a scale that is not positive has no constraint: it is its own leaf
    pairs = [pair if pair.other else sites.factor(pair) for pair in found] if factors is None else factors
    objective = sites.objective(with_kl=not pairs)
    other = "factors=[], which takes the KL from the latent sites"
    groups = [objective.group(factor) for factor in pairs]
    prior_std = sites.prior_std if prior_std is None else prior_std
    case = Case(objective, groups, n_train, prior_std, draws, {}, count(n_batches), other)
    seen = apply_rules(case)
    if sites.broadcast:
        hidden = "rows broadcast (wrong-likelihood), so that the loss holds another likelihood; mend that first"
        seen |= dict.fromkeys(kl.RULES, Seen("not measured", hidden))
        cause = Advice("rows", "likelihood")
        seen["wrong-likelihood"] = Seen("fails", sites.broadcast, advised=True, advice=cause)
    elif (plate := sites.plate) and plate.full_size != n_train and seen["kl-scale"].outcome != "passes":
        detail = (
            f"the plate '{plate.name}' has {plate.full_size:,} rows, and n_train is {n_train:,}: give both one size"
        )
        seen["kl-scale"] = seen["kl-scale"]._replace(detail=f"{detail}; {seen['kl-scale'].detail}", advised=True)
    if constant := ", ".join(sites.constant_scales(*objective.batches[0])):
        detail = f"the guide's scale of {constant} is a constant; make it a pyro.param, constraint=positive"
        seen["sigma-frozen"] = Seen("fails", detail)
    return report(seen)
