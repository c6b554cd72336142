"""Ten styles after other people's code: layers with different KL weights, two names, noise in place, limits, SGD."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional

from tests.elbo_audit.corpus import common
from tests.elbo_audit.corpus.common import (
    MEAN,
    SUM,
    Objective,
    Sizes,
    Style,
    Training,
    around,
    class_batches,
    class_loss,
    combined,
    gauss_kl,
    unsoftplus,
)
from tests.elbo_audit.corpus.network_styles import drawn, finish, from_terms, kl_terms, layers

softplus = functional.softplus
FACTORS = {"one layer's KL x 1.9": 1.9, "one layer's KL x 0.55": 0.55, "one layer's KL x 5": 5.0}


def scaled_layers(s: Sizes, fault: str | None) -> Objective:
    """Three layers, a mean over rows and KL / N; a factor is left on the KL of the second layer."""
    t = Training()
    batches = class_batches(s)
    net = layers(s, t, "rho", unsoftplus(s.sigma), [s.n_in, s.hidden, s.hidden, s.n_out], fault)

    def nll(x, y, mistake=None):
        return class_loss(drawn(x, net, softplus, torch.relu), y, mistake)

    def terms():
        factor = FACTORS.get(fault or "", 1.0)
        return [
            factor * term if index in (2, 3) else term for index, term in enumerate(kl_terms(net, softplus, s, fault))
        ]

    return finish(s, fault, from_terms(s, fault, nll, terms, "mean"), nll, t, batches)


def layer_means(s: Sizes, fault: str | None) -> Objective:
    """A sum over rows and KL / M; `.mean()` over all numbers of a layer, weights and bias together."""
    t = Training()
    batches = class_batches(s)
    net = layers(s, t, "log_sigma", math.log(s.sigma), [s.n_in, s.hidden, s.n_out], fault)

    def nll(x, y, mistake=None):
        return class_loss(drawn(x, net, torch.exp, torch.tanh), y, mistake)

    def terms():
        found = [term.flatten() for term in kl_terms(net, torch.exp, s, fault)]
        whole = [torch.cat(found[k : k + 2]) for k in range(0, len(found), 2)]
        return [layer.mean() for layer in whole] if fault == "mean over each layer" else whole

    return finish(s, fault, from_terms(s, fault, nll, terms, "sum"), nll, t, batches)


class Named(nn.Module):
    """A layer that keeps its means under two names, and its rhos as a flat parameter on the same storage."""

    def __init__(self, n_in: int, n_out: int, s: Sizes) -> None:
        super().__init__()
        self.w_mu = nn.Parameter(torch.randn(n_out, n_in) / math.sqrt(n_in))
        self.w_rho = nn.Parameter(around(unsoftplus(s.sigma), n_out, n_in))
        self.sampler_mu = nn.Parameter(self.w_mu.data)
        self.flat_rho = nn.Parameter(self.w_rho.data.view(-1))

    def forward(self, x: Tensor) -> Tensor:
        """Draw by one name of the means; the KL takes the other."""
        return x @ (self.sampler_mu + softplus(self.w_rho) * torch.randn_like(self.w_mu)).T


def two_names(s: Sizes, fault: str | None) -> Objective:
    """Two parameters on one storage, as an optimiser and a sampler keep them; a mean over rows and KL / N."""
    batches = class_batches(s)
    one, two = model = nn.ModuleList([Named(s.n_in, s.hidden, s), Named(s.hidden, s.n_out, s)])
    decay = 0.01 if fault == "weight decay in the optimiser" else 0.0
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=decay)

    def nll(x, y, mistake=None):
        return class_loss(two(torch.relu(one(x))), y, mistake)

    def terms():
        factor = FACTORS.get(fault or "", 1.0)
        return [gauss_kl(one.w_mu, softplus(one.w_rho), s, fault), factor * gauss_kl(two.w_mu, softplus(two.w_rho), s)]

    loss = from_terms(s, fault, nll, terms, "mean")
    return common.finish(s, fault, loss, nll, list(model.named_parameters()), optimizer, batches)


def noise_kept(s: Sizes, fault: str | None) -> Objective:
    """Two passes whose noise a layer keeps; wrong: both passes write it into one buffer."""
    t = Training()
    batches = class_batches(s)
    net = layers(s, t, "rho", unsoftplus(3 * s.sigma), [s.n_in, s.hidden, s.n_out], fault)
    kept = {id(r): torch.zeros_like(r) for wm, wr, bm, br in net for r in (wr, br)}

    def noise(r: Tensor) -> Tensor:
        if fault == "two passes, one noise buffer":
            kept[id(r)].data.normal_()
        else:
            kept[id(r)] = torch.randn_like(r)
        return kept[id(r)]

    def once(x, y, mistake):
        for k, (wm, wr, bm, br) in enumerate(net):
            x = functional.linear(x, wm + softplus(wr) * noise(wr), bm + softplus(br) * noise(br))
            x = torch.relu(x) if k == 0 else x
        return class_loss(x, y, mistake)

    def nll(x, y, mistake=None):
        return (once(x, y, mistake) + once(x, y, mistake)) / 2

    return finish(
        s, fault, from_terms(s, fault, nll, lambda: kl_terms(net, softplus, s, fault), "mean"), nll, t, batches
    )


def antithetic(s: Sizes, fault: str | None) -> Objective:
    """A pass with the noise and one with its negative; wrong: the sign is turned in place before backward."""
    t = Training()
    batches = class_batches(s)
    net = layers(s, t, "log_sigma", math.log(3 * s.sigma), [s.n_in, s.hidden, s.n_out], fault)

    def nll(x, y, mistake=None):
        noise = [torch.randn_like(part) for layer in net for part in (layer[0], layer[2])]
        total = torch.zeros(())
        for sign in (1, -1):
            if mistake == "noise turned in place":
                for part in noise if sign < 0 else ():
                    part.data.neg_()
                used = noise
            else:
                used = [sign * part for part in noise]
            h = x
            for k, (wm, wr, bm, br) in enumerate(net):
                h = functional.linear(h, wm + wr.exp() * used[2 * k], bm + br.exp() * used[2 * k + 1])
                h = torch.tanh(h) if k == 0 else h
            total = total + class_loss(h, y, mistake) / 2
        return total

    return finish(
        s, fault, from_terms(s, fault, nll, lambda: kl_terms(net, torch.exp, s, fault), "sum"), nll, t, batches
    )


def small_scale(s: Sizes, fault: str | None) -> Objective:
    """Scales of a few thousandths that are parameters themselves: a step below zero ends in torch's ValueError."""
    t = Training()
    batches = class_batches(s)
    pairs = [
        t.pair(f"{name}_", "loc", torch.randn(b, a) / math.sqrt(a), "scale", 0.02 * s.sigma * torch.ones(b, a), fault)
        for name, a, b in (("one", s.n_in, s.hidden), ("two", s.hidden, s.n_out))
    ]

    def nll(x, y, mistake=None):
        one, two = (Normal(m, r).rsample() for m, r in pairs)
        return class_loss(torch.relu(x @ one.T) @ two.T, y, mistake)

    def terms():
        return [kl_divergence(Normal(m, r), Normal(0.0, s.prior)) for m, r in pairs]

    return finish(s, fault, from_terms(s, fault, nll, terms, "mean"), nll, t, batches)


