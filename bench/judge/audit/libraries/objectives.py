"""The examples as code: each library's objective on our network, and the same with the change that makes it an ELBO.

laplace-torch trains by no loss that could be audited. Its precision is that of the data plus that of the prior, which
shows how often each counts.
"""

# mypy: disable-error-code="no-untyped-call"
# (Pyro has no types)
from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from bench.judge.audit.libraries import library
from bench.judge.audit.libraries.audited import LibraryAudit, ObjectiveAudit
from bench.judge.audit.libraries.examples import BATCH, N_TRAIN, ROWS, Example
from bench.judge.audit.libraries.foreign_audits import FOREIGN, audit_foreign
from bench.judge.audit.libraries.objectives_more import MORE, TorchObjective, summed_nll
from bench.judge.audit.libraries.setting import SIZES, batches, network, seeded
from elbo_audit.factors import Factor
from elbo_audit.findings import ElboReport
from elbo_audit.torch_audits import audit_torch
from elbo_audit.torch_objective import Loss

README_PRIOR = {  # of bayesian-torch's README
    "prior_mu": 0.0,
    "prior_sigma": 1.0,
    "posterior_mu_init": 0.0,
    "posterior_rho_init": -3.0,
    "type": "Reparameterization",
    "moped_enable": False,
}


def torchbnn(corrected: bool) -> ElboReport:
    """Audit cross-entropy + 0.1 BKLLoss('mean'); corrected: BKLLoss('sum') / N."""
    bnn = library("torchbnn")
    model = network(lambda n_in, n_out: bnn.BayesLinear(0, 0.1, n_in, n_out))
    kl = bnn.BKLLoss(reduction="sum" if corrected else "mean", last_layer_only=False)
    weight = 1 / N_TRAIN if corrected else 0.1
    return _audit(model, lambda x, y: functional.cross_entropy(model(x), y) + weight * kl(model), 1)


def bayesian_torch(corrected: bool, passes: int) -> ElboReport:
    """Audit cross-entropy + get_kl_loss(model) / batch size; corrected: each KL summed, divided by N, and one pass.

    `passes`: how often the network is called before one `backward`.
    """
    converter = library("bayesian_torch.models.dnn_to_bnn")
    model = network(nn.Linear)
    converter.dnn_to_bnn(model, README_PRIOR)
    passes = 1 if corrected else passes
    if corrected:
        for layer in model.modules():
            if hasattr(layer, "kl_div"):
                vars(layer)["kl_div"] = _exact_kl  # replaces the class's method for this layer
    divisor = N_TRAIN if corrected else BATCH

    def loss(x: Tensor, y: Tensor) -> Tensor:
        kl: Tensor = converter.get_kl_loss(model)
        return torch.stack([functional.cross_entropy(model(x), y) for _ in range(passes)]).mean() + kl / divisor

    return _audit(model, loss, passes)


def _exact_kl(mean: Tensor, std: Tensor, prior_mean: Tensor, prior_std: Tensor) -> Tensor:
    return kl_divergence(Normal(mean, std), Normal(prior_mean, prior_std)).sum()


