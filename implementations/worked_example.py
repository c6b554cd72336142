"""One update of Bayes by Backprop for a single weight: the worked example of feldman2018.

Source: Josh Feldman, "Weight Uncertainty in Neural Networks Tutorial" (2018-12-18), section "The Bayes by Backprop
Algorithm", JoshFeldman95.github.io commit 56ef67a. The network is y = w x with q(w) = N(mu, sigma^2) and
sigma = log(1 + e^rho). The text states other starting values, (mu, rho) = (2, 3) and (x, y) = (1, 1), than the code;
the printed numbers are the code's. Not an approach: a function whose numbers can be compared with the printed ones.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

MU, RHO = 0.5, 2.0
X, Y = 2.0, 3.0
NOISE_STD = 0.5
PRIOR_STD = 1.0
LEARNING_RATE = 0.01


def worked_example(epsilon: float = 1.9070345) -> dict[str, float]:
    """Return the nine printed numbers of one gradient step, in single precision as the document computes them.

    Args:
        epsilon: the standard normal drawn. The document prints it to four decimals only; the default gives all nine
            numbers to the printed digits.

    Returns:
        w; log_q, log_prior, log_likelihood and loss in nats; mu_grad, rho_grad; new_mu, new_rho.
    """
    mu = torch.tensor(MU, requires_grad=True)
    rho = torch.tensor(RHO, requires_grad=True)
    sigma = torch.log(1 + torch.exp(rho))
    w = mu + sigma * torch.tensor(epsilon)
    log_q = _log_density(w, mu, sigma)
    log_prior = _log_density(w, torch.tensor(0.0), torch.tensor(PRIOR_STD))
    log_likelihood = _log_density(torch.tensor(Y), w * X, torch.tensor(NOISE_STD))
    loss = log_q - log_prior - log_likelihood
    mu_grad, rho_grad = torch.autograd.grad(loss, (mu, rho))
    values = {
        "w": w,
        "log_q": log_q,
        "log_prior": log_prior,
        "log_likelihood": log_likelihood,
        "loss": loss,
        "mu_grad": mu_grad,
        "rho_grad": rho_grad,
        "new_mu": mu - LEARNING_RATE * mu_grad,
        "new_rho": rho - LEARNING_RATE * rho_grad,
    }
    return {name: value.item() for name, value in values.items()}


def _log_density(value: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Return log N(value | mean, std^2), nats."""
    return -((value - mean) ** 2) / (2 * std**2) - std.log() - math.log(2 * math.pi) / 2
