"""Libraries of Bayesian layers: each as its own text trains it, and with the change that makes it an ELBO."""

from __future__ import annotations

from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional

from bench.judge.audit.elbo import ElboReport, audit_torch
from bench.judge.audit.elbo.objective import Loss
from bench.judge.audit.libraries.examples import BATCH, N_TRAIN
from bench.judge.audit.libraries.setting import batches, library, mean_of, network

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

    Args:
        corrected: whether the change is made.
        passes: of the network before one `backward`.
    """
    converter = library("bayesian_torch.models.dnn_to_bnn")
    model = network(nn.Linear)
    converter.dnn_to_bnn(model, README_PRIOR)
    passes = 1 if corrected else passes
    if corrected:
        for layer in model.modules():
            if hasattr(layer, "kl_div"):
                layer.kl_div = _exact_kl  # type: ignore[assignment]  # PyTorch types a module's attributes as Tensor or Module
    divisor = N_TRAIN if corrected else BATCH

    def loss(x: Tensor, y: Tensor) -> Tensor:
        kl: Tensor = converter.get_kl_loss(model)
        return mean_of([functional.cross_entropy(model(x), y) for _ in range(passes)]) + kl / divisor

    return _audit(model, loss, passes)


def _exact_kl(mean: Tensor, std: Tensor, prior_mean: Tensor, prior_std: Tensor) -> Tensor:
    return kl_divergence(Normal(mean, std), Normal(prior_mean, prior_std)).sum()


def blitz(corrected: bool, passes: int) -> ElboReport:
    """Audit sample_elbo(..., sample_nbr=passes); corrected: sample_nbr=1 and complexity_cost_weight=1/N."""
    install = "blitz-bayesian-pytorch (GPL-3)"
    modules = library("blitz.modules", install)

    class Classifier(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(*network(modules.BayesianLinear))

    model = library("blitz.utils", install).variational_estimator(Classifier)()
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

    def nll(x: Tensor, y: Tensor) -> Tensor:
        return mean_of([functional.cross_entropy(model(x), y, reduction="sum") for _ in range(passes)])

    return audit_torch(loss, model.named_parameters(), batches(batch_size), N_TRAIN, nll=nll)
