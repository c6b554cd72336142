"""rabanser2017's Bayes by Backprop as the document runs it: MXNet's autograd through everything, one array a parameter.

The plain reference: `implementations/mxnet_bbb.py` is tested against it and timed beside it. Written by us after
Stephan Rabanser's notebook "Bayes by Backprop from scratch (NN, classification)" (zackchase/mxnet-the-straight-dope,
chapter 18, commit 249cb44): the same operations in the same order, none left out. Like the document, it draws from
MXNet's global generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from implementations._mxnet import mx

nd = mx.nd
NDArray = Any

LOG_TWO_PI = math.log(2 * math.pi)


def layer_shapes(n_inputs: int = 784, n_hidden: int = 400, n_outputs: int = 10) -> list[tuple[int, ...]]:
    """Return the shapes of (matrix [in, out], bias [out]) of the two hidden layers and the output layer."""
    return [(n_inputs, n_hidden), (n_hidden,), (n_hidden, n_hidden), (n_hidden,), (n_hidden, n_outputs), (n_outputs,)]


def log_gaussian(x: NDArray, mean: NDArray | float, std: NDArray) -> NDArray:
    """Return the log-density of each element."""
    return -0.5 * LOG_TWO_PI - nd.log(std) - (x - mean) ** 2 / (2 * std**2)


def gaussian_prior(x: NDArray, std: float = 1.0) -> NDArray:
    """Return log p of each element under N(0, std^2)."""
    return log_gaussian(x, 0.0, nd.full((1,), std, dtype=x.dtype))


def scale_mixture_prior(x: NDArray) -> NDArray:
    """Return log p of each element under the mixture: densities added, then their logarithm."""
    share, wide, narrow = 0.25, 0.75, 0.1

    def density(std: float) -> NDArray:
        return 1.0 / math.sqrt(2.0 * math.pi * std**2) * nd.exp(-(x**2) / (2.0 * std**2))

    return nd.log(share * density(wide) + (1 - share) * density(narrow))


class DocumentBbb:
    """The document's parameters, training step and evaluation."""

    def __init__(
        self,
        mus: Sequence[NDArray],
        rhos: Sequence[NDArray],
        n_batches: float,
        *,
        learning_rate: float = 0.001,
        log_prior: Callable[[NDArray], NDArray] = gaussian_prior,
        use_second_hidden: bool = False,
    ) -> None:
        """Train the given arrays in place; shapes as `layer_shapes` returns them."""
        self.mus, self.rhos = list(mus), list(rhos)
        self.n_batches, self.learning_rate = n_batches, learning_rate
        self.log_prior = log_prior
        # The document loops over one hidden layer too few.
        self.n_hidden_used = len(self.mus) // 2 - 1 if use_second_hidden else len(self.mus) // 2 - 2
        for parameter in self.mus + self.rhos:
            parameter.attach_grad()

    def forward(self, x: NDArray, parameters: Sequence[NDArray]) -> NDArray:
        """Return the logits [B, K] of scaled images [B, in]."""
        hidden = x
        for layer in range(self.n_hidden_used):
            linear = nd.dot(hidden, parameters[2 * layer]) + parameters[2 * layer + 1]
            hidden = nd.maximum(linear, nd.zeros_like(linear))
        return nd.dot(hidden, parameters[-2]) + parameters[-1]

    def loss(self, x: NDArray, one_hot: NDArray, epsilons: Sequence[NDArray]) -> NDArray:
        """Return the batch's loss, an NDArray [1]."""
        sigmas = [nd.log(1.0 + nd.exp(rho)) for rho in self.rhos]
        weights = [mu + sigma * epsilon for mu, sigma, epsilon in zip(self.mus, sigmas, epsilons, strict=True)]
        output = self.forward(x, weights)
        log_likelihood = nd.sum(nd.nansum(one_hot * nd.log_softmax(output), axis=0, exclude=True))
        log_prior = sum([nd.sum(self.log_prior(weight)) for weight in weights])
        log_posterior = sum(
            [nd.sum(log_gaussian(w, mu, sigma)) for w, mu, sigma in zip(weights, self.mus, sigmas, strict=True)]
        )
        return 1.0 / self.n_batches * (log_posterior - log_prior) - log_likelihood

    def step(self, x: NDArray, labels: NDArray, epsilons: Sequence[NDArray] | None = None) -> float:
        """Take one step of SGD on scaled images [B, in] and labels [B]; return the loss before it.

        `epsilons`: standard normals for each parameter; None draws them as the document does.
        """
        one_hot = nd.one_hot(labels, self.mus[-1].shape[0], dtype=x.dtype)
        with mx.autograd.record():
            if epsilons is None:
                epsilons = [nd.random_normal(shape=mu.shape, loc=0.0, scale=1.0) for mu in self.mus]
            loss = self.loss(x, one_hot, epsilons)
        loss.backward()
        for parameter in self.mus + self.rhos:
            parameter[:] = parameter - self.learning_rate * parameter.grad
        return float(nd.mean(loss).asscalar())

    def draw_networks(self, n_draws: int) -> list[list[NDArray]]:
        """Return the weights of newly drawn networks.

        The document predicts with the posterior means alone. This is what it has for a draw: the weights of a training
        step.
        """
        sigmas = [nd.log(1.0 + nd.exp(rho)) for rho in self.rhos]
        return [
            [mu + s * nd.random_normal(shape=mu.shape) for mu, s in zip(self.mus, sigmas, strict=True)]
            for _ in range(n_draws)
        ]

    def predict(self, x: NDArray, networks: Sequence[Sequence[NDArray]]) -> npt.NDArray[np.float32]:
        """Return log-probabilities [S, B, K] of a batch x [B, in] of scaled images."""
        return np.stack([nd.log_softmax(self.forward(x, weights)).asnumpy() for weights in networks])


def initial_parameters(shapes: Sequence[tuple[int, ...]]) -> tuple[list[NDArray], list[NDArray]]:
    """Return the document's start, means N(0, 0.1^2) and rho -3, from MXNet's global generator."""
    mus = [nd.random_normal(shape=shape, scale=0.1) for shape in shapes]
    return mus, [-3 + nd.zeros(shape=shape) for shape in shapes]