def rates_above_zero(s: Sizes, fault: str | None) -> Objective:
    """Counts with a rate of x @ w, w > 0 drawn: the loss is infinite where a rate is below zero."""
    torch.manual_seed(7)
    t = Training()
    rows = [0.2 + torch.rand(s.batch, s.n_in) for _ in range(3)]
    batches = [(x, torch.poisson(0.5 * x.sum(1))) for x in rows]
    spread = around(math.log(0.02), s.n_in)
    m, r = t.pair("w_", "mu", 0.06 + 0.05 * torch.rand(s.n_in), "log_std", spread, fault)

    def nll(x, y):
        rate = x @ (m + r.exp() * torch.randn_like(m))
        inside = rate.clamp(min=1e-30)
        each = torch.where(rate > 0, inside - y * inside.log() + torch.lgamma(y + 1), torch.tensor(math.inf))
        return each.sum()

    def loss(x, y):
        return combined(nll(x, y), [gauss_kl(m, r.exp(), s, fault)], s, "sum", fault)

    return finish(s, fault, loss, nll, t, batches)


def sgd(t: Training, fault: str | None, rate: float, momentum: float = 0.0) -> torch.optim.SGD:
    """Return SGD with one group for the means and one for the spreads."""
    spreads, means = ([v for n, v in t.named if ("rho" in n or "sigma" in n) == wanted] for wanted in (True, False))
    groups = [{"params": means}]
    if fault != "sigma not in the optimiser":
        groups.append({"params": spreads, "lr": 1e-9 if fault == "rate of sigma too small" else rate})
    decay = 0.01 if fault == "weight decay in the optimiser" else 0.0
    return torch.optim.SGD(groups, lr=rate, momentum=momentum, weight_decay=decay)


