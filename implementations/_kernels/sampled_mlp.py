"""Bayes by Backprop for a fully connected sigmoid network: one weight sample, loss and gradient, without autograd.

Each weight is an independent Gaussian, w = mu + sigma eps with sigma = log(1 + e^rho) and eps ~ N(0, 1), with prior
N(0, s^2) (Blundell et al. 2015, arXiv 1505.05424). The objective of one batch, in nats, is

    L = (log q(w) - log p(w)) / M + NLL(w)          NLL summed over the batch, M the number of batches in an epoch
    log q - log p = sum[ log s - log sigma - eps^2 / 2 + w^2 / (2 s^2) ]        (the normalising constants cancel)

Gradient. Let G = dNLL/dw from the backward pass, and g = G + w / (s^2 M): the gradient through w without log q.
log q = -log sigma - (w - mu)^2 / (2 sigma^2) reaches a parameter through w, d/dw = -eps/sigma, and directly,
d/dmu = eps/sigma and d/dsigma = -1/sigma + eps^2/sigma. With dw/dmu = 1, dw/dsigma = eps, dsigma/drho = 1/(1 + e^-rho):

    dL/dmu  = g                                       the two terms of log q cancel
    dL/drho = (g eps - 1 / (sigma M)) / (1 + e^-rho)  the two terms with eps^2 cancel

Where a document hands log q the mean as a constant (`w_mu.data`), the direct term of mu is missing. Log q then adds
noise of mean zero:

    dL/dmu  = g - eps / (sigma M)

Cost: one batch is three matrix products a layer (two for the first) and three compiled passes over the weights: the
noise, the draw, and the gradient with Adam; memory 7 P numbers, and 4 P for the moments of Adam.

Several seeds at once: every vector holds the E seeds one after the other. Element-wise work treats them as one vector;
only sums over the weights, and matrix products, have E in front.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from bench.core.streams import StepNoise
from implementations._kernels.flat_adam import FlatAdam
from implementations._kernels.layout import Layout, forward, product
from implementations._kernels.loops import block_sums, flat_arrays, loops_for
from implementations._kernels.sums import row_sums_of_logs, row_sums_of_squares

NegativeLogLikelihood = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""(outputs [B, out], y) -> (summed negative log-likelihood [], its gradient [B, out]), with E in front if several."""


@dataclass(frozen=True)
class Objective:
    """The minimised function; see the module's equations."""

    prior_std: float  # s
    n_batches: float  # M, which divides log q - log p
    detach_mu: bool  # log q sees mu as a constant
    nll: NegativeLogLikelihood


