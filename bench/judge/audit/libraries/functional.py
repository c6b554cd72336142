"""Libraries without layers of their own: posteriors' variational inference, Pyro's automatic guides, laplace-torch.

laplace-torch has no loss to audit, but a precision of the data beside that of the prior, which can be counted.
"""

# mypy: disable-error-code="no-untyped-call"
# (Pyro has no types)
from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from bench.judge.audit.elbo import ElboReport, Factor, audit_pyro, audit_torch
from bench.judge.audit.libraries.examples import BATCH, N_TRAIN, ROWS
from bench.judge.audit.libraries.reading import ObjectiveReading
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

    factors = [Factor(name, means[name].clone, log_stds[name].exp) for name in means]
    named = [
        (f"{name}.{kind}", part[name]) for kind, part in (("mean", means), ("log_std", log_stds)) for name in means
    ]
    return audit_torch(loss, named, batches(32), N_TRAIN, nll=nll, factors=factors)


def automatic_guide(corrected: bool, name: str) -> ElboReport:
    """Audit one of Pyro's guides with Trace_ELBO, and a plate of the batch; corrected: scaled by N / batch size.

    Args:
        corrected: whether the change is made.
        name: AutoNormal, or AutoDiagonalNormal, which has one vector for all weights.
    """
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


def laplace(corrected: bool) -> ObjectiveReading:
    """Fit Laplace(model, 'classification', 'all', 'diag') and compare its precision with the exact one of its rows.

    For each tensor, the weight says how often the prior counts while the data count once: the exact generalised
    Gauss-Newton diagonal of all rows divided by what the library adds to the prior's precision.
    """
    del corrected  # no change is needed
    package = library("laplace")
    model = network(nn.Linear)
    x, y = (torch.cat(parts) for parts in zip(*batches(ROWS), strict=True))
    found = package.Laplace(model, "classification", subset_of_weights="all", hessian_structure="diag")
    found.fit(DataLoader(TensorDataset(x, y), batch_size=ROWS))
    prior = float(found.prior_precision)
    added = found.posterior_precision - prior
    weights, start = {}, 0
    for name, exact in _exact_diagonal(model, x).items():
        part = added[start : start + exact.numel()]
        weights[name] = float(f"{float((exact * part).sum() / part.square().sum()):.6g}")
        start += exact.numel()
    return ObjectiveReading("not measured", "nothing is trained by a loss", weights, "", prior**-0.5)


def _exact_diagonal(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return the diagonal of sum over rows of J' (diag(p) - p p') J by parameter, J the logits' derivatives."""
    values = {name: value.detach() for name, value in model.named_parameters()}
    total = {name: torch.zeros(value.numel()) for name, value in values.items()}
    for row in x:
        probabilities = model(row).softmax(0).detach()
        slopes = torch.func.jacrev(lambda given, at=row: torch.func.functional_call(model, given, at))(values)
        for name, slope in slopes.items():
            rows = slope.reshape(len(probabilities), -1)
            total[name] += probabilities @ rows.square() - (probabilities @ rows).square()
    return total
