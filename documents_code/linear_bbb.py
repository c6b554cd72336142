"""feldman2018's Bayes by Backprop as the document runs it: autograd, a parameter tensor a matrix, unfused Adam.

The plain reference: `implementations/linear_bbb.py` and `toy_bbb.py` are tested against it and timed beside it. Written
by us after Josh Feldman's tutorial "Weight Uncertainty in Neural Networks" (2018-12-18, JoshFeldman95.github.io, commit
56ef67a): the same operations in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn import functional

SampleNoise = Callable[[torch.Size], Tensor]


def document_noise(shape: torch.Size) -> Tensor:
    """Draw standard normals as the document does, from PyTorch's global generator (`distributions` has no other)."""
    return Normal(0.0, 1.0).sample(shape)


def replayed_noise(values: Iterable[Tensor]) -> SampleNoise:
    """Return a source that hands out the given noise, one tensor a call: matrix, bias, matrix, ... of each draw."""
    remaining = iter(values)
    return lambda shape: next(remaining).view(shape)


class GaussianLinear(nn.Module):
    """A linear layer that draws its weights at each call and remembers their log-densities."""

    def __init__(self, n_in: int, n_out: int, prior_std: float, detach_mu: bool, sample_noise: SampleNoise) -> None:
        super().__init__()
        self.w_mu = nn.Parameter(torch.zeros(n_out, n_in))
        self.w_rho = nn.Parameter(torch.zeros(n_out, n_in))
        self.b_mu = nn.Parameter(torch.zeros(n_out))
        self.b_rho = nn.Parameter(torch.zeros(n_out))
        self.prior_std = prior_std
        self.prior = Normal(0.0, prior_std)
        self.detach_mu = detach_mu
        self.sample_noise = sample_noise

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's outputs [B, n_out] for x [B, n_in]; sets `log_prior` and `log_post`."""
        w = self.w_mu + torch.log(1 + torch.exp(self.w_rho)) * self.sample_noise(self.w_mu.shape)
        b = self.b_mu + torch.log(1 + torch.exp(self.b_rho)) * self.sample_noise(self.b_mu.shape)
        self.log_prior = torch.sum(self.prior.log_prob(w)) + torch.sum(self.prior.log_prob(b))
        # The document writes w_mu.data here: the density does not know that its mean is a parameter.
        w_centre, b_centre = (self.w_mu.data, self.b_mu.data) if self.detach_mu else (self.w_mu, self.b_mu)
        w_post = Normal(w_centre, torch.log(1 + torch.exp(self.w_rho)))
        b_post = Normal(b_centre, torch.log(1 + torch.exp(self.b_rho)))
        self.log_post = w_post.log_prob(w).sum() + b_post.log_prob(b).sum()
        return functional.linear(x, w, b)


