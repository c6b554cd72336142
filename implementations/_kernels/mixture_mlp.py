"""Bayes by Backprop for a ReLU network with a mixture prior: one step of SGD or Adam, or a gradient, without autograd.

Each weight is an independent Gaussian, w = mu + sigma eps with sigma = log(1 + e^rho) and eps ~ N(0, 1). With the prior
p of `scale_mixture`, the loss of batch i is

    L_i = kl (log q(w) - log p(w)) + scale NLL(w)        NLL summed over the batch; kl is the weight of the batch

Its gradient, with G = scale dNLL/dw and g = G - kl d log p/dw (see `sampled_mlp` for the terms of log q that cancel):

    dL/dmu = g        dL/drho = (g eps - kl / sigma) / (1 + e^-rho)

Cost of a step with one draw: three matrix products a layer (two for the first), and one compiled pass over the weights
that takes the step and makes the next step's noise and draw (`mixture_loops` beside this file). Memory: 6 P numbers.
Shapes: B rows, P scalar weights.

`TwoRates` takes the same steps of SGD or Adam as the compiled pass, each half of the vector at its own rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import ModuleType

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from bench.core.streams import StepNoise
from implementations._kernels.flat_adam import FlatAdam
from implementations._kernels.layout import Layout
from implementations._kernels.loops import loops_for
from implementations._kernels.relu_network import ReluNetwork
from implementations._kernels.scale_mixture import ScaleMixture


class MixtureMlp:
    """Parameters of the Gaussians, the last draw, and the gradient of its loss."""

    def __init__(self, layout: Layout, prior: ScaleMixture, batch_size: int, mu: Tensor, rho: Tensor) -> None:
        """Start at mu and rho [P], which are copied."""
        size = len(mu)
        self.prior = prior
        self.parameters = torch.cat([mu, rho])  # one vector to optimise
        self.mu, self.rho = self.parameters[:size], self.parameters[size:]
        self.epsilon, self.weights = torch.empty_like(self.mu), torch.empty_like(self.mu)
        self.from_data = torch.zeros_like(self.mu)
        self._network = ReluNetwork(layout, self.weights, self.from_data, batch_size)
        self._loops = loops_for(self.mu, "mixture_loops")
        self._none = np.empty(0, dtype=np.float32)  # Adam's moments where SGD descends
        self._prior = np.array([prior.std**-2, 2 * prior.steepness, prior.steepness, prior.offset], dtype=np.float32)

    def draw(self, noise: StepNoise) -> None:
        """Draw the weights anew."""
        if self._loops is None:
            noise.normals_(self.epsilon)
            torch.addcmul(self.mu, softplus(self.rho), self.epsilon, out=self.weights)
        else:
            self._pass(self._loops, 0.0, None, noise)

    def backpropagate(self, x: Tensor, y: Tensor, scale: float) -> Tensor:
        """Return NLL(w) of the draw, nats, []; `from_data` is then G."""
        return self._network.differentiate(x, y, scale)

    def descend(self, kl: float, optimiser: TwoRates, noise: StepNoise | None) -> None:
        """Take a step for the draw and its G, and draw the weights for the next step unless `noise` is None."""
        if self._loops is None:
            optimiser.gradient.zero_()
            self.add_gradient(optimiser.gradient, kl, 1.0)
            optimiser.step()
            if noise is not None:
                self.draw(noise)
        else:
            self._pass(self._loops, kl, optimiser, noise)

    def add_gradient(self, gradient: Tensor, kl: float, share: float) -> None:
        """Add `share` times the gradient of the loss for (mu, rho) to `gradient` [2 P], in plain PyTorch."""
        total = torch.add(self.from_data, self.prior.pull(self.weights), alpha=kl)
        for_mu, for_rho = gradient.chunk(2)
        for_mu.add_(total, alpha=share)
        for_sigma = (total * self.epsilon).sub_(kl / softplus(self.rho))
        for_rho.addcmul_(for_sigma, torch.sigmoid(self.rho), value=share)

    def log_density_ratio(self) -> Tensor:
        """Return log q(w) - log p(w) of the draw, nats, float64 []."""
        log_q = -softplus(self.rho.double()).log().sum() - self.epsilon.double().square().sum() / 2
        return log_q - self.prior.log_density(self.weights)

    def divergence(self, noise: StepNoise, n_draws: int) -> float:
        """Return the KL of q from the prior, nats: in closed form for one Gaussian, otherwise the mean of some draws.

        E log q(w) is -sum(log sigma) - P/2, and -E log p(w) = P log std + sum(mu^2 + sigma^2) / (2 std^2). For a
        mixture, the mean of `n_draws` values of `log_density_ratio`; the last draw is then another one.
        """
        if self.prior.share == 1:
            mu, sigma = self.mu.double(), softplus(self.rho.double())
            squares = (mu.square() + sigma.square()).sum() / (2 * self.prior.std**2)
            return (squares - sigma.log().sum()).item() + len(mu) * (math.log(self.prior.std) - 0.5)
        total = 0.0
        for _ in range(n_draws):
            self.draw(noise)
            total += self.log_density_ratio().item()
        return total / n_draws

    def _pass(self, loops: ModuleType, kl: float, optimiser: TwoRates | None, noise: StepNoise | None) -> None:
        """Take a step unless `optimiser` is None, then draw unless `noise` is None."""
        vectors = [v.numpy() for v in (self.from_data, self.weights, self.epsilon, self.mu, self.rho)]
        moments, rates = [self._none] * 4, [0.0, 0.0, 1.0]
        if optimiser is not None and optimiser.adams:
            of_mu, of_rho = (adam.advance() for adam in optimiser.adams)
            moments = [v.numpy() for v in (*of_mu[:2], *of_rho[:2])]
            rates = [of_mu[2], of_rho[2], of_mu[3]]
        elif optimiser is not None:
            rates = [*optimiser.rates, 1.0]
        key, row = (0, 0) if noise is None else noise.take_step()
        numbers = np.array([kl, *rates], dtype=np.float32)
        steps = (optimiser is not None, noise is not None)
        loops.mixture_step(*vectors, *moments, numbers, self._prior, *steps, np.int64(key), np.int64(row))


class TwoRates:
    """Takes steps for mu and rho, `parameters` [2 P], with the gradient [2 P] that the caller leaves in `gradient`."""

    def __init__(self, parameters: Tensor, is_adam: bool) -> None:
        """Start with learning rates of 0; `parameters` are changed in place."""
        self.gradient = torch.zeros_like(parameters)
        self._parameters = parameters
        self._halves = [*zip(parameters.chunk(2), self.gradient.chunk(2), strict=True)]
        self.adams = [FlatAdam(half, gradient, 0.0) for half, gradient in self._halves] if is_adam else []
        self.rates = (0.0, 0.0)

    def set_rates(self, of_mu: float, of_rho: float) -> None:
        """Use these learning rates from the next step on."""
        self.rates = (of_mu, of_rho)
        for adam, rate in zip(self.adams, self.rates, strict=False):
            adam.set_learning_rate(rate)

    def step(self) -> None:
        """Take one step."""
        for adam in self.adams:
            adam.step()
        if not self.adams:
            for (half, gradient), rate in zip(self._halves, self.rates, strict=True):
                half.add_(gradient, alpha=-rate)

    def state(self) -> dict[str, Tensor]:
        """Return what `restore` needs, as CPU copies: parameters [2 P], and Adam's moments [2 P] and step count []."""
        if not self.adams:
            return {"parameters": self._parameters.to("cpu", copy=True)}
        of_mu, of_rho = (adam.state() for adam in self.adams)
        return {name: one if name == "step" else torch.cat([one, of_rho[name]]) for name, one in of_mu.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self._parameters.copy_(state["parameters"])
        for place, adam in enumerate(self.adams):
            adam.restore({name: one if name == "step" else one.chunk(2)[place] for name, one in state.items()})
