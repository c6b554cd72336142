"""Distributions of whole weight tensors for Pyro's SVI, in few passes: a learnt Gaussian and a standard normal.

`GaussianWeights` is `Normal(mu, softplus(rho)).to_event()` that scores its own draw. With w = mu + sigma eps

    log q(w) = sum[ -eps^2 / 2 - log sigma - log(2 pi) / 2 ]

is a function of the noise and sigma, so that d log q / d mu = 0 and d log q / d sigma = -1/sigma. `Normal` computes the
same gradients from terms that cancel. On a CPU in float32 the draw and its gradient are one compiled pass each.
Fails when: rho exceeds 88 in the plain form, where exp(rho) overflows in float32.
"""

# mypy: allow-subclassing-any, allow-untyped-calls, no-warn-return-any
# (Pyro has no types, nor have some functions of PyTorch)
from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.autograd.function import once_differentiable

from implementations._kernels.loops import block_sums, flat_arrays, loops_for
from implementations._kernels.sums import sum_of_logs

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class GaussianWeights(TorchDistribution):
    """N(mu, softplus(rho)^2) for a whole tensor, one event; scores only what it has drawn."""

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, mu: Tensor, rho: Tensor, normals: Callable[[Tensor], Tensor] = torch.Tensor.normal_) -> None:
        """Take two parameters of one shape; `normals` fills a tensor with standard normals and returns it."""
        super().__init__(event_shape=mu.shape)
        self.mu, self.rho, self.normals = mu, rho, normals
        self.drawn: Tensor | None = None

    def rsample(self, sample_shape: torch.Size = torch.Size()) -> Tensor:  # noqa: B008 - Pyro's signature
        """Return one draw."""
        assert not sample_shape, "one draw at a time"
        noise = self.normals(torch.empty_like(self.mu))
        loops = loops_for(noise)
        if loops is None:
            self.drawn, self.log_q = _DrawWeights.apply(self.mu, self.rho, noise)
        else:
            self.drawn, self.log_q = _DrawInOnePass.apply(self.mu, self.rho, noise, loops)
        return self.drawn

    def log_prob(self, value: Tensor) -> Tensor:
        """Return log q of the draw, 0-dim, nats."""
        assert value is self.drawn, "log q is known for the drawn weights only"
        return self.log_q


class StandardNormalWeights(TorchDistribution):
    """N(0, 1) for every element of a tensor, one event."""

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, shape: torch.Size) -> None:
        """Take the tensor's shape."""
        super().__init__(event_shape=shape)

    def rsample(self, sample_shape: torch.Size = torch.Size()) -> Tensor:  # noqa: B008 - Pyro's signature
        """Return draws [*sample_shape, *shape]."""
        return torch.randn(sample_shape + self.event_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return log p of a tensor, 0-dim, nats."""
        return -_HalfSquares.apply(value) - value.numel() * HALF_LOG_TWO_PI


class _DrawWeights(torch.autograd.Function):
    """(mu, rho, noise) -> (w = mu + softplus(rho) noise, log q(w) summed)."""

    @staticmethod
    def forward(ctx: Any, mu: Tensor, rho: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        exponential = rho.exp()
        sigma = exponential.log1p()
        slope = exponential.div_(exponential + 1)  # d sigma / d rho
        ctx.save_for_backward(sigma, slope, noise)
        flat = noise.flatten()
        log_q = -0.5 * flat.dot(flat) - sum_of_logs(sigma) - noise.numel() * HALF_LOG_TWO_PI
        return torch.addcmul(mu, sigma, noise), log_q

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_log_q: Tensor) -> tuple[Tensor, Tensor, None]:
        # log q = -eps^2/2 - log sigma: nothing for mu, -1/sigma for sigma
        sigma, slope, noise = ctx.saved_tensors
        grad_rho = (grad * noise).addcdiv_(grad_log_q, sigma, value=-1).mul_(slope)
        return grad, grad_rho, None


class _DrawInOnePass(torch.autograd.Function):
    """`_DrawWeights` by compiled loops."""

    @staticmethod
    def forward(ctx: Any, mu: Tensor, rho: Tensor, noise: Tensor, loops: ModuleType) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(rho, noise)
        ctx.loops = loops
        weights = torch.empty_like(mu)
        sums = block_sums(mu.numel(), 3, loops)
        loops.draw_weights(*flat_arrays(mu, rho, noise, weights), sums.numpy())
        log_sigma, squared_noise, _ = sums.sum((0, 1))
        log_q = -0.5 * squared_noise - log_sigma - noise.numel() * HALF_LOG_TWO_PI
        return weights, log_q.to(mu.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_log_q: Tensor) -> tuple[Tensor, Tensor, None, None]:
        rho, noise = ctx.saved_tensors
        grad_rho = torch.empty_like(rho)
        arrays = flat_arrays(grad.contiguous(), rho, noise)
        ctx.loops.rho_gradient(*arrays, -float(grad_log_q), *flat_arrays(grad_rho))
        return grad, grad_rho, None, None


class _HalfSquares(torch.autograd.Function):
    """w -> sum(w^2) / 2, whose gradient is w: one pass, autograd's own takes three."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        ctx.save_for_backward(value)
        flat = value.flatten()
        return 0.5 * flat.dot(flat)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (value,) = ctx.saved_tensors
        return grad * value
