"""The objectives of six further PyTorch libraries, each in two parts: what a step minimises, and its NLL.

The parts stand apart from their audit, so that a test can divide loss - NLL by an exact KL without the auditor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional

from bench.judge.audit.libraries import library
from bench.judge.audit.libraries.examples import BATCH, N_TRAIN
from bench.judge.audit.libraries.setting import batches, network
from elbo_audit.factors import Factor
from elbo_audit.findings import ElboReport
from elbo_audit.torch_audits import audit_torch
from elbo_audit.torch_objective import Loss

MONTE_CARLO = 3  # draws in a step of bayesnn, whose README has 50: the KL is the same, and the audit is quicker
NOISE = 0.01  # variance of the rows in the objective in the place of fastbnns's; any positive number would do


@dataclass(frozen=True)
class TorchObjective:
    """A library's objective on our network."""

    model: nn.Module
    loss: Loss  # of a batch: what a step minimises
    nll: Loss  # of a batch: -log p summed over the rows, with the loss's noise
    batch_size: int = BATCH
    kl: Callable[[], Tensor] | None = None  # where the prior is no Gaussian: log q - log p of the loss's own draws
    factors: Sequence[Factor] | None = None  # where the names of the parameters do not pair mean and sigma

    def audit(self) -> ElboReport:
        """Audit it as one of `N_TRAIN` images."""
        given, named = batches(self.batch_size), self.model.named_parameters()
        return audit_torch(self.loss, named, given, N_TRAIN, nll=self.nll, kl=self.kl, factors=self.factors)


def torchbayesian(corrected: bool) -> TorchObjective:
    """Return cross-entropy + 0.1 times the mean KL of a weight; corrected: KL / N."""
    model = library("torchbayesian.bnn").BayesianModule(network(nn.Linear))

    def loss(x: Tensor, y: Tensor) -> Tensor:
        kl: Tensor = model.kl_divergence() / N_TRAIN if corrected else 0.1 * model.kl_divergence(reduction="mean")
        return functional.cross_entropy(model(x), y) + kl

    return TorchObjective(model, loss, partial(summed_nll, model), batch_size=64)


