"""The audit of a loss in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence, Sized

import torch
from torch import Tensor, optim

from elbo_audit import audits, sigma
from elbo_audit.errors import AuditError
from elbo_audit.factors import Factor, Gaussian
from elbo_audit.findings import ElboReport
from elbo_audit.names import case_of
from elbo_audit.objective import Batch
from elbo_audit.predictions import repeats
from elbo_audit.sigma import Kind, Training
from elbo_audit.torch_objective import Loss, TorchObjective

_KINDS: dict[Kind, tuple[type[optim.Optimizer], ...]] = {
    "by gradient": (optim.SGD, optim.ASGD),
    "scaled": (optim.Adam, optim.AdamW, optim.Adamax, optim.NAdam, optim.RAdam, optim.RMSprop, optim.Rprop),
    "adagrad": (optim.Adagrad,),
}


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
    draws: int = audits.DRAWS,
) -> ElboReport:
    """Audit the loss of a training step.

    Args:
        loss: `loss(*batch)` is the differentiable number that a step minimises; noise from torch's global generator.
        parameters: names and leaf tensors, such as `model.named_parameters()`.
        batches: three or more, each the arguments of `loss`, rows first. Those of the commonest size count.
        n_train: N, rows of the training set.
        nll: `nll(*batch)` is -log p(y | x, w) summed over the batch. It must draw the noise that `loss` draws; where a
            step averages over several draws, give their mean. Without `nll`, the audit assumes that the loss counts
            the likelihood once, and cannot measure the KL of a loss that is a mean over rows.
        kl: `kl()` is the unscaled KL, for posteriors that are not independent Gaussians. It gets no batch.
        factors: means and standard deviations of the weights, as names (`Gaussian`) or functions (`Factor`); by
            default paired by the parameters' names.
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
    case = case_of(objective, factors, n_train, prior_std, draws, n_batches)
    training = None
    if optimizer is not None:
        training = _training(objective, optimizer, epochs * math.ceil(n_train / objective.batch_size))
    seen = audits.apply_rules(case, training)
    if training is not None:
        seen["decayed-posterior"] = sigma.decayed(case, training)
    if predict is not None:
        seen["dropout-at-test"] = repeats(predict, not case.groups if deterministic is None else deterministic)
    return audits.report(seen)


def _training(objective: TorchObjective, optimizer: optim.Optimizer, steps: int) -> Training:
    """Return what an optimiser does to each parameter."""
    rates: dict[str, float] = {}
    decays: dict[str, float] = {}
    for group in optimizer.param_groups:
        rate, decay = float(group["lr"]), float(group.get("weight_decay", 0.0))
        rate /= 1 - float(group.get("momentum", 0.0)) if isinstance(optimizer, _KINDS["by gradient"]) else 1
        held = [name for name in objective.shapes if any(objective.holds(name, tensor) for tensor in group["params"])]
        rates = dict.fromkeys(held, rate) | rates  # the first group counts
        decays |= dict.fromkeys(held, decay) if decay else {}
    kinds = [kind for kind, types in _KINDS.items() if isinstance(optimizer, types)]
    kind: Kind = kinds[0] if kinds else "unknown"
    return Training(type(optimizer).__name__, kind, steps, rates, decays)
