"""Right objectives in PyTorch."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal, Normal, kl_divergence

from tests.elbo_audit_field.case import case, labelled, measured


def tensors(batches):
    """Return the batches as tensors."""
    return [tuple(torch.from_numpy(each) for each in batch) for batch in batches]


def closed_kl(mu, sigma, prior_sd):
    """Return the KL to N(0, prior_sd) from the library, for the verification."""
    return kl_divergence(Normal(mu, sigma), Normal(torch.zeros_like(mu), prior_sd)).sum()


class ScaleMixture:
    def __init__(self, pi, sigma1, sigma2):
        self.pi, self.n1, self.n2 = pi, Normal(0.0, sigma1), Normal(0.0, sigma2)

    def log_prob(self, w):
        p1, p2 = self.n1.log_prob(w).exp(), self.n2.log_prob(w).exp()
        return torch.log(self.pi * p1 + (1 - self.pi) * p2).sum()


class BlundellLinear(nn.Module):
    def __init__(self, n_in, n_out, prior):
        super().__init__()
        self.weight_mu = nn.Parameter(torch.empty(n_out, n_in).uniform_(-0.2, 0.2))
        self.weight_rho = nn.Parameter(torch.empty(n_out, n_in).uniform_(-4, -3))
        self.bias_mu = nn.Parameter(torch.empty(n_out).uniform_(-0.2, 0.2))
        self.bias_rho = nn.Parameter(torch.empty(n_out).uniform_(-4, -3))
        self.prior = prior
        self.log_prior = self.log_posterior = 0.0

    def forward(self, x):
        w_sigma, b_sigma = torch.log1p(self.weight_rho.exp()), torch.log1p(self.bias_rho.exp())
        self.w = self.weight_mu + w_sigma * torch.randn_like(w_sigma)
        self.b = self.bias_mu + b_sigma * torch.randn_like(b_sigma)
        self.log_prior = self.prior.log_prob(self.w) + self.prior.log_prob(self.b)
        q_w, q_b = Normal(self.weight_mu, w_sigma), Normal(self.bias_mu, b_sigma)
        self.log_posterior = q_w.log_prob(self.w).sum() + q_b.log_prob(self.b).sum()
        return F.linear(x, self.w, self.b)


@case("torch_scale_mixture_sampled", "torch", right=True, kl_per_epoch=1.0, truth="the sampled KL counts 469/469 times")
def scale_mixture_sampled():
    """Blundell's network: scale mixture prior, log q - log p of the draw over the number of batches, summed NLL."""
    # 60,000 rows in batches of 128 are 469 batches, the last with 96 rows; each adds 1/469 of log q - log p.
    torch.manual_seed(1)
    prior = ScaleMixture(0.5, 1.0, 0.0025**0.5)
    net = nn.Sequential(BlundellLinear(6, 10, prior), nn.ReLU(), BlundellLinear(10, 4, prior))
    layers = [net[0], net[2]]
    num_batches = 469

    def loss(x, y):
        outputs = net(x)
        log_prior = sum(layer.log_prior for layer in layers)
        log_post = sum(layer.log_posterior for layer in layers)
        return (log_post - log_prior) / num_batches + F.cross_entropy(outputs, y, reduction="sum")

    def pieces(x, y):
        nll = F.cross_entropy(net(x), y, reduction="sum")
        kl = 0.0
        for layer in layers:
            for mu, rho, drawn in (
                (layer.weight_mu, layer.weight_rho, layer.w),
                (layer.bias_mu, layer.bias_rho, layer.b),
            ):
                p = MixtureSameFamily(Categorical(torch.tensor([0.5, 0.5])), Normal(0.0, torch.tensor([1.0, 0.05])))
                kl = kl + Normal(mu, F.softplus(rho)).log_prob(drawn).sum() - p.log_prob(drawn).sum()
        return nll, kl

    batches = tensors(labelled([128, 128, 128], 6, 4, 1))
    return dict(loss=loss, parameters=list(net.named_parameters()), batches=batches, n_train=60_000, pieces=pieces)


