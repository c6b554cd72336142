"""Seven styles of other models, and of draws, in plain torch."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from tests.elbo_audit.corpus.common import (
    ANALYTIC,
    CLASSES,
    EITHER,
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


def convolution(s: Sizes, fault: str | None) -> Objective:
    """A Bayesian convolution, pooling and a Bayesian dense layer, on pictures of 8 x 8."""
    torch.manual_seed(1)
    t = Training()
    batches = [(torch.randn(s.batch, 1, 8, 8), torch.randint(s.n_out, (s.batch,))) for _ in range(3)]

    def pair(name, means):
        return t.pair(f"{name}_", "mu", means, "log_std", around(math.log(s.sigma), *means.shape), fault)

    cm, cr = pair("conv.w", torch.randn(4, 1, 3, 3) / 3)
    dm, dr = pair("fc.w", torch.randn(s.n_out, 36) / 6)
    bm, br = pair("fc.b", torch.zeros(s.n_out))

    def nll(x, y, mistake=None):
        w = cm + cr.exp() * torch.randn_like(cm)
        h = functional.max_pool2d(torch.relu(functional.conv2d(x, w)), 2).flatten(1)
        out = functional.linear(h, dm + dr.exp() * torch.randn_like(dm), bm + br.exp() * torch.randn_like(bm))
        return class_loss(out, y, mistake)

    def terms():
        return [gauss_kl(m, r.exp(), s, fault) for m, r in ((cm, cr), (dm, dr), (bm, br))]

    return finish(s, fault, from_terms(s, fault, nll, terms, "mean"), nll, t, batches)


def tied_weights(s: Sizes, fault: str | None) -> Objective:
    """An autoencoder whose decoder is the transposed encoder: one draw, one KL."""
    torch.manual_seed(2)
    t = Training()
    batches = [(torch.rand(s.batch, s.n_in),) for _ in range(3)]
    means = torch.randn(s.hidden, s.n_in) / math.sqrt(s.n_in)
    m, r = t.pair("", "mu", means, "rho", around(unsoftplus(s.sigma), s.hidden, s.n_in), fault)

    def nll(x):
        w = m + softplus(r) * torch.randn_like(m)
        return functional.binary_cross_entropy_with_logits(torch.tanh(x @ w.T) @ w, (x > 0.5).float(), reduction="sum")

    def loss(x):
        return combined(nll(x), [gauss_kl(m, softplus(r), s, fault)], s, "sum", fault)

    return finish(s, fault, loss, nll, t, batches)


def last_layer(s: Sizes, fault: str | None) -> Objective:
    """An ordinary network with a Bayesian last layer of full covariance, written with `kl=`."""
    t = Training()
    batches = class_batches(s)
    body = nn.Linear(s.n_in, 6)
    t.named += list(body.named_parameters(prefix="body"))
    size = 6 * s.n_out
    centre = t.add("head_centre", 0.3 * torch.randn(size))
    factor = t.add("head_factor", s.sigma * (torch.eye(size) + 0.1 * torch.randn(size, size)))
    prior = torch.distributions.MultivariateNormal(torch.zeros(size), s.prior**2 * torch.eye(size))

    def q():
        lower = factor.tril(-1) + torch.diag_embed(factor.diagonal().abs())
        return torch.distributions.MultivariateNormal(centre, scale_tril=lower)

    def nll(x, y, mistake=None):
        w = q().sample() if mistake == "sample detached" else q().rsample()
        return class_loss(torch.relu(body(x)) @ w.view(6, s.n_out), y, mistake)

    def kl():
        return torch.distributions.kl_divergence(q(), prior)

    loss = from_terms(s, fault, nll, lambda: [kl()], "sum")
    return finish(s, fault, loss, nll, t, batches, kl=kl, prior_std=None)


def counts(s: Sizes, fault: str | None) -> Objective:
    """Poisson regression with a log link, one vector of weights."""
    torch.manual_seed(3)
    t = Training()
    batches = [
        (x, torch.poisson(torch.exp(0.3 * x[:, 0]))) for x in (0.5 * torch.randn(s.batch, s.n_in) for _ in range(3))
    ]
    means = 0.1 * torch.randn(s.n_in)
    m, r = t.pair("beta_", "loc", means, "log_scale", around(math.log(s.sigma), s.n_in), fault)

    def nll(x, y):
        return functional.poisson_nll_loss(x @ (m + r.exp() * torch.randn_like(m)), y, full=True, reduction="sum")

    def loss(x, y):
        return combined(nll(x, y), [gauss_kl(m, r.exp(), s, fault)], s, "sum", fault)

    return finish(s, fault, loss, nll, t, batches)


def recurrent(s: Sizes, fault: str | None) -> Objective:
    """A recurrent cell whose weights are drawn once for a sequence."""
    torch.manual_seed(4)
    t = Training()
    batches = [(torch.randn(s.batch, 5, s.n_in), torch.randint(s.n_out, (s.batch,))) for _ in range(3)]
    shapes = {"w_in": (s.hidden, s.n_in), "w_rec": (s.hidden, s.hidden), "w_out": (s.n_out, s.hidden)}
    net = {
        k: t.pair(f"{k}.", "mean", torch.randn(*v) / math.sqrt(v[1]) / 2, "std", torch.full(v, s.sigma), fault)
        for k, v in shapes.items()
    }

    def nll(x, y, mistake=None):
        w = {k: m + r * torch.randn_like(m) for k, (m, r) in net.items()}
        h = torch.zeros(len(x), s.hidden)
        for step in x.unbind(1):
            h = torch.tanh(step @ w["w_in"].T + h @ w["w_rec"].T)
        return class_loss(h @ w["w_out"].T, y, mistake)

    loss = from_terms(s, fault, nll, lambda: [gauss_kl(m, r, s, fault) for m, r in net.values()], "mean")
    return finish(s, fault, loss, nll, t, batches)


def embedding(s: Sizes, fault: str | None) -> Objective:
    """Bayesian embeddings: rows of words that a batch does not hold get no gradient from its data."""
    torch.manual_seed(5)
    t = Training()
    words, width = 60, 6
    batches = [(torch.randint(words, (s.batch, 4)), torch.randint(s.n_out, (s.batch,))) for _ in range(3)]
    (em, er), (wm, wr) = (
        t.pair(f"{name}.", "mu", torch.randn(n, width), "rho", around(unsoftplus(s.sigma), n, width), fault)
        for name, n in (("table", words), ("out", s.n_out))
    )

    def nll(x, y, mistake=None):
        table = em + softplus(er) * torch.randn_like(em)
        h = functional.embedding(x, table).mean(1)
        return class_loss(functional.linear(h, wm + softplus(wr) * torch.randn_like(wm)), y, mistake)

    def terms():
        return [gauss_kl(m, softplus(r), s, fault) for m, r in ((em, er), (wm, wr))]

    return finish(s, fault, from_terms(s, fault, nll, terms, "sum"), nll, t, batches)


def vmapped_draws(s: Sizes, fault: str | None) -> Objective:
    """Four draws by `torch.func.vmap`; the loss is their mean."""
    t = Training()
    batches = class_batches(s)
    net = layers(s, t, "sigma", s.sigma, [s.n_in, s.hidden, s.n_out], fault)

    def one(x, y, spread):
        return functional.cross_entropy(drawn(x, net, spread, torch.relu), y, reduction="sum")

    def nll(x, y, spread=torch.abs):
        draws = torch.func.vmap(lambda _: one(x, y, spread), randomness="different")(torch.zeros(4))
        return draws.mean()

    def loss(x, y):
        spread = (lambda v: v.detach().abs()) if fault == "sample detached" else torch.abs
        return combined(nll(x, y, spread), kl_terms(net, torch.abs, s, fault), s, "mean", fault)

    return finish(s, fault, loss, nll, t, batches)


NO_BIAS = tuple(each for each in EITHER if each != "bias KL dropped")
ONE_TENSOR = tuple(each for each in NO_BIAS if each != "KL of one layer only")
STYLES = [
    Style("convolution", convolution, MEAN + EITHER + ANALYTIC + CLASSES),
    Style("tied weights", tied_weights, SUM + ONE_TENSOR + ANALYTIC),
    Style(
        "last layer",
        last_layer,
        (*SUM, "wrong sign", "KL counted twice", "annealing stuck", "sample detached", "temperature"),
    ),
    Style("counts", counts, SUM + ONE_TENSOR + ANALYTIC),
    Style("recurrent", recurrent, MEAN + NO_BIAS + ANALYTIC + CLASSES),
    Style("embedding", embedding, SUM + NO_BIAS + ANALYTIC + CLASSES),
    Style("vmapped draws", vmapped_draws, (*MEAN, *EITHER, *ANALYTIC, "sample detached")),
]
