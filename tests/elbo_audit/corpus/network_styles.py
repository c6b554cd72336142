"""Nine styles of dense networks in plain torch."""

from __future__ import annotations

import itertools
import math
from functools import partial

import torch
from torch import Tensor
from torch.distributions import Normal
from torch.nn import functional

from tests.elbo_audit.corpus import common
from tests.elbo_audit.corpus.common import (
    ANALYTIC,
    CLASSES,
    EITHER,
    MEAN,
    SUM,
    Expected,
    Objective,
    Sizes,
    Style,
    Training,
    around,
    class_batches,
    class_loss,
    combined,
    expected,
    gauss_kl,
    real_batches,
    unsoftplus,
)

softplus = functional.softplus


def finish(s: Sizes, fault: str | None, loss, nll, training: Training, batches, wanted: Expected | None = None, **more):
    """Return the audit's arguments."""
    optimizer = training.optimizer(fault)
    return common.finish(s, fault, loss, nll, training.named, optimizer, batches, wanted, **more)


def from_terms(s: Sizes, fault: str | None, nll, terms, reduction: str):
    """Return a step's loss from -log p(y | x, w) of a batch and from the KL of each number, which `terms` returns."""
    return lambda x, y: combined(nll(x, y, fault), terms(), s, reduction, fault)


def layers(s: Sizes, t: Training, word: str, start: float, widths: list[int], fault: str | None) -> list[list[Tensor]]:
    """Register mean and spread of weights and biases of dense layers, the spreads near `start`."""

    def spread(*shape: int) -> Tensor:
        return start * (1 + 0.3 * torch.rand(*shape)) if word == "sigma" else around(start, *shape)

    found = []
    for k, (a, b) in enumerate(itertools.pairwise(widths)):
        weight = t.pair(f"fc{k}.weight_", "mu", torch.randn(b, a) / math.sqrt(a), word, spread(b, a), fault)
        bias = t.pair(f"fc{k}.bias_", "mu", 0.1 * torch.randn(b), word, spread(b), fault)
        found.append([*weight, *bias])
    return found


def drawn(x: Tensor, net: list[list[Tensor]], spread, activation) -> Tensor:
    """Return the outputs of dense layers whose weights are drawn, with an activation after each but the last."""
    for k, (wm, wr, bm, br) in enumerate(net):
        x = functional.linear(x, wm + spread(wr) * torch.randn_like(wm), bm + spread(br) * torch.randn_like(bm))
        x = activation(x) if k < len(net) - 1 else x
    return x


def kl_terms(net: list[list[Tensor]], spread, s: Sizes, fault: str | None) -> list[Tensor]:
    """Return the KL of every number, layer after layer, weights before biases."""
    return [gauss_kl(m, spread(r), s, fault) for wm, wr, bm, br in net for m, r in ((wm, wr), (bm, br))]


def local_reparametrisation(s: Sizes, fault: str | None) -> Objective:
    """Noise on the activations of each row; softplus; a sum over rows and KL / M."""
    t = Training()
    batches = class_batches(s)
    net = layers(s, t, "rho", unsoftplus(s.sigma), [s.n_in, s.hidden, s.n_out], fault)

    def nll(x, y, mistake=None):
        for k, (wm, wr, bm, br) in enumerate(net):
            mean = functional.linear(x, wm, bm)
            spread = functional.linear(x**2, softplus(wr) ** 2, softplus(br) ** 2).sqrt()
            if mistake == "sample detached":
                spread = spread.detach()
            x = mean + spread * torch.randn_like(mean)
            x = torch.relu(x) if k == 0 else x
        return class_loss(x, y, mistake)

    loss = from_terms(s, fault, nll, lambda: kl_terms(net, softplus, s, fault), "sum")
    return finish(s, fault, loss, nll, t, batches)


def flipout(s: Sizes, fault: str | None) -> Objective:
    """One perturbation, signs for each row; exp(log_sigma); a mean over rows and KL / N."""
    t = Training()
    batches = class_batches(s)
    net = layers(s, t, "log_sigma", math.log(s.sigma), [s.n_in, s.hidden, s.n_out], fault)

    def nll(x, y, mistake=None):
        for k, (wm, wr, bm, br) in enumerate(net):
            noise = wr.exp() * torch.randn_like(wr)
            bias = bm + br.exp() * torch.randn_like(br)
            r, q = (torch.randint(0, 2, (len(x), n)).float() * 2 - 1 for n in (x.shape[1], len(bm)))
            x = x @ wm.T + bias + ((x * r) @ noise.T) * q
            x = torch.tanh(x) if k == 0 else x
        return class_loss(x, y, mistake)

    loss = from_terms(s, fault, nll, lambda: kl_terms(net, torch.exp, s, fault), "mean")
    return finish(s, fault, loss, nll, t, batches)