class SampledMlp:
    """Parameters of the Gaussians, and the loss and gradient of one batch for the noise in `epsilon`."""

    def __init__(
        self,
        layout: Layout,
        objective: Objective,
        batch_size: int,
        *,
        n_seeds: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        """Allocate all buffers, for batches of at most `batch_size` rows; the caller fills parameters and noise.

        With `n_seeds` E above 1, batches and losses have E in front.
        """
        self._shape = (layout.n_weights,) if n_seeds == 1 else (n_seeds, layout.n_weights)
        size = math.prod(self._shape)
        self.objective = objective
        self.parameters = torch.zeros(2 * size, dtype=dtype, device=device)  # mu, then rho: one vector to optimise
        self.gradient = torch.zeros_like(self.parameters)
        self.mu, self.rho = self.parameters[:size], self.parameters[size:]
        self.epsilon = torch.zeros_like(self.mu)
        self._sigma, self._weights = torch.empty_like(self.mu), torch.empty_like(self.mu)
        self._minus_one_over_batches = self.mu.new_tensor(-1 / objective.n_batches)
        self._layers = layout.layers(self._weights.view(self._shape))
        self._layer_gradients = layout.layers(self.gradient[:size].view(self._shape))
        self._loops = loops_for(self.mu)
        self._activations = layout.activations(batch_size, self.mu.view(self._shape))
        self._flowing = layout.activations(batch_size, self.mu.view(self._shape))

    def of_seed(self, vector: Tensor, index: int) -> Tensor:
        """Return a view of one seed's numbers in a vector like mu or rho [P], or like `parameters` [2, P]."""
        halves = len(vector) // len(self.mu)
        shape = (-1, self._shape[-1]) if halves == 1 else (halves, -1, self._shape[-1])
        return vector.view(shape).select(-2, index)

    def step(self, x: Tensor, y: Tensor, noise: Sequence[StepNoise], adam: FlatAdam) -> Tensor:
        """Draw the weights anew and take one step of Adam on the batch x [B, in], y [B, ...]; `noise` is one a seed.

        On a CPU in float32 the passes over the weights are compiled; elsewhere they are `loss_and_gradient`'s.

        Returns:
            L before the step, float64 [].
        """
        for index, source in enumerate(noise):
            source.normals_(self.of_seed(self.epsilon, index))
        if self._loops is None:
            loss = self.loss_and_gradient(x, y)
            adam.step()
            return loss
        log_ratio = self._sample_in_one_pass(self._loops)
        nll = self._backpropagate(x, y)
        first, second, step_size, correction = adam.advance()
        objective = self.objective
        pull, push = 1 / (objective.prior_std**2 * objective.n_batches), 1 / objective.n_batches
        arrays = flat_arrays(self.gradient[: len(self.mu)], self._weights, self.epsilon, n_networks=len(noise))
        halves = [value.view(2, len(noise), -1).numpy() for value in (self.parameters, first, second)]
        self._loops.adam_weights(*arrays, *halves, pull, push, objective.detach_mu, step_size, correction)
        return log_ratio / objective.n_batches + nll

    def loss_and_gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Return L, float64 [], of the batch x [B, in], y [B, ...]; `gradient` then holds dL/dmu and dL/drho."""
        log_ratio = self._sample()
        nll = self._backpropagate(x, y)
        self._add_complexity()
        return log_ratio / self.objective.n_batches + nll

    def _sample_in_one_pass(self, loops: ModuleType) -> Tensor:
        """Set w only; return log q - log p, float64 []."""
        n_networks, n_weights = len(self.mu) // self._shape[-1], self._shape[-1]
        sums = block_sums(n_weights, 3, loops, n_networks)
        arrays = flat_arrays(self.mu, self.rho, self.epsilon, self._weights, n_networks=n_networks)
        loops.draw_weights(*arrays, sums.numpy())
        log_sigma, squared_noise, squared_weights = sums.sum(1).view(*self._shape[:-1], 3).unbind(-1)
        prior_std = self.objective.prior_std
        squares = squared_weights / prior_std**2 - squared_noise
        return n_weights * math.log(prior_std) - log_sigma + squares / 2

    def _sample(self) -> Tensor:
        """Set sigma and w; leave dsigma/drho in the gradient's second half. Return log q - log p, float64 []."""
        sigma, weights = self._sigma, self._weights
        slope = self.gradient[len(sigma) :]
        torch.exp(self.rho, out=slope)
        torch.add(slope, 1, out=weights)
        torch.log(weights, out=sigma)
        slope.div_(weights)  # e^rho / (1 + e^rho)
        torch.addcmul(self.mu, sigma, self.epsilon, out=weights)
        prior_std = self.objective.prior_std
        sigma, weights, epsilon = (vector.view(self._shape) for vector in (sigma, weights, self.epsilon))
        squares = row_sums_of_squares(weights) / prior_std**2 - row_sums_of_squares(epsilon)
        return self._shape[-1] * math.log(prior_std) - row_sums_of_logs(sigma).double() + squares / 2

    def _backpropagate(self, x: Tensor, y: Tensor) -> Tensor:
        """Return NLL(w) and leave G in the gradient's first half."""
        n_rows = x.shape[-2]
        activations = [buffer[..., :n_rows, :] for buffer in self._activations]
        nll, flowing = self.objective.nll(forward(x, self._layers, activations), y)
        for depth in reversed(range(len(activations))):
            below = activations[depth - 1] if depth else x
            matrix_gradient, bias_gradient = self._layer_gradients[depth]
            product(flowing.mT, below, out=matrix_gradient)
            torch.sum(flowing, -2, out=bias_gradient)
            if depth:
                buffer = self._flowing[depth - 1][..., :n_rows, :]
                product(flowing, self._layers[depth][0], out=buffer)
                flowing = torch.ops.aten.sigmoid_backward.grad_input(buffer, below, grad_input=buffer)
        return nll

    def _add_complexity(self) -> None:
        """Turn G and dsigma/drho into the gradient of L; overwrite sigma and w."""
        mu_gradient, rho_gradient = self.gradient.chunk(2)
        mu_gradient.add_(self._weights, alpha=1 / (self.objective.prior_std**2 * self.objective.n_batches))
        entropy_gradient = torch.div(self._minus_one_over_batches, self._sigma, out=self._sigma)
        sigma_gradient = torch.addcmul(entropy_gradient, mu_gradient, self.epsilon, out=self._weights)
        rho_gradient.mul_(sigma_gradient)
        if self.objective.detach_mu:
            mu_gradient.addcmul_(self.epsilon, entropy_gradient)


def sigma_of(rho: Tensor) -> Tensor:
    """Return sigma = log(1 + e^rho), by the operations of the plain form; 0 in float32 where rho is below about -16.6.

    The compiled loops use a softplus without this rounding. At rho = -6 the two differ by 1.3e-5 of sigma.
    """
    return torch.log(1 + torch.exp(rho))


def categorical_nll(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return -sum log softmax(logits)[y] in nats and its gradient [B, K]; logits [B, K], y int64 [B]."""
    log_probs = torch.log_softmax(logits, -1)
    label = y.unsqueeze(-1)
    nll = -log_probs.gather(-1, label).sum((-2, -1))
    gradient = log_probs.exp_()
    return nll, gradient.scatter_add_(-1, label, gradient.new_full(label.shape, -1.0))


def gaussian_nll(std: float) -> NegativeLogLikelihood:
    """Return the summed negative log-density in nats of y [B, D] under N(mean [B, D], std^2), with its gradient."""
    constant = math.log(std) + math.log(2 * math.pi) / 2

    def nll(mean: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        deviation = mean - y
        n_numbers = y.shape[-2] * y.shape[-1]
        return deviation.square().sum((-2, -1)) / (2 * std**2) + constant * n_numbers, deviation / std**2

    return nll