def blitz(corrected: bool, passes: int) -> ElboReport:
    """Audit sample_elbo(..., sample_nbr=passes); corrected: sample_nbr=1 and complexity_cost_weight=1/N."""
    how = "pip install -c constraints.txt blitz-bayesian-pytorch (GPL-3)"
    modules = library("blitz.modules", how)

    class Classifier(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(*network(modules.BayesianLinear))

    model = library("blitz.utils", how).variational_estimator(Classifier)()
    passes = 1 if corrected else passes
    weight = 1 / N_TRAIN if corrected else 1

    def loss(x: Tensor, y: Tensor) -> Tensor:
        value: Tensor = model.sample_elbo(
            inputs=x, labels=y, criterion=nn.CrossEntropyLoss(), sample_nbr=passes, complexity_cost_weight=weight
        )
        return value

    return _audit(model, loss, passes, batch_size=16)


def torch_uncertainty(corrected: bool) -> ElboReport:
    """Audit ELBOLoss(kl_weight=1/10000, num_samples=3); corrected: kl_weight = number of layers / N."""
    layers = library("torch_uncertainty.layers.bayesian")
    model = network(layers.BayesLinear)
    n_layers = sum(isinstance(layer, layers.BayesLinear) for layer in model)
    weight = n_layers / N_TRAIN if corrected else 1 / 10_000
    losses = library("torch_uncertainty.losses")
    return _audit(model, losses.ELBOLoss(model, nn.CrossEntropyLoss(), weight, num_samples=3), 3)


def _audit(model: nn.Module, loss: Loss, passes: int, batch_size: int = BATCH) -> ElboReport:
    """Audit a loss that is a mean over rows and over passes of the model."""
    return TorchObjective(model, loss, partial(summed_nll, model, passes=passes), batch_size).audit()


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

    def stds() -> dict[str, Tensor]:
        return {name: value.exp() for name, value in log_stds.items()}

    def loss(x: Tensor, y: Tensor) -> Tensor:
        value: Tensor = vi.nelbo(means, stds(), (x, y), log_posterior, 1 / N_TRAIN, 1, not corrected)[0]
        return value

    def nll(x: Tensor, y: Tensor) -> Tensor:
        weights = package.diag_normal_sample(means, stds(), sample_shape=(1,))
        output = torch.func.functional_call(net, {name: value[0] for name, value in weights.items()}, x)
        return functional.cross_entropy(output, y, reduction="sum")

    factors = [Factor(name, means[name].clone, log_stds[name].exp) for name in means]
    named = [
        (f"{name}.{kind}", part[name]) for kind, part in (("mean", means), ("log_std", log_stds)) for name in means
    ]
    return audit_torch(loss, named, batches(32), N_TRAIN, nll=nll, factors=factors)


def automatic_guide(corrected: bool, name: str, sizes: Sequence[int] | None = None, **options: int) -> ElboReport:
    """Audit one of Pyro's guides with Trace_ELBO, and a plate of the batch; corrected: scaled by N / batch size.

    `name` is the guide's class, `options` are its arguments. A guide with one vector for all weights has a covariance:
    only its means and scales are audited, and the correlations keep their values.
    """
    pyro = library("pyro")
    distributions = library("pyro.distributions")
    sizes = sizes or SIZES
    scale = N_TRAIN / BATCH if corrected else 1.0
    shapes: dict[str, tuple[int, ...]] = {}
    for index, (n_in, n_out) in enumerate(pairwise(sizes)):
        shapes |= {f"layer{index}_weight": (n_out, n_in), f"layer{index}_bias": (n_out,)}

    def model(x: Tensor, y: Tensor) -> None:
        weights = {
            name: pyro.sample(name, distributions.Normal(torch.zeros(shape), 1.0).to_event(len(shape)))
            for name, shape in shapes.items()
        }
        for index in range(len(sizes) - 1):
            x = functional.linear(x, weights[f"layer{index}_weight"], weights[f"layer{index}_bias"])
            x = functional.relu(x) if index < len(sizes) - 2 else x
        with pyro.poutine.scale(scale=scale), pyro.plate("data", len(x)):
            pyro.sample("obs", distributions.Categorical(logits=x), obs=y)

    from elbo_audit import audit_pyro  # here: it imports Pyro

    given = batches(BATCH, sizes[0])
    guides = library("pyro.infer.autoguide")
    with pyro.get_param_store().scope():
        guide = getattr(guides, name)(model, **options)
        guide(*given[0])
        factors = None
        if isinstance(guide, guides.AutoContinuous):
            relative = (guide._loc_scale()[1] / guide.scale).detach()  # 1 unless weights are correlated
            factors = [Factor("all weights", lambda: guide.loc, lambda: guide.scale * relative)]
        return audit_pyro(model, guide, given, N_TRAIN, loss=library("pyro.infer").Trace_ELBO(), factors=factors)


def laplace(corrected: bool) -> ObjectiveAudit:
    """Fit Laplace(model, 'classification', 'all', 'diag') and compare its precision with the exact one of its rows.

    The weight of a tensor says how often the prior counts while the data count once. It is the exact generalised
    Gauss-Newton diagonal of all rows, divided by what the library adds to the prior's precision.
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
    return ObjectiveAudit("not measured", "nothing is trained by a loss", weights, "", prior**-0.5)


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


AUDITS: Mapping[str, Callable[[bool], ElboReport | ObjectiveAudit]] = {
    "torchbnn": torchbnn,
    "bayesian_torch": partial(bayesian_torch, passes=1),
    "bayesian_torch, 2 passes": partial(bayesian_torch, passes=2),
    "blitz": partial(blitz, passes=3),
    "blitz, 1 sample": partial(blitz, passes=1),
    "torch-uncertainty": torch_uncertainty,
    "posteriors": posteriors,
    **{name: partial(automatic_guide, name=name) for name in ("AutoNormal", "AutoDiagonalNormal", "AutoDelta")},
    "AutoMultivariateNormal, 100-10": partial(automatic_guide, name="AutoMultivariateNormal", sizes=(100, 10)),
    "AutoLowRankMultivariateNormal, 100-10": partial(
        automatic_guide, name="AutoLowRankMultivariateNormal", sizes=(100, 10), rank=10
    ),
    "laplace-torch": laplace,
    **MORE,
}
"""By the example's name. Each is called with True for the objective with the change."""


def audit_example(example: Example) -> LibraryAudit:
    """Audit an example as published and changed; raises MissingLibrary where the library is not installed."""
    if example.name in FOREIGN:
        return audit_foreign(example)
    found = []
    for corrected in (False, True):
        with seeded():
            one = AUDITS[example.name](corrected)
        found.append(one if isinstance(one, ObjectiveAudit) else ObjectiveAudit.of(one))
    versions = {name: importlib.metadata.version(name) for name in (example.package, "torch")}
    return LibraryAudit(versions, *found)