def log_variance(s: Sizes, fault: str | None) -> Objective:
    """`log_var` parameters, where the sample or the KL may take it for the log of sigma."""
    t = Training()
    batches = class_batches(s)
    net = layers(s, t, "log_var", 2 * math.log(s.sigma), [s.n_in, s.hidden, s.hidden, s.n_out], fault)
    right, wrong = (lambda v: torch.exp(v / 2)), torch.exp

    def nll(x, y, mistake=None):
        spread = wrong if fault == "another sigma in the sample" else right
        return class_loss(drawn(x, net, spread, torch.relu), y, mistake)

    def loss(x, y):
        fit = nll(x, y, fault)
        terms = kl_terms(net, wrong if fault == "another sigma in the KL" else right, s, fault)
        means = [m for wm, _, bm, _ in net for m in (wm, bm)]
        extra = 0.01 * sum((m**2).sum() for m in means) if fault == "weight decay in the loss" else 0
        return combined(fit, terms, s, "mean", fault) + extra

    return finish(s, fault, loss, nll, t, batches)


def mixture_prior(s: Sizes, fault: str | None) -> Objective:
    """Blundell's scale mixture: log q - log p of the drawn weights. No Gaussian prior, so no number of the KL."""
    t = Training()
    batches = class_batches(s)
    net = layers(s, t, "rho", unsoftplus(s.sigma), [s.n_in, s.hidden, s.n_out], fault)

    def run(x, y, mistake):
        total = torch.zeros(())
        for k, (wm, wr, bm, br) in enumerate(net):
            drawn = []
            for m, r in ((wm, wr), (bm, br)):
                sigma = softplus(r)
                value = m + sigma * torch.randn_like(m)
                value = value.detach() if mistake == "sample detached" else value
                q = Normal(m.detach(), sigma.detach()) if mistake == "log q detached" else Normal(m, sigma)
                wide, narrow = Normal(0.0, s.prior).log_prob(value), Normal(0.0, s.prior / 10).log_prob(value)
                prior = torch.logsumexp(torch.stack([wide + math.log(0.5), narrow + math.log(0.5)]), 0)
                total = total + (q.log_prob(value) - prior).sum()
                drawn.append(value)
            x = functional.linear(x, *drawn)
            x = torch.relu(x) if k == 0 else x
        return class_loss(x, y, mistake), total

    def loss(x, y):
        fit, total = run(x, y, fault)
        return fit + total / s.steps

    return finish(
        s, fault, loss, lambda x, y: run(x, y, None)[0], t, batches, expected(fault, s, kl=None), prior_std=None
    )


def sampled_kl(s: Sizes, fault: str | None) -> Objective:
    """log q - log p of the drawn weights, Gaussian prior, mean over three draws."""
    t = Training()
    batches = class_batches(s)
    net = layers(s, t, "logsigma", math.log(s.sigma), [s.n_in, s.hidden, s.n_out], fault)

    def once(x, y, mistake):
        terms = []
        for k, (wm, wr, bm, br) in enumerate(net):
            drawn = []
            for m, r in ((wm, wr), (bm, br)):
                value = m + r.exp() * torch.randn_like(m)
                value = value.detach() if mistake == "sample detached" else value
                q = Normal(m.detach(), r.detach().exp()) if mistake == "log q detached" else Normal(m, r.exp())
                prior = s.prior**2 if mistake == "prior std given as variance" else s.prior
                entropy = 0 if mistake == "entropy left out" else q.log_prob(value)
                terms.append(entropy - Normal(0.0, prior).log_prob(value))
                drawn.append(value)
            x = functional.linear(x, *drawn)
            x = torch.relu(x) if k == 0 else x
        return class_loss(x, y, mistake), terms

    def nll(x, y):
        return sum(once(x, y, None)[0] for _ in range(3)) / 3

    def loss(x, y):
        return sum(combined(*once(x, y, fault), s, "sum", fault) for _ in range(3)) / 3

    return finish(s, fault, loss, nll, t, batches)