class GaussianNetwork(nn.Module):
    """Sigmoid hidden layers and a linear output, all `GaussianLinear`."""

    def __init__(
        self,
        sizes: Sequence[int],
        prior_std: float,
        *,
        detach_mu: bool = True,
        sample_noise: SampleNoise = document_noise,
    ) -> None:
        super().__init__()
        self.layers = [
            GaussianLinear(n_in, n_out, prior_std, detach_mu, sample_noise) for n_in, n_out in pairwise(sizes)
        ]
        self.registered = nn.ModuleList(self.layers)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs [B, out] of a freshly drawn network."""
        for layer in self.layers[:-1]:
            x = torch.sigmoid(layer(x))
        return self.layers[-1](x)

    def log_ratio(self) -> Tensor:
        """Return log q(w) - log p(w) of the last draw, nats."""
        log_posts = [layer.log_post for layer in self.layers]
        log_priors = [layer.log_prior for layer in self.layers]
        return torch.stack(log_posts).sum() - torch.stack(log_priors).sum()


def in_double_precision(network: GaussianNetwork) -> GaussianNetwork:
    """Turn the network to float64, with its priors, which `Module.to` does not convert."""
    for layer in network.layers:
        layer.prior = Normal(torch.zeros((), dtype=torch.float64), torch.tensor(layer.prior_std, dtype=torch.float64))
    return network.to(torch.float64)


def set_parameters(network: GaussianNetwork, mu: Iterable[Tensor], rho: Iterable[Tensor]) -> None:
    """Copy the given values, in the order matrix, bias, matrix, ..., into the network."""
    mu, rho = list(mu), list(rho)
    with torch.no_grad():
        for i, layer in enumerate(network.layers):
            layer.w_mu.copy_(mu[2 * i])
            layer.b_mu.copy_(mu[2 * i + 1])
            layer.w_rho.copy_(rho[2 * i])
            layer.b_rho.copy_(rho[2 * i + 1])


def get_parameters(network: GaussianNetwork, *, gradients: bool = False) -> tuple[Tensor, Tensor]:
    """Return (mu, rho) of all layers, or their gradients, as flat vectors [P] in the same order."""

    def flat(names: tuple[str, str]) -> Tensor:
        parameters = [getattr(layer, name) for layer in network.layers for name in names]
        return torch.cat([(p.grad if gradients else p.detach()).flatten() for p in parameters])

    return flat(("w_mu", "b_mu")), flat(("w_rho", "b_rho"))


def initialise_classifier(network: GaussianNetwork, generator: torch.Generator) -> None:
    """Set means from U(-0.6, 0.6) and rho to -6, as the document's classifier starts."""
    with torch.no_grad():
        for layer in network.layers:
            for mean, rho in ((layer.w_mu, layer.w_rho), (layer.b_mu, layer.b_rho)):
                mean.uniform_(-0.6, 0.6, generator=generator)
                rho.fill_(-6.0)


def classifier_elbo(
    network: GaussianNetwork, x: Tensor, y: Tensor, n_batches: float, n_samples: int
) -> tuple[Tensor, Tensor]:
    """Return the document's loss of a batch, nats, and the log-probabilities [S, B, K] of its draws.

    The likelihood is that of the mean log-probability over the draws.
    """
    outputs = torch.zeros(n_samples, len(x), 10, dtype=x.dtype)
    log_ratios = torch.zeros(n_samples, dtype=x.dtype)
    for i in range(n_samples):
        outputs[i] = functional.log_softmax(network(x), dim=1)
        log_ratios[i] = network.log_ratio()
    loss = log_ratios.mean() / n_batches + functional.nll_loss(outputs.mean(0), y, reduction="sum")
    return loss, outputs


def regression_elbo(network: GaussianNetwork, x: Tensor, y: Tensor, noise_tol: float) -> Tensor:
    """Return the document's loss of the toy regression for one draw, nats; x and y [B, 1]."""
    log_likelihood = Normal(network(x), noise_tol).log_prob(y).sum()
    return network.log_ratio() - log_likelihood


def classifier_step(
    network: GaussianNetwork, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, n_batches: float
) -> Tensor:
    """Take one training step on a batch; return its loss."""
    optimizer.zero_grad()
    loss, _ = classifier_elbo(network, x, y, n_batches, 1)
    loss.backward()
    optimizer.step()
    return loss


def document_adam(network: GaussianNetwork) -> tuple[torch.optim.Adam, Tensor]:
    """Return the document's optimiser and its learning rate, a tensor that is divided in place after each epoch."""
    learning_rate = torch.tensor(1e-3)
    return torch.optim.Adam(network.parameters(), lr=learning_rate), learning_rate


def predict(network: GaussianNetwork, x: Tensor, n_samples: int) -> Tensor:
    """Return log-probabilities [S, B, K] of x [B, in] for freshly drawn networks, one after the other.

    The document leaves gradients on here; they are off here to save memory.
    """
    with torch.no_grad():
        return torch.stack([functional.log_softmax(network(x), dim=1) for _ in range(n_samples)])
