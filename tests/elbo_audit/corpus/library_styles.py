"""Six styles of libraries: the real ones, and one in the manner of blitz, which is GPL."""

from __future__ import annotations

import importlib
import math

import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional

from bench.data.torchvision_shim import make_importable
from tests.elbo_audit.corpus import common
from tests.elbo_audit.corpus.common import (
    CLASSES,
    SCALE,
    Expected,
    Objective,
    Sizes,
    Style,
    class_batches,
    class_loss,
    expected,
)


def finish(s: Sizes, fault: str | None, loss, nll, model: nn.Module, batches, wanted: Expected | None = None):
    """Return the audit's arguments; Adam as in the libraries' examples."""
    decay = 0.01 if fault == "weight decay in the optimiser" else 0.0
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=decay)
    return common.finish(s, fault, loss, nll, list(model.named_parameters()), optimizer, batches, wanted)


def torchbnn_dense(s: Sizes, fault: str | None) -> Objective:
    """Mean cross-entropy + kl_weight * BKLLoss, as in torchbnn's demo; right: reduction='sum' and 1 / N."""
    bnn = importlib.import_module("torchbnn")
    batches = class_batches(s)
    prior = s.prior**2 if fault == "prior std given as variance" else s.prior
    model = nn.Sequential(
        bnn.BayesLinear(0, prior, s.n_in, s.hidden), nn.ReLU(), bnn.BayesLinear(0, prior, s.hidden, s.n_out)
    )
    for name, value in model.named_parameters():
        if "log_sigma" in name:
            value.data.fill_(math.log(s.sigma))
    size = sum(value.numel() for name, value in model.named_parameters() if "mu" in name)
    kl = bnn.BKLLoss(
        reduction="mean" if fault == "the demo's mean" else "sum", last_layer_only=fault == "KL of one layer only"
    )
    weight = {
        "the demo's mean": 0.1,
        "1 / N forgotten": 1.0,
        "wrong N after a split": s.share / s.n_train,
        "KL counted twice": 2 / s.n_train,
    }
    wanted = Expected(SCALE, 0.1 * s.n_train / size) if fault == "the demo's mean" else None

    def nll(x, y, mistake=None):
        return class_loss(model(x), y, mistake)

    def loss(x, y):
        return nll(x, y, fault) / len(x) + weight.get(fault or "", 1 / s.n_train) * kl(model)

    return finish(s, fault, loss, nll, model, batches, wanted)


def bayesian_torch_dense(s: Sizes, fault: str | None) -> Objective:
    """LinearReparameterization with the KL summed by the user; the README has get_kl_loss(model) / batch_size."""
    layers = importlib.import_module("bayesian_torch.layers")
    get_kl_loss = importlib.import_module("bayesian_torch.models.dnn_to_bnn").get_kl_loss
    batches = class_batches(s)
    rho = math.log(math.expm1(s.sigma))
    given = {"prior_variance": s.prior, "posterior_rho_init": rho}  # it takes a standard deviation by the first name
    sizes = ((s.n_in, s.hidden), (s.hidden, s.n_out))
    one, two = (layers.LinearReparameterization(*ends, **given) for ends in sizes)
    model = nn.ModuleList([one, two])
    passes = 2 if fault == "two passes, one noise buffer" else 1

    def exact() -> Tensor:
        pairs = [(each.mu_weight, each.rho_weight) for each in model] + [
            (each.mu_bias, each.rho_bias) for each in model
        ]
        return sum(kl_divergence(Normal(m, functional.softplus(r)), Normal(0.0, s.prior)).sum() for m, r in pairs)

    def nll(x, y, mistake=None):
        return sum(class_loss(two(torch.relu(one(x)[0]))[0], y, mistake) for _ in range(passes)) / passes

    def loss(x, y):
        fit = nll(x, y, fault) / len(x)
        if fault == "the README's mean":
            return fit + get_kl_loss(model) / len(x)
        if fault == "mean over each tensor":
            return fit + get_kl_loss(model) / s.n_train
        return fit + exact() / (1 if fault == "1 / N forgotten" else s.n_train)

    return finish(s, fault, loss, nll, model, batches)