def learned_prior(s: Sizes, fault: str | None) -> Objective:
    """Empirical Bayes: each layer learns the log of its prior's standard deviation."""
    t = Training()
    batches = class_batches(s)
    net = layers(s, t, "rho", unsoftplus(s.sigma), [s.n_in, s.hidden, s.n_out], fault)
    priors = [t.add(f"fc{k}.prior_log_std", torch.tensor(math.log(s.prior))) for k in range(2)]

    def nll(x, y, mistake=None):
        return class_loss(drawn(x, net, softplus, torch.relu), y, mistake)

    def terms():
        return [
            torch.distributions.kl_divergence(Normal(m, softplus(r)), Normal(torch.zeros_like(m), priors[k].exp()))
            for k, (wm, wr, bm, br) in enumerate(net)
            for m, r in ((wm, wr), (bm, br))
        ]

    return finish(s, fault, from_terms(s, fault, nll, terms, "mean"), nll, t, batches)


def relevance_prior(s: Sizes, fault: str | None) -> Objective:
    """A fixed prior of its own for each input; the user passes `kl`, because this is not one Gaussian."""
    t = Training()
    batches = class_batches(s)
    ((wm, wr, bm, br),) = net = layers(s, t, "rho", unsoftplus(s.sigma), [s.n_in, s.n_out], fault)
    each = torch.linspace(0.5, 2.0, s.n_in) * s.prior

    def nll(x, y, mistake=None):
        return class_loss(drawn(x, net, softplus, torch.relu), y, mistake)

    def kl():
        weights = torch.log(each / softplus(wr)) + (softplus(wr) ** 2 + wm**2) / (2 * each**2) - 0.5
        return weights.sum() + gauss_kl(bm, softplus(br), s).sum()

    loss = from_terms(s, fault, nll, lambda: [kl()], "sum")
    return finish(s, fault, loss, nll, t, batches, kl=kl, prior_std=None)


def regression(s: Sizes, fault: str | None, heteroscedastic: bool) -> Objective:
    """Gaussian likelihood: one learned noise for all rows, or a second output for the log of the noise."""
    t = Training()
    batches = real_batches(s)
    net = layers(s, t, "rho", unsoftplus(s.sigma), [s.n_in, s.hidden, 2 if heteroscedastic else 1], fault)
    log_noise = None if heteroscedastic else t.add("log_noise", torch.tensor(-1.0))

    def nll(x, y, mistake=None):
        x = drawn(x, net, softplus, torch.tanh)
        noise = x[:, 1] if log_noise is None else log_noise
        if mistake == "squared error":  # in the place of the Gaussian with its learned noise
            return ((y - x[:, 0]) ** 2).sum() + 0 * noise.sum()
        if mistake == "log noise forgotten":
            return (0.5 * ((y - x[:, 0]) / noise.exp()) ** 2).sum()
        return -Normal(x[:, 0], noise.exp()).log_prob(y).sum()

    reduction = "mean" if heteroscedastic else "sum"
    wanted = Expected(("wrong-likelihood",)) if fault in NOISE else None
    if (
        fault == "squared error" and not heteroscedastic
    ):  # in proportion to -log p: as if the likelihood weighed 2 noise²
        wanted = Expected(("wrong-likelihood", "kl-scale", "unused-layer"))
    if (
        fault == "log noise forgotten" and not heteroscedastic
    ):  # the same number for every batch: shows in log_noise only
        wanted = Expected(("wrong-likelihood", "kl-scale"), withheld=True)
    loss = from_terms(s, fault, nll, lambda: kl_terms(net, softplus, s, fault), reduction)
    return finish(s, fault, loss, nll, t, batches, wanted)


WHOLE = ("wrong sign", "KL counted twice", "annealing stuck", "weight decay in the optimiser")
NOISE = ("squared error", "log noise forgotten")
STYLES = [
    Style("local reparametrisation", local_reparametrisation, SUM + EITHER + ANALYTIC + CLASSES + ("sample detached",)),
    Style("flipout", flipout, MEAN + EITHER + ANALYTIC + CLASSES),
    Style(
        "log variance",
        log_variance,
        ("another sigma in the KL", "another sigma in the sample", "weight decay in the loss"),
    ),
    Style("mixture prior", mixture_prior, ("sample detached", "log q detached")),
    Style(
        "sampled KL",
        sampled_kl,
        SUM + EITHER + ("sample detached", "log q detached", "entropy left out", "prior std given as variance"),
    ),
    Style("learned prior", learned_prior, MEAN + EITHER + CLASSES),
    Style("relevance prior", relevance_prior, SUM + WHOLE + CLASSES),
    Style(
        "learned noise",
        partial(regression, heteroscedastic=False),
        (*SUM, *EITHER, *ANALYTIC, "squared error", "log noise forgotten"),
    ),
    Style(
        "two outputs",
        partial(regression, heteroscedastic=True),
        (*MEAN, *EITHER, *ANALYTIC, "squared error", "log noise forgotten"),
    ),
]
