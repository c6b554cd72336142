"""One update of Bayes by Backprop for a single weight: the worked example of feldman2018.

Source: Josh Feldman, "Weight Uncertainty in Neural Networks Tutorial" (2018-12-18), section "The Bayes by Backprop
Algorithm", JoshFeldman95.github.io commit 56ef67a. The network is y = w x with q(w) = N(mu, sigma^2) and
sigma = log(1 + e^rho). The text states other starting values, (mu, rho) = (2, 3) and (x, y) = (1, 1), than the code;
the printed numbers are the code's. This is no approach, but a function whose results are compared with the printed
numbers.
"""

from __future__ import annotations

import math

import numpy as np

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
    mu, rho, e, x, y, noise, prior, rate, one = map(
        np.float32, (MU, RHO, epsilon, X, Y, NOISE_STD, PRIOR_STD, LEARNING_RATE, 1)
    )
    sigma = _log(one + _exp(rho))
    w = mu + sigma * e
    error = y - w * x
    log_q = _log_density(w - mu, sigma)
    log_prior = _log_density(w, prior)
    log_likelihood = _log_density(error, noise)
    # Along w = mu + sigma e the density q depends on sigma alone: log q = -log sigma - e^2 / 2 + constant.
    mu_grad = w / (prior * prior) - x * error / (noise * noise)
    rho_grad = (e * mu_grad - one / sigma) / (one + _exp(-rho))  # d sigma / d rho = 1 / (1 + e^-rho)
    values = {
        "w": w,
        "log_q": log_q,
        "log_prior": log_prior,
        "log_likelihood": log_likelihood,
        "loss": log_q - log_prior - log_likelihood,
        "mu_grad": mu_grad,
        "rho_grad": rho_grad,
        "new_mu": mu - rate * mu_grad,
        "new_rho": rho - rate * rho_grad,
    }
    return {name: float(value) for name, value in values.items()}


def _log_density(distance: np.float32, std: np.float32) -> np.float32:
    """Return log N(mean + distance | mean, std^2), nats."""
    two = np.float32(2)  # NumPy 1 makes float64 of a float32 and a Python number
    half_log_2pi = np.float32(math.log(2 * math.pi) / 2)
    return np.float32(-(distance * distance) / (two * (std * std)) - _log(std) - half_log_2pi)


def _exp(value: np.float32) -> np.float32:
    """Return the exponential rounded correctly, which NumPy's own of single precision is not."""
    return np.float32(math.exp(value))


def _log(value: np.float32) -> np.float32:
    """Return the logarithm rounded correctly."""
    return np.float32(math.log(value))