def summed(s: Sizes, t: Training, net, batches, fault: str | None, rate: float) -> Objective:
    """Return the objective of a sum over rows, KL / M, with ReLU and trained by SGD."""

    def nll(x, y, mistake=None):
        return class_loss(drawn(x, net, softplus, torch.relu), y, mistake)

    loss = from_terms(s, fault, nll, lambda: kl_terms(net, softplus, s, fault), "sum")
    return common.finish(s, fault, loss, nll, t.named, sgd(t, fault, rate), batches)


def opposite_sigmas(s: Sizes, fault: str | None) -> Objective:
    """Half of the sigmas begin far below the prior's and half above, so that SGD moves them oppositely."""
    t = Training()
    batches = class_batches(s)
    net = layers(s, t, "rho", 0.0, [s.n_in, s.hidden, s.n_out], fault)
    with torch.no_grad():
        for _, wr, _, br in net:
            for r in (wr, br):
                below = torch.rand_like(r) < 0.5
                r.copy_(torch.where(below, unsoftplus(0.5 * s.prior), unsoftplus(1.6 * s.prior)))
    return summed(s, t, net, batches, fault, 0.02)


def plain_sgd(s: Sizes, fault: str | None) -> Objective:
    """A sum over rows, KL / M and SGD, as in many a tutorial."""
    t = Training()
    batches = class_batches(s)
    net = layers(s, t, "rho", unsoftplus(s.sigma), [s.n_in, s.hidden, s.n_out], fault)
    return summed(s, t, net, batches, fault, 0.01)


def sgd_with_momentum(s: Sizes, fault: str | None) -> Objective:
    """A mean over rows, KL / N, SGD with momentum .9."""
    t = Training()
    batches = class_batches(s)
    net = layers(s, t, "log_sigma", math.log(s.sigma), [s.n_in, s.hidden, s.n_out], fault)

    def nll(x, y, mistake=None):
        return class_loss(drawn(x, net, torch.exp, torch.tanh), y, mistake)

    loss = from_terms(s, fault, nll, lambda: kl_terms(net, torch.exp, s, fault), "mean")
    return common.finish(s, fault, loss, nll, t.named, sgd(t, fault, 0.05, momentum=0.9), batches)


DECAY = "weight decay in the optimiser"
SLOW = ("rate of sigma too small", "sigma not in the optimiser")
STYLES = [
    Style("scaled layers", scaled_layers, tuple(FACTORS)),
    Style("layer means", layer_means, ("mean over each layer",)),
    Style("two names", two_names, ("one layer's KL x 5", "one layer's KL x 1.9", DECAY)),
    Style("noise kept", noise_kept, ("two passes, one noise buffer",)),
    Style("antithetic passes", antithetic, ("noise turned in place",)),
    Style("small scale", small_scale, MEAN),
    Style("rates above zero", rates_above_zero, SUM),
    Style("opposite sigmas", opposite_sigmas, SLOW),
    Style("plain SGD", plain_sgd, (*SLOW, DECAY, "KL in every batch")),
    Style("SGD with momentum", sgd_with_momentum, (DECAY, "rate of sigma too small")),
]
