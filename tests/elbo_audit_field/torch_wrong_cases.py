"""Objectives in PyTorch with one mistake each."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal, kl_divergence

from tests.elbo_audit_field.case import case, labelled, measured
from tests.elbo_audit_field.torch_cases import BlundellLinear, LogvarLinear, closed_kl, tensors


def rho_kl(layer, sigma_prior):
    """Return the closed KL of weights and biases of a Blundell layer to N(0, sigma_prior)."""
    weights = closed_kl(layer.weight_mu, F.softplus(layer.weight_rho), sigma_prior)
    return weights + closed_kl(layer.bias_mu, F.softplus(layer.bias_rho), sigma_prior)


class UnitGaussian:
    def log_prob(self, w):
        return Normal(0.0, 1.0).log_prob(w).sum()


@case(
    "torch_kl_every_batch",
    "torch",
    right=False,
    mistake="weight",
    kl_per_epoch=469.0,
    mends=1 / 469,
    truth="the KL counts 469 times an epoch: it is added whole to each summed batch loss",
)
def kl_every_batch():
    """Summed cross-entropy of a batch plus the whole KL, with loaders of 128 of 60,000 rows."""
    # 60,000 / 128 = 468.75, so 469 batches, and each adds one KL.
    torch.manual_seed(11)
    net = nn.Sequential(LogvarLinear(10, 12), nn.ReLU(), LogvarLinear(12, 10))

    def kl():
        return net[0].kl() + net[2].kl()

    def loss(x, y):
        return F.cross_entropy(net(x), y, reduction="sum") + kl()

    def nll(x, y):
        return F.cross_entropy(net(x), y, reduction="sum")

    batches = tensors(labelled([128, 128, 128], 10, 10, 11))
    given = dict(loss=loss, parameters=list(net.named_parameters()), batches=batches, n_train=60_000, nll=nll, kl=kl)
    return given | dict(
        prior_std=1.0,
        pieces=lambda x, y: (nll(x, y), sum(closed_kl(net[i].mu, (net[i].logvar / 2).exp(), 1.0) for i in (0, 2))),
    )


@case(
    "torch_kl_over_batch_size",
    "torch",
    right=False,
    mistake="weight",
    kl_per_epoch=100.0,
    mends=0.01,
    truth="the KL counts 100 times an epoch: a mean loss needs KL / N, and this is KL / B",
)
def kl_over_batch_size():
    """The mean cross-entropy plus the KL over the batch size: both look like means over the batch."""
    # B * loss = summed NLL + KL, and there are 6,000 / 60 = 100 batches.
    torch.manual_seed(12)
    mu = nn.ParameterList([nn.Parameter(0.2 * torch.randn(7, 11)), nn.Parameter(0.2 * torch.randn(11, 4))])
    rho = nn.ParameterList([nn.Parameter(torch.full_like(m, -3.0)) for m in mu])

    def net(x):
        w1, w2 = (m + F.softplus(r) * torch.randn_like(m) for m, r in zip(mu, rho, strict=True))
        return torch.tanh(x @ w1) @ w2

    def kl():
        sigmas = [F.softplus(r) for r in rho]
        return sum((0.5 * (s**2 + m**2 - 1) - s.log()).sum() for m, s in zip(mu, sigmas, strict=True))

    def loss(x, y):
        return F.cross_entropy(net(x), y) + kl() / x.shape[0]

    def nll(x, y):
        return F.cross_entropy(net(x), y, reduction="sum")

    def pieces(x, y):
        return nll(x, y), sum(closed_kl(m, F.softplus(r), 1.0) for m, r in zip(mu, rho, strict=True))

    parameters = [
        *(("mu." + n, p) for n, p in mu.named_parameters()),
        *(("rho." + n, p) for n, p in rho.named_parameters()),
    ]
    batches = tensors(labelled([60, 60, 60], 7, 4, 12))
    given = dict(loss=loss, parameters=parameters, batches=batches, n_train=6000, nll=nll, kl=kl, prior_std=1.0)
    return given | dict(pieces=pieces)


@case(
    "torch_kl_mean_over_weights",
    "torch",
    right=False,
    mistake="weight",
    kl_per_epoch=8.0,
    mends=1 / 8,
    truth="the KL counts 8 times an epoch: 0.1 * N / W with 195 weights and 15,600 rows",
)
def kl_mean_over_weights():
    """The KL as a mean over the weights, times 0.1, beside a mean loss, as examples of layer libraries have it."""
    # B * loss = NLL + 0.1 * B * KL / W with W = 8 * 16 + 16 + 16 * 3 + 3 = 195; over an epoch the B add up
    # to N = 15,600: the KL counts 0.1 * 15,600 / 195 = 8 times.
    torch.manual_seed(13)
    net = nn.Sequential(BlundellLinear(8, 16, UnitGaussian()), nn.ReLU(), BlundellLinear(16, 3, UnitGaussian()))

    def bkl_mean():
        kl, n = 0.0, 0
        for m in net.modules():
            if isinstance(m, BlundellLinear):
                for mu, rho in ((m.weight_mu, m.weight_rho), (m.bias_mu, m.bias_rho)):
                    sigma = F.softplus(rho)
                    kl = kl + (-sigma.log() + (sigma**2 + mu**2) / 2 - 0.5).sum()
                    n += mu.numel()
        return kl / n

    def loss(x, y):
        return F.cross_entropy(net(x), y) + 0.1 * bkl_mean()

    def pieces(x, y):
        return F.cross_entropy(net(x), y, reduction="sum"), rho_kl(net[0], 1.0) + rho_kl(net[2], 1.0)

    batches = tensors(labelled([100, 100, 100], 8, 3, 13))
    adam = torch.optim.Adam(net.parameters(), lr=0.01)
    given = dict(loss=loss, parameters=list(net.named_parameters()), batches=batches, n_train=15_600, optimizer=adam)
    return given | dict(pieces=pieces, prior_std=1.0)


@case(
    "torch_entropy_of_first_layer_only",
    "torch",
    right=False,
    mistake="entropy",
    truth="log q of the second layer is left out, so its sd has no entropy term",
)
def entropy_of_first_layer_only():
    """Sampled log q - log p; the sum over layers takes log p of both layers and log q of the first alone."""
    # d loss / d rho of layer 2 lacks -1 / sigma * d sigma / d rho, which is what keeps its sigma from 0.
    torch.manual_seed(14)
    prior = UnitGaussian()
    l1, l2 = BlundellLinear(5, 14, prior), BlundellLinear(14, 3, prior)

    def loss(x, y):
        out = l2(F.relu(l1(x)))
        log_prior = l1.log_prior + l2.log_prior
        log_variational_posterior = l1.log_posterior
        return (log_variational_posterior - log_prior) / 25 + F.cross_entropy(out, y, reduction="sum")

    def nll(x, y):
        return F.cross_entropy(l2(F.relu(l1(x))), y, reduction="sum")

    def pieces(x, y):
        value = nll(x, y)
        return value, sum(each.log_posterior - each.log_prior for each in (l1, l2))

    parameters = [("l1." + n, p) for n, p in l1.named_parameters()] + [("l2." + n, p) for n, p in l2.named_parameters()]
    batches = tensors(labelled([20, 20, 20, 20], 5, 3, 14))
    return dict(loss=loss, parameters=parameters, batches=batches, n_train=500, nll=nll, pieces=pieces, prior_std=1.0)


@case(
    "torch_prior_sd_as_variance",
    "torch",
    right=False,
    mistake="prior",
    truth="the prior's sd 0.1 is used as its variance: the KL is to N(0, 0.316^2)",
)
def prior_sd_as_variance():
    """A closed KL that divides by 2 * prior_std where 2 * prior_std**2 is meant."""
    # (s^2 + m^2) / (2 * 0.1) is that of a variance 0.1, sd sqrt(0.1) = 0.316; the documented prior has sd 0.1.
    torch.manual_seed(15)
    prior_std = 0.1
    net = nn.Sequential(BlundellLinear(6, 10, UnitGaussian()), nn.Tanh(), BlundellLinear(10, 2, UnitGaussian()))

    def kl():
        total = 0.0
        for m in (net[0], net[2]):
            for mu, rho in ((m.weight_mu, m.weight_rho), (m.bias_mu, m.bias_rho)):
                s = F.softplus(rho)
                total = total + (0.5 * torch.log(torch.tensor(prior_std)) - s.log()).sum()
                total = total + ((s**2 + mu**2) / (2 * prior_std) - 0.5).sum()
        return total

    def nll(x, y):
        return F.cross_entropy(net(x), y, reduction="sum")

    def loss(x, y):
        return F.cross_entropy(net(x), y) + kl() / 3000

    def check():
        wide = prior_std**0.5
        return [("the KL is to N(0, 0.1)", kl().item(), (rho_kl(net[0], wide) + rho_kl(net[2], wide)).item())]

    def pieces(x, y):
        return nll(x, y), rho_kl(net[0], prior_std) + rho_kl(net[2], prior_std)

    batches = tensors(labelled([100, 100, 100], 6, 2, 15))
    given = dict(loss=loss, parameters=list(net.named_parameters()), batches=batches, n_train=3000, nll=nll, kl=kl)
    return given | dict(prior_std=prior_std, pieces=pieces, check=check)


@case(
    "torch_mse_without_noise_variance",
    "torch",
    right=False,
    mistake="likelihood",
    kl_per_epoch=50.0,
    mends=0.02,
    truth="the squared error lacks 1 / (2 * 0.1^2) = 50: beside this likelihood the KL counts 50 times",
)
def mse_without_noise_variance():
    """N times F.mse_loss plus the KL, where the noise of the targets is known to have sd 0.1."""
    # -log p = 50 * squared error + constant; N * mse + KL = (NLL * N / B) / 50 + KL: the KL counts 50 times.
    torch.manual_seed(16)
    q_mu, q_rho = nn.Parameter(0.3 * torch.randn(41)), nn.Parameter(torch.full((41,), -3.0))

    def forward(x):
        w = Normal(q_mu, F.softplus(q_rho)).rsample()
        return torch.tanh(x @ w[:20].view(2, 10) + w[20:30]) @ w[30:40].view(10, 1) + w[40]

    def kl():
        return kl_divergence(Normal(q_mu, F.softplus(q_rho)), Normal(torch.tensor(0.0), torch.tensor(1.0))).sum()

    def loss(x, y):
        return 400 * F.mse_loss(forward(x), y) + kl()

    def nll(x, y):
        return -Normal(forward(x), 0.1).log_prob(y).sum()

    batches = tensors(measured([40, 40, 40], 2, 1, 16))
    given = dict(loss=loss, parameters=[("q_mu", q_mu), ("q_rho", q_rho)], batches=batches, n_train=400, nll=nll, kl=kl)
    return given | dict(prior_std=1.0, pieces=lambda x, y: (nll(x, y), closed_kl(q_mu, F.softplus(q_rho), 1.0)))


@case(
    "torch_rows_broadcast",
    "torch",
    right=False,
    mistake="rows",
    truth="[B, 1] minus [B] is [B, B]: each prediction is compared with every row's target",
)
def rows_broadcast():
    """Regression whose network returns [B, 1] and whose targets are [B]; the squared errors broadcast to [B, B]."""
    # The mean over [B, B] draws all predictions towards the batch's mean target; the weight 1 / N of the KL is right.
    torch.manual_seed(17)
    l1, l2 = LogvarLinear(4, 12), LogvarLinear(12, 1)

    def loss(x, y):
        y_pred = l2(F.relu(l1(x)))
        return ((y_pred - y) ** 2).mean() / (2 * 0.3**2) + (l1.kl() + l2.kl()) / 1200

    def pieces(x, y):
        nll = -Normal(l2(F.relu(l1(x))).squeeze(1), 0.3).log_prob(y).sum()
        return nll, sum(closed_kl(each.mu, (each.logvar / 2).exp(), 1.0) for each in (l1, l2))

    parameters = [("l1." + n, p) for n, p in l1.named_parameters()] + [("l2." + n, p) for n, p in l2.named_parameters()]
    batches = [(x, y.squeeze(1)) for x, y in tensors(measured([40, 40, 40], 4, 1, 17))]
    return dict(loss=loss, parameters=parameters, batches=batches, n_train=1200, prior_std=1.0, pieces=pieces)