def bayesian_torch_flipout(s: Sizes, fault: str | None) -> Objective:
    """A plain network turned by dnn_to_bnn into flipout layers; a sum over rows and KL / M."""
    turn = importlib.import_module("bayesian_torch.models.dnn_to_bnn").dnn_to_bnn
    batches = class_batches(s)
    model = nn.Sequential(nn.Linear(s.n_in, s.hidden), nn.Tanh(), nn.Linear(s.hidden, s.n_out))
    turn(
        model,
        {
            "prior_mu": 0.0,
            "prior_sigma": s.prior,
            "posterior_mu_init": 0.0,
            "posterior_rho_init": math.log(math.expm1(s.sigma)),
            "type": "Flipout",
            "moped_enable": False,
            "moped_delta": 0.5,
        },
    )

    def nll(x, y, mistake=None):
        return class_loss(model(x), y, mistake)

    def loss(x, y):
        total = torch.zeros(())
        for layer in (model[0], model[2]):
            pairs = [(layer.mu_weight, layer.rho_weight), (layer.mu_bias, layer.rho_bias)]
            pairs = pairs[:1] if fault == "bias KL dropped" else pairs
            total = total + sum(
                kl_divergence(Normal(m, torch.log1p(r.exp())), Normal(0.0, s.prior)).sum() for m, r in pairs
            )
        factor = {"annealing stuck": s.beta, "wrong sign": -1, "KL in every batch": s.steps}.get(fault or "", 1)
        return nll(x, y, fault) + factor * total / s.steps

    return finish(s, fault, loss, nll, model, batches)


def torch_uncertainty_elbo(s: Sizes, fault: str | None) -> Objective:
    """ELBOLoss, whose KL is a mean over the layers, so that L / N is right; the tutorial says 1 / N."""
    make_importable()  # torch-uncertainty asks for torchvision, which may not fit a CPU-only torch
    layers, losses = (importlib.import_module(f"torch_uncertainty.{name}") for name in ("layers.bayesian", "losses"))
    batches = class_batches(s)
    given = {"prior_sigma_1": s.prior, "prior_pi": 1, "sigma_init": math.log(math.expm1(s.sigma))}
    model = nn.Sequential(
        layers.BayesLinear(s.n_in, s.hidden, **given), nn.ReLU(), layers.BayesLinear(s.hidden, s.n_out, **given)
    )
    weight = {
        "KL a mean over layers": 1.0,
        "KL divided by the batch size": 2 * s.n_train / s.batch,
        "wrong N after a split": 2 * s.share,
    }
    elbo = losses.ELBOLoss(
        model, nn.CrossEntropyLoss(), kl_weight=weight.get(fault or "", 2.0) / s.n_train, num_samples=2
    )

    def nll(x, y):
        return sum(class_loss(model(x), y) for _ in range(2)) / 2

    wanted = Expected(SCALE, 0.5) if fault == "KL a mean over layers" else None
    return finish(s, fault, lambda x, y: elbo(x, y).sum(), nll, model, batches, wanted)


def posteriors_diag(s: Sizes, fault: str | None) -> Objective:
    """nelbo of posteriors: log posterior divided by N, temperature 1 / N."""
    diag = importlib.import_module("posteriors.vi.diag")
    factor = importlib.import_module("elbo_audit").Factor
    batches = class_batches(s)
    body = nn.Sequential(nn.Linear(s.n_in, s.hidden), nn.ReLU(), nn.Linear(s.hidden, s.n_out))
    mean = {k: v.detach().clone().requires_grad_() for k, v in body.named_parameters()}
    log_sd = {k: (math.log(s.sigma) + 0.1 * torch.randn_like(v)).requires_grad_() for k, v in body.named_parameters()}
    by = {"wrong N after a split": s.n_train / s.share, "KL divided by the batch size": s.batch}.get(
        fault or "", s.n_train
    )

    def log_posterior(params, batch):
        x, y = batch
        fit = -functional.cross_entropy(torch.func.functional_call(body, params, (x,)), y)
        prior = sum(Normal(0.0, s.prior).log_prob(v).sum() for v in params.values())
        return fit + (0 if fault == "prior left out" else prior / by), torch.tensor([])

    def run(batch, call):
        heat = 1.0 if fault == "entropy N times" else 1 / by
        return diag.nelbo(
            mean, {k: v.exp() for k, v in log_sd.items()}, batch, call, heat, 1, fault == "log q detached"
        )[0]

    def nll(x, y):
        drawn = importlib.import_module("posteriors.utils").diag_normal_sample(
            mean, {k: v.exp() for k, v in log_sd.items()}, sample_shape=(1,)
        )
        return class_loss(torch.func.functional_call(body, {k: v[0] for k, v in drawn.items()}, (x,)), y)

    named = [(f"mean.{k}", v) for k, v in mean.items()] + [(f"log_sd_diag.{k}", v) for k, v in log_sd.items()]
    factors = [factor(k, lambda k=k: mean[k], lambda k=k: log_sd[k].exp()) for k in mean]
    wanted = Expected((*SCALE, "variance-as-std")) if fault in ("entropy N times", "prior left out") else None
    arguments = {
        "loss": lambda x, y: run((x, y), log_posterior),
        "nll": nll,
        "parameters": named,
        "factors": factors,
        "batches": batches,
        "n_train": s.n_train,
        "prior_std": s.prior,
    }
    return Objective(arguments, wanted or expected(fault, s))


