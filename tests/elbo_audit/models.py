"""Models whose objective is known, to plant one mistake at a time.

`Model`: two layers, y with Gaussian noise of variance 1, w ~ N(0, PRIOR^2), q(w) = N(mu, softplus(rho)^2). The right
objective of a batch is NLL + KL B / N. The KL has a closed form, so that a test knows the weight that it plants.
"""

import math

import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional

import elbo_audit

N_TRAIN, BATCH, PRIOR = 60_000, 128, 2.0


STEPS = N_TRAIN / BATCH  # 468.75


class Linear(nn.Module):
    """A layer that draws its weights from independent Gaussians."""

    def __init__(self, n_in, n_out, seed):
        super().__init__()
        source = torch.Generator().manual_seed(seed)
        self.weight_mu = nn.Parameter(torch.randn(n_in, n_out, generator=source) * 0.5)
        self.weight_rho = nn.Parameter(torch.full((n_in, n_out), -2.0))

    def sigma(self):
        return functional.softplus(self.weight_rho)

    def draw(self):
        return self.weight_mu + self.sigma() * torch.randn(self.weight_mu.shape)

    def kl(self, prior=PRIOR):
        sigma = self.sigma()
        return (math.log(prior) - sigma.log() + (sigma**2 + self.weight_mu**2) / (2 * prior**2) - 0.5).sum()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Linear(7, 5, 0), Linear(5, 1, 1)
        self.spare = None

    def forward(self, x):
        return torch.tanh(x @ self.first.draw()) @ self.second.draw()

    def nll(self, x, y):
        return -Normal(self(x), 1.0).log_prob(y).sum()

    def kl(self, prior=PRIOR):
        return self.first.kl(prior) + self.second.kl(prior)

    def elbo(self, x, y):
        return self.nll(x, y) + self.kl() / STEPS


def batches(n=3):
    source = torch.Generator().manual_seed(9)
    return [(torch.randn(BATCH, 7, generator=source), torch.randn(BATCH, 1, generator=source)) for _ in range(n)]


def audit(model, loss, **options):
    options.setdefault("nll", model.nll)
    return elbo_audit.audit_torch(loss, model.named_parameters(), batches(), N_TRAIN, **options)


def outcomes(report):
    return {finding.rule: finding.outcome for finding in report.findings}


def sampled_loss(model, detach):
    """Return NLL + (log q - log p) of the same draw; log q takes the mean as it is, or as a constant."""

    def loss(x, y):
        ratio, value = 0.0, x
        for layer in (model.first, model.second):
            w = layer.draw()
            centre = layer.weight_mu.data if detach else layer.weight_mu
            ratio = ratio + (Normal(centre, layer.sigma()).log_prob(w) - Normal(0.0, PRIOR).log_prob(w)).sum()
            value = torch.tanh(value @ w) if layer is model.first else value @ w
        return -Normal(value, 1.0).log_prob(y).sum() + ratio / STEPS

    return loss


class Single(nn.Module):
    """One layer of 5 x 7 weights with any prior, name and transform of sigma. `terms` has the KL of a draw."""

    def __init__(self, prior=None, scale="weight_rho", start=-2.0, transform=functional.softplus, **extra):
        super().__init__()
        source = torch.Generator().manual_seed(0)
        self.weight_mu = nn.Parameter(torch.randn(5, 7, generator=source) * 0.3)
        self.scale, self.transform, self.prior = scale, transform, prior
        for name, value in {scale: torch.full((5, 7), start), **extra}.items():
            self.register_parameter(name, nn.Parameter(value))

    def draw(self):
        self.sigma = self.transform(getattr(self, self.scale))
        return self.weight_mu + self.sigma * torch.randn(5, 7)

    def terms(self, x, y):
        """Return NLL and KL of one draw."""
        w = self.draw()
        log_p = Normal(0.0, 1.0).log_prob(w) if self.prior is None else self.prior(self, w)
        return self._nll(x, y, w), (Normal(self.weight_mu, self.sigma).log_prob(w) - log_p).sum()

    def nll(self, x, y):
        return self._nll(x, y, self.draw())

    def analytic(self):
        sigma = self.transform(getattr(self, self.scale))
        return ((sigma**2 + self.weight_mu**2) / 2 - sigma.log() - 0.5).sum()

    def elbo(self, x, y):
        """Return the objective whose KL is in closed form."""
        return self.nll(x, y) + self.analytic() / STEPS

    def _nll(self, x, y, w, **options):
        labels = (y[:, 0] * 2).long() % 5
        return functional.cross_entropy(x @ w.T, labels, reduction="sum", **options)


def elbo_of(net):
    def loss(x, y):
        nll, kl = net.terms(x, y)
        return nll + kl / STEPS

    return loss