def fastbnns(corrected: bool) -> TorchObjective:
    """Return ELBO(GaussianNLLLoss('sum'), beta=1/batches) of propagated means and variances, each digit as ten numbers.

    A variance is that of an output over the weights: the loss is -log of a mean over the weights, where an ELBO has the
    mean of -log. Corrected: outputs of one draw of the weights, and a variance of the rows' own.
    """
    losses, priors, types = (library(f"fastbnns.bnn.{name}") for name in ("losses", "priors", "types"))
    model = library("fastbnns.bnn.base").BNN(network(nn.Linear))
    for value in model.parameters():  # all numbers of a rho are one place in memory, which no optimiser can step
        value.data = value.data.clone(memory_format=torch.contiguous_format)
    prior = priors.Distribution(Normal(torch.zeros(1), torch.full((1,), 0.5)))
    rows = nn.GaussianNLLLoss(reduction="sum")
    elbo = losses.ELBO(rows, losses.KLDivergence(prior=prior), beta=1 / (N_TRAIN // BATCH))

    def parts(x: Tensor, y: Tensor) -> dict[str, Tensor]:
        if corrected:
            mean = model(x)
            var = torch.full_like(mean, NOISE)
        else:
            propagated = model(types.MuVar(x))
            mean, var = propagated.mu, propagated.var
        return {"input": mean, "target": functional.one_hot(y, mean.shape[1]).to(mean), "var": var}

    def loss(x: Tensor, y: Tensor) -> Tensor:
        value: Tensor = elbo(model=model, **parts(x, y))
        return value

    def nll(x: Tensor, y: Tensor) -> Tensor:
        value: Tensor = rows(**parts(x, y))
        return value

    named = dict(model.named_parameters())
    factors = [
        Factor(name, named[name].clone, partial(functional.softplus, named[_rho(name)]))
        for name in named
        if _rho(name) in named
    ]
    return TorchObjective(model, loss, nll, factors=factors)


def _rho(name: str) -> str:
    """Return the name of fastbnns's rho for a mean; any other name for what is no mean."""
    return name.replace("._module.", "._module_params.") + "_rho"


def bnn_pytorch(corrected: bool, passes: int = 1) -> TorchObjective:
    """Return KLLoss of `passes` draws: cross-entropy summed over rows, and the drawn KL / number of batches."""
    del corrected  # no change is needed
    bnn = library("bnn")
    model = bnn.Sequential(*network(bnn.BLinear))
    criterion, n_batches = bnn.KLLoss(), math.ceil(N_TRAIN / BATCH)

    def outputs(x: Tensor) -> Tensor:
        model.zero_kl_div()
        return torch.stack([model(x) for _ in range(passes)])

    def loss(x: Tensor, y: Tensor) -> Tensor:
        drawn = outputs(x)
        value: Tensor = criterion(drawn, y, model.get_kl_div(), batch_idx=1, total_batches=n_batches)
        return value

    def kl() -> Tensor:
        outputs(batches(BATCH)[0][0])
        value: Tensor = model.get_kl_div() / passes
        return value

    return TorchObjective(model, loss, partial(summed_nll, model, passes=passes), kl=kl)


def bayesnn(corrected: bool) -> TorchObjective:
    """Return BNN_VBLoss: N times the mean NLL over rows and draws, and the KL.

    The layers begin with all means zero and the prior's sigma, where the KL is 0. We move the means.
    """
    del corrected  # no change is needed
    package = library("bayesnn")
    model = network(package.BayesianLinear)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "mean" in name:
                value.normal_(std=0.1)
    loss: Loss = package.BNN_VBLoss(model, N=N_TRAIN, mc=MONTE_CARLO, likelihood="categorical")

    def nll(x: Tensor, y: Tensor) -> Tensor:
        logits = model(x.expand(MONTE_CARLO, *x.shape))
        return functional.cross_entropy(logits.flatten(0, 1), y.repeat(MONTE_CARLO), reduction="sum") / MONTE_CARLO

    return TorchObjective(model, loss, nll)


def bayes_regression(corrected: bool, passes: int = 3) -> TorchObjective:
    """Return sample_elbo(...) with the trainer's weight 1/N: mean cross-entropy, and a KL of a further draw."""
    del corrected  # no change is needed
    with torch.random.fork_rng():  # the package seeds torch when it is imported
        modules, utils = library("Bayes.modules"), library("Bayes.utils")

    class Classifier(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(*network(modules.BayesianLinear))

    model = utils.variational_estimator(Classifier)()

    def loss(x: Tensor, y: Tensor) -> Tensor:
        given = {"criterion": nn.CrossEntropyLoss(), "sample_nbr": passes, "complexity_cost_weight": 1 / N_TRAIN}
        value: Tensor = model.sample_elbo(inputs=x, labels=y, **given)
        return value

    def kl() -> Tensor:
        for _ in range(passes):
            model(batches(1)[0][0])
        value: Tensor = model.kl_divergence()
        return value

    return TorchObjective(model, loss, partial(summed_nll, model, passes=passes), batch_size=64, kl=kl)


def lightning_uq_box(corrected: bool, passes: int) -> TorchObjective:
    """Return compute_elbo_loss: N times the mean NLL, and 100 times the sum of the tensors' mean KLs.

    Corrected: one pass, since each pass overwrites the noise of the last; each KL summed; beta = 1.
    """
    method = library("lightning_uq_box.uq_methods", "lightning-uq-box (asks for Python 3.12)")
    passes = 1 if corrected else passes
    arguments = {"beta": 1} if corrected else {}
    one = method.BNN_VI_ELBO_Classification(
        network(nn.Linear), nn.CrossEntropyLoss(), num_mc_samples_train=passes, **arguments
    )
    one.num_training_points = N_TRAIN  # which Lightning's trainer reads from its data
    if corrected:
        for layer in one.model:
            if hasattr(layer, "kl_div"):
                vars(layer)["kl_div"] = _summed_kl  # replaces the class's method for this layer

    def loss(x: Tensor, y: Tensor) -> Tensor:
        value: Tensor = one.compute_elbo_loss(x, y)[0]
        return value

    return TorchObjective(one.model, loss, partial(summed_nll, one.model, passes=passes))


def _summed_kl(mean: Tensor, std: Tensor, prior_mean: Tensor, prior_std: Tensor) -> Tensor:
    return kl_divergence(Normal(mean, std), Normal(prior_mean, prior_std)).sum()


def summed_nll(model: nn.Module, x: Tensor, y: Tensor, passes: int = 1) -> Tensor:
    """Return the cross-entropy summed over rows, its mean over passes."""
    return torch.stack([functional.cross_entropy(model(x), y, reduction="sum") for _ in range(passes)]).mean()


def _audit(make: Callable[[bool], TorchObjective], corrected: bool) -> ElboReport:
    return make(corrected).audit()


MORE: Mapping[str, Callable[[bool], ElboReport]] = {
    "torchbayesian": partial(_audit, torchbayesian),
    "fastbnns": partial(_audit, fastbnns),
    "bnn-pytorch": partial(_audit, bnn_pytorch),
    "bayesnn": partial(_audit, bayesnn),
    "bayes-regression": partial(_audit, bayes_regression),
    "lightning-uq-box": partial(_audit, partial(lightning_uq_box, passes=10)),
    "lightning-uq-box, 1 sample": partial(_audit, partial(lightning_uq_box, passes=1)),
}
"""By the example's name, as `AUDITS` of objectives.py, which includes them."""