class LogvarLinear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.mu = nn.Parameter(torch.randn(n_in, n_out) * 0.1)
        self.logvar = nn.Parameter(torch.full((n_in, n_out), -6.0))
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return x @ (self.mu + torch.exp(0.5 * self.logvar) * torch.randn_like(self.mu)) + self.bias

    def kl(self):
        return -0.5 * torch.sum(1 + self.logvar - self.mu.pow(2) - self.logvar.exp())


@case("torch_logvar_mean_loss", "torch", right=True, kl_per_epoch=1.0, truth="mean loss and KL / N: the KL counts once")
def logvar_mean_loss():
    """A network with log variances, a mean cross-entropy and the closed KL to N(0, 1) over the number of rows."""
    # B * loss = summed NLL + KL * B / N, and the B add up to N. Biases are points without a prior.
    torch.manual_seed(2)
    first, second = LogvarLinear(8, 16), LogvarLinear(16, 3)
    model = nn.Sequential(first, nn.ReLU(), second)

    def kl():
        return first.kl() + second.kl()

    def nll(x, y):
        return F.cross_entropy(model(x), y, reduction="sum")

    def loss(x, y):
        return nn.CrossEntropyLoss()(model(x), y) + kl() / 5000

    def pieces(x, y):
        return nll(x, y), sum(closed_kl(each.mu, (each.logvar / 2).exp(), 1.0) for each in (first, second))

    batches = tensors(labelled([50, 50, 50, 50], 8, 3, 2))
    parameters = list(model.named_parameters())
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    return dict(
        loss=loss, parameters=parameters, batches=batches, n_train=5000, nll=nll, kl=kl, prior_std=1.0, optimizer=adam
    ) | dict(pieces=pieces)


class LocalReparamLinear(nn.Module):
    prior_sigma = 0.5

    def __init__(self, in_features, out_features):
        super().__init__()
        self.W_mu = nn.Parameter(torch.randn(out_features, in_features) * in_features**-0.5)
        self.W_logsigma = nn.Parameter(torch.full((out_features, in_features), -3.0))
        self.b = nn.Parameter(torch.zeros(out_features))

    def forward(self, x):
        mean = F.linear(x, self.W_mu, self.b)
        var = F.linear(x**2, torch.exp(2 * self.W_logsigma))
        return mean + torch.sqrt(var + 1e-12) * torch.randn_like(mean)

    def kl_loss(self):
        s2, p2 = torch.exp(2 * self.W_logsigma), self.prior_sigma**2
        return ((s2 + self.W_mu**2) / (2 * p2) - 0.5 - self.W_logsigma + 0.5 * torch.log(torch.tensor(p2))).sum()


@case(
    "torch_local_reparameterisation",
    "torch",
    right=True,
    kl_per_epoch=1.0,
    truth="N * mean NLL + KL: the KL counts once",
)
def local_reparameterisation():
    """Noise on the pre-activations, a binary target, the mean loss times the number of rows, plus the KL."""
    # Each loss estimates the whole ELBO: N / B times the batch's NLL, and the KL once. Noise differs between rows.
    torch.manual_seed(3)
    l1, l2 = LocalReparamLinear(5, 12), LocalReparamLinear(12, 1)

    def forward(x):
        return l2(torch.tanh(l1(x))).squeeze(-1)

    def loss(x, y):
        bce = F.binary_cross_entropy_with_logits(forward(x), y.float())
        return 800 * bce + l1.kl_loss() + l2.kl_loss()

    def nll(x, y):
        return F.binary_cross_entropy_with_logits(forward(x), y.float(), reduction="sum")

    def pieces(x, y):
        return nll(x, y), sum(closed_kl(each.W_mu, each.W_logsigma.exp(), 0.5) for each in (l1, l2))

    parameters = [(f"l1.{n}", p) for n, p in l1.named_parameters()] + [(f"l2.{n}", p) for n, p in l2.named_parameters()]
    batches = tensors(labelled([40, 40, 40], 5, 2, 3))
    return dict(loss=loss, parameters=parameters, batches=batches, n_train=800, nll=nll, prior_std=0.5, pieces=pieces)


