"""More right objectives in PyTorch: unequal batches, rows without a label, a prior that is learned."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal, kl_divergence

from tests.elbo_audit_field.case import case, labelled, measured
from tests.elbo_audit_field.torch_cases import LocalReparamLinear, LogvarLinear, closed_kl, tensors


@case("torch_unequal_batches", "torch", right=True, kl_per_epoch=1.0, truth="the shares B / N of the KL add up to 1")
def unequal_batches():
    """Two outputs with a known noise sd 0.3; the last batch is smaller, and each has its share of the KL."""
    # 64 + 64 + 64 + 58 = 250 rows: the weights B / N are 0.256 three times and 0.232.
    torch.manual_seed(6)
    hidden, out = LogvarLinear(4, 10), LogvarLinear(10, 2)

    def nll(x, y):
        mean = out(torch.relu(hidden(x)))
        return -Normal(mean, 0.3).log_prob(y).sum(dim=1).sum()

    def kl():
        return hidden.kl() + out.kl()

    def loss(x, y):
        return nll(x, y) + kl() * x.size(0) / 250

    def pieces(x, y):
        return nll(x, y), sum(closed_kl(each.mu, (each.logvar / 2).exp(), 1.0) for each in (hidden, out))

    parameters = [("hidden." + n, p) for n, p in hidden.named_parameters()]
    parameters += [("out." + n, p) for n, p in out.named_parameters()]
    batches = tensors(measured([64, 64, 64, 58], 4, 2, 6, 0.3))
    given = dict(loss=loss, parameters=parameters, batches=batches, n_train=250, nll=nll, kl=kl)
    return given | dict(prior_std=1.0, pieces=pieces)


@case("torch_ignore_index", "torch", right=True, kl_per_epoch=1.0, truth="summed NLL of the labelled rows + KL / 20")
def ignore_index():
    """Some rows have no label (-100): the summed cross-entropy passes them over; the KL is over the 20 batches."""
    # The epoch's losses add up to the NLL of all labelled rows and 20 * KL / 20, whatever share of rows has a label.
    torch.manual_seed(7)
    net = nn.Sequential(LocalReparamLinear(6, 9), nn.Softplus(), LocalReparamLinear(9, 5))
    criterion = nn.CrossEntropyLoss(ignore_index=-100, reduction="sum")
    n_batches = 20

    def loss(x, y):
        kl = sum(m.kl_loss() for m in net.modules() if isinstance(m, LocalReparamLinear))
        return criterion(net(x), y) + kl / n_batches

    def pieces(x, y):
        log_p = net(x).log_softmax(1)
        nll = -log_p[y >= 0].gather(1, y[y >= 0, None]).sum()
        return nll, sum(closed_kl(net[i].W_mu, net[i].W_logsigma.exp(), 0.5) for i in (0, 2))

    batches = tensors(labelled([50, 50, 50], 6, 5, 7))
    for _, y in batches:
        y[::7] = -100
    parameters = list(net.named_parameters())
    return dict(loss=loss, parameters=parameters, batches=batches, n_train=1000, prior_std=0.5, pieces=pieces)


class TiedPriorNet(nn.Module):
    """Two layers whose weights share one prior N(0, exp(prior_log_sd)), which is learned."""

    def __init__(self):
        super().__init__()
        self.m1, self.m2 = nn.Parameter(0.2 * torch.randn(8, 10)), nn.Parameter(0.2 * torch.randn(10, 3))
        self.s1 = nn.Parameter(torch.full((8, 10), -2.5))
        self.s2 = nn.Parameter(torch.full((10, 3), -2.5))
        self.prior_log_sd = nn.Parameter(torch.tensor(-0.5))

    def forward(self, x):
        w1 = Normal(self.m1, F.softplus(self.s1)).rsample()
        w2 = Normal(self.m2, F.softplus(self.s2)).rsample()
        return F.elu(x @ w1) @ w2

    def kl(self):
        prior = Normal(0.0, self.prior_log_sd.exp())
        q1, q2 = Normal(self.m1, F.softplus(self.s1)), Normal(self.m2, F.softplus(self.s2))
        return kl_divergence(q1, prior).sum() + kl_divergence(q2, prior).sum()


@case(
    "torch_learned_prior_annealed", "torch", right=True, kl_per_epoch=1.0, truth="beta is 1 by now: the KL counts once"
)
def learned_prior_annealed():
    """One learned prior sd for both layers; the KL's weight has grown over ten epochs and is held at 1."""
    # beta(12) = min(1, 12 / 10) = 1; the loss is the mean NLL and beta * KL / N. A learned prior leaves it a bound.
    torch.manual_seed(8)
    net = TiedPriorNet()
    epoch = 12

    def loss(x, y):
        beta = min(1.0, epoch / 10)
        return F.nll_loss(F.log_softmax(net(x), dim=-1), y) + beta * net.kl() / 2000

    def nll(x, y):
        return F.nll_loss(F.log_softmax(net(x), dim=-1), y, reduction="sum")

    def pieces(x, y):
        tau, kl = net.prior_log_sd.exp(), 0.0
        for m, s in ((net.m1, F.softplus(net.s1)), (net.m2, F.softplus(net.s2))):
            kl = kl + ((s**2 + m**2) / (2 * tau**2) - 0.5 + (tau / s).log()).sum()
        return nll(x, y), kl

    batches = tensors(labelled([100, 100, 100], 8, 3, 8))
    given = dict(loss=loss, parameters=list(net.named_parameters()), batches=batches, n_train=2000)
    return given | dict(nll=nll, kl=net.kl, pieces=pieces)
