"""Libraries without layers of their own: posteriors' variational inference, and Pyro's automatic guides."""

# mypy: disable-error-code="no-untyped-call"
# (Pyro has no types)
from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.judge.audit.elbo import ElboReport, Factor, audit_pyro, audit_torch
from bench.judge.audit.libraries.examples import BATCH, N_TRAIN
from bench.judge.audit.libraries.setting import SIZES, batches, library, network


def posteriors(corrected: bool) -> ElboReport:
    """Audit vi.diag with log_posterior = -cross-entropy + log prior / N and temperature 1 / N.

    The default estimator (stl=True) leaves out a part of the gradient whose mean is zero; corrected: stl=False.
    """
    package = library("posteriors")
    vi = library("posteriors.vi.diag")
    net = network(nn.Linear)
    means = {name: value.detach().clone().requires_grad_() for name, value in net.named_parameters()}
    log_stds = {name: torch.zeros_like(value).requires_grad_() for name, value in means.items()}

    def log_posterior(weights: dict[str, Tensor], batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, y = batch
        output: Tensor = torch.func.functional_call(net, weights, x)
        return -functional.cross_entropy(output, y) + package.diag_normal_log_prob(weights) / N_TRAIN, output

    def loss(x: Tensor, y: Tensor) -> Tensor:
        stds = {name: value.exp() for name, value in log_stds.items()}
        value: Tensor = vi.nelbo(means, stds, (x, y), log_posterior, 1 / N_TRAIN, 1, not corrected)[0]
        return value

    def nll(x: Tensor, y: Tensor) -> Tensor:
        stds = {name: value.exp() for name, value in log_stds.items()}
        weights = package.diag_normal_sample(means, stds, sample_shape=(1,))
        output = torch.func.functional_call(net, {name: value[0] for name, value in weights.items()}, x)
        return functional.cross_entropy(output, y, reduction="sum")

    factors = [Factor(name, _itself(means[name]), log_stds[name].exp) for name in means]
    named = [
        (f"{name}.{kind}", part[name]) for kind, part in (("mean", means), ("log_std", log_stds)) for name in means
    ]
    return audit_torch(loss, named, batches(32), N_TRAIN, nll=nll, factors=factors)


def _itself(value: Tensor) -> Callable[[], Tensor]:
    return lambda: value


def auto_normal(corrected: bool) -> ElboReport:
    """Audit AutoNormal with Trace_ELBO, and a plate of the batch; corrected: scaled by N / batch size."""
    return _automatic_guide("AutoNormal", corrected)


def auto_diagonal_normal(corrected: bool) -> ElboReport:
    """Audit AutoDiagonalNormal, which has one vector for all weights."""
    return _automatic_guide("AutoDiagonalNormal", corrected)


def _automatic_guide(name: str, corrected: bool) -> ElboReport:
    pyro = library("pyro")
    distributions = library("pyro.distributions")
    scale = N_TRAIN / BATCH if corrected else 1.0
    shapes: dict[str, tuple[int, ...]] = {}
    for index, (n_in, n_out) in enumerate(pairwise(SIZES)):
        shapes |= {f"layer{index}_weight": (n_out, n_in), f"layer{index}_bias": (n_out,)}

    def model(x: Tensor, y: Tensor) -> None:
        weights = {
            name: pyro.sample(name, distributions.Normal(torch.zeros(shape), 1.0).to_event(len(shape)))
            for name, shape in shapes.items()
        }
        for index in range(len(SIZES) - 1):
            x = functional.linear(x, weights[f"layer{index}_weight"], weights[f"layer{index}_bias"])
            x = functional.relu(x) if index < len(SIZES) - 2 else x
        with pyro.poutine.scale(scale=scale), pyro.plate("data", len(x)):
            pyro.sample("obs", distributions.Categorical(logits=x), obs=y)

    given = batches(BATCH)
    with pyro.get_param_store().scope():
        guide = getattr(library("pyro.infer.autoguide"), name)(model)
        guide(*given[0])
        return audit_pyro(model, guide, given, N_TRAIN, loss=library("pyro.infer").Trace_ELBO())