@case(
    "torch_regression_learned_noise", "torch", right=True, kl_per_epoch=1.0, truth="N/B * NLL + KL: the KL counts once"
)
def regression_learned_noise():
    """Regression with a learned noise sd and three posterior samples for each batch; weights in one flat vector."""
    # The mean over three samples estimates E_q of the NLL without bias; N / B * NLL + KL is the whole ELBO.
    torch.manual_seed(4)
    count = 3 * 10 + 10 + 10 + 1
    q_mu = (0.3 * torch.randn(count)).requires_grad_()
    q_rho = torch.full((count,), -2.5, requires_grad=True)
    log_noise = torch.tensor(-1.0, requires_grad=True)

    def predict(theta, x):
        w1, b1, w2, b2 = theta.split([30, 10, 10, 1])
        return torch.tanh(x @ w1.view(3, 10) + b1) @ w2.view(10, 1) + b2

    def nll(x, y):
        total = 0.0
        for _ in range(3):
            theta = q_mu + F.softplus(q_rho) * torch.randn(count)
            total = total - Normal(predict(theta, x), log_noise.exp()).log_prob(y).sum()
        return total / 3

    def kl():
        return kl_divergence(Normal(q_mu, F.softplus(q_rho)), Normal(0.0, 1.0)).sum()

    def loss(x, y):
        return nll(x, y) * 600 / len(x) + kl()

    def pieces(x, y):
        sigma = F.softplus(q_rho)
        return nll(x, y), (sigma**2 / 2 + q_mu**2 / 2 - 0.5 - sigma.log()).sum()

    batches = tensors(measured([30, 30, 30], 3, 1, 4))
    parameters = [("q_mu", q_mu), ("q_rho", q_rho), ("log_noise", log_noise)]
    optimizer = torch.optim.Adam([q_mu, q_rho, log_noise], lr=0.01)
    given = dict(loss=loss, parameters=parameters, batches=batches, n_train=600, nll=nll, kl=kl, prior_std=1.0)
    return given | dict(optimizer=optimizer, pieces=pieces)


@case("torch_full_covariance", "torch", right=True, kl_per_epoch=1.0, truth="KL over the 10 batches: it counts once")
def full_covariance():
    """Linear regression: a full Gaussian posterior by its Cholesky factor, noise sd 0.2, prior N(0, 4 I); double."""
    # 500 rows in batches of 50: ten batches, each with a tenth of the KL.
    torch.manual_seed(5)
    loc = nn.Parameter(torch.zeros(7, dtype=torch.float64))
    raw = nn.Parameter(0.05 * torch.randn(7, 7, dtype=torch.float64))
    eye = torch.eye(7, dtype=torch.float64)
    p = MultivariateNormal(torch.zeros(7).double(), covariance_matrix=4.0 * eye)

    def q():
        diagonal = torch.diag(F.softplus(raw.diagonal() - 2))
        return MultivariateNormal(loc, scale_tril=torch.tril(raw, -1) + diagonal)

    def nll(x, y):
        return -Normal(x @ q().rsample(), 0.2).log_prob(y.squeeze(1)).sum()

    def loss(x, y):
        return nll(x, y) + kl_divergence(q(), p) / 10

    def pieces(x, y):
        cov = q().covariance_matrix
        kl = 0.5 * (cov.trace() / 4 + loc @ loc / 4 - 7 + 7 * torch.log(torch.tensor(4.0)) - torch.logdet(cov))
        return nll(x, y), kl

    batches = [(x.double(), y.double()) for x, y in tensors(measured([50, 50, 50], 7, 1, 5, 0.2))]
    given = dict(loss=loss, parameters=[("loc", loc), ("scale_raw", raw)], batches=batches, n_train=500)
    return given | dict(nll=nll, kl=lambda: kl_divergence(q(), p), pieces=pieces)