class BlitzLike(nn.Module):
    """A layer that keeps log q and log p of its last draw."""

    def __init__(self, n_in: int, n_out: int, s: Sizes) -> None:
        super().__init__()
        rho = math.log(math.expm1(s.sigma))
        self.weight_mu = nn.Parameter(torch.randn(n_out, n_in) / math.sqrt(n_in))
        self.weight_rho = nn.Parameter(rho + 0.1 * torch.randn(n_out, n_in))
        self.bias_mu, self.bias_rho = nn.Parameter(torch.zeros(n_out)), nn.Parameter(rho + 0.1 * torch.randn(n_out))
        self.prior, self.log_q, self.log_p = Normal(0.0, s.prior), torch.zeros(()), torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        """Draw weights and apply them."""
        self.log_q, self.log_p, drawn = torch.zeros(()), torch.zeros(()), []
        for m, r in ((self.weight_mu, self.weight_rho), (self.bias_mu, self.bias_rho)):
            value = m + functional.softplus(r) * torch.randn_like(m)
            self.log_q = self.log_q + Normal(m, functional.softplus(r)).log_prob(value).sum()
            self.log_p = self.log_p + self.prior.log_prob(value).sum()
            drawn.append(value)
        return functional.linear(x, *drawn)


def blitz_like(s: Sizes, fault: str | None) -> Objective:
    """sample_elbo(inputs, labels, criterion, sample_nbr, complexity_cost_weight) with several draws."""
    torch.manual_seed(6)
    model = nn.Sequential(BlitzLike(s.n_in, s.hidden, s), nn.ReLU(), BlitzLike(s.hidden, s.n_out, s))
    draws = 3

    def sample_elbo(x, y, criterion, cost: float) -> Tensor:
        loss = torch.zeros(())
        for _ in range(draws):
            loss = loss + criterion(model(x), y)
            parts = [layer.log_q - layer.log_p for layer in (model[0], model[2])]
            loss = loss + cost * (parts[-1] if fault == "KL of one layer only" else sum(parts))
            if fault == "KL not averaged over draws":
                loss = loss + cost * (draws - 1) * sum(parts)
        return loss / draws

    cost = {"1 / N forgotten": 1.0, "wrong sign": -1 / s.n_train, "wrong N after a split": s.share / s.n_train}.get(
        fault or "", 1 / s.n_train
    )

    def nll(x, y):
        return sum(class_loss(model(x), y) for _ in range(draws)) / draws

    def criterion(out, y):
        return class_loss(out, y, fault) / len(y)

    wanted = Expected(SCALE, float(draws)) if fault == "KL not averaged over draws" else None
    return finish(s, fault, lambda x, y: sample_elbo(x, y, criterion, cost), nll, model, class_batches(s), wanted)


DECAY = "weight decay in the optimiser"
STYLES = [
    Style(
        "torchbnn",
        torchbnn_dense,
        ("the demo's mean", "KL of one layer only", "1 / N forgotten", "prior std given as variance", DECAY, *CLASSES),
        "torchbnn",
    ),
    Style(
        "bayesian-torch",
        bayesian_torch_dense,
        ("the README's mean", "mean over each tensor", "two passes, one noise buffer"),
        "bayesian_torch",
    ),
    Style(
        "bayesian-torch flipout",
        bayesian_torch_flipout,
        ("bias KL dropped", "annealing stuck", "wrong sign", "KL in every batch", *CLASSES),
        "bayesian_torch",
    ),
    Style(
        "torch-uncertainty",
        torch_uncertainty_elbo,
        ("KL a mean over layers", "KL divided by the batch size", "wrong N after a split", DECAY),
        "torch_uncertainty",
    ),
    Style(
        "posteriors",
        posteriors_diag,
        ("entropy N times", "prior left out", "wrong N after a split", "log q detached"),
        "posteriors",
    ),
    Style(
        "blitz manner",
        blitz_like,
        ("KL not averaged over draws", "1 / N forgotten", "KL of one layer only", "wrong sign", DECAY, *CLASSES),
    ),
]
