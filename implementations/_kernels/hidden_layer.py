"""Pyro's `HiddenLayer` without its [B, D, H] tensor, and a version with a hand-written gradient for training.

The pre-activations of a fully connected layer with independent Gaussian weights A ~ N(mean, std^2) are, for one row x,
Gaussian with mean x mean and variance x^2 std^2 (Kingma et al. 2015). Pyro's layer forms all B D H products of that
variance before adding them up (537 MB for a batch of 128 and a layer of 1025 x 1024); here it is the matrix product
X^2 @ std^2, which is the same number.

Cost of a training step of `FusedHiddenLayer`: six matrix products (a forward pass alone: two), and three passes over
the weights: their scales, the scales' gradient, and the optimiser.  Fails when: a row of X is all zeros (the gradient
of sqrt(0), as in Pyro).
"""

# mypy: allow-subclassing-any, allow-untyped-calls, no-warn-return-any
# (Pyro has no types, nor have some functions of PyTorch)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from pyro.contrib.bnn import HiddenLayer
from pyro.contrib.bnn.utils import adjoin_ones_vector
from torch import Tensor
from torch.autograd.function import once_differentiable

from implementations._kernels.loops import block_sums, flat_arrays, loops_for
from implementations._kernels.sums import sum_of_logs


class MatmulHiddenLayer(HiddenLayer):
    """`HiddenLayer` with the same arguments, distribution, `KL` and `log_prob`, from the same random numbers."""

    def rsample(self, sample_shape: torch.Size = torch.Size()) -> Tensor:  # noqa: B008 - Pyro's signature
        """Return activations [*sample_shape, B, H (+ 1 with the column of ones)]."""
        if self.weight_space_sampling:
            return super().rsample(sample_shape)
        mean = self.X @ self.A_mean
        std = (self.X.square() @ self.A_scale.square()).sqrt()
        return self._activate(mean + std * _noise(sample_shape + std.shape, std))

    def _activate(self, pre_activation: Tensor) -> Tensor:
        activation = self.non_linearity(pre_activation)
        return adjoin_ones_vector(activation) if self.include_hidden_bias else activation


@dataclass(frozen=True)
class Weights:
    """Numbers that depend only on one layer's parameters; computed once, and used until the parameters change.

    std = dropout (floor + exp(log_excess)). Autograd does not see them; `FusedHiddenLayer` has its own gradient.
    """

    std: Tensor  # [D, H]
    variance: Tensor  # [D, H], std^2
    slope: Tensor  # [D, H], d log std / d log_excess
    variance_excess: Tensor  # 0-dim, sum(variance - 1) = d KL / d log dropout
    kl: Tensor  # 0-dim, nats, KL(N(mean, std^2) || N(0, 1)) summed over the weights

    @classmethod
    @torch.no_grad()
    def of(cls, mean: Tensor, log_excess: Tensor, floor: float, dropout: Tensor) -> Weights:
        """Compute the numbers from mean and log_excess [D, H] and dropout (0-dim); on a CPU in one compiled pass."""
        flat_mean = mean.flatten()
        loops = loops_for(log_excess, "layer_loops")
        if loops is not None:
            std, variance, slope = (torch.empty_like(log_excess) for _ in range(3))
            sums = block_sums(log_excess.numel(), 2, loops)
            loops.layer_scales(
                *flat_arrays(log_excess), floor, float(dropout), *flat_arrays(std, variance, slope), sums.numpy()
            )
            sum_log_free, sum_of_variance = sums.sum((0, 1)).unbind()
            sum_log_std = sum_log_free + log_excess.numel() * dropout.double().log()
            variance_excess = sum_of_variance - log_excess.numel()
            kl = 0.5 * (flat_mean.dot(flat_mean) + variance_excess) - sum_log_std
            return cls(std, variance, slope, variance_excess.to(mean.dtype), kl.to(mean.dtype))
        excess = log_excess.exp()
        std = excess + floor
        sum_log_std = sum_of_logs(std) + std.numel() * dropout.log()
        slope = excess.div_(std)
        std.mul_(dropout)
        variance = std.square()
        variance_excess = variance.sum() - variance.numel()
        kl = 0.5 * (flat_mean.dot(flat_mean) + variance_excess) - sum_log_std
        return cls(std, variance, slope, variance_excess, kl)


class FusedHiddenLayer(MatmulHiddenLayer):
    """`MatmulHiddenLayer` with scale = dropout (floor + exp(log_excess)) whose parameters are learnt.

    `KL` and the activations come from one node of the graph, so that each parameter's gradient is written once. The
    layer must be drawn from before its `log_prob` is asked for, as Pyro's inference does.
    """

    def __init__(
        self,
        X: Tensor,
        mean: Tensor,
        log_excess: Tensor,
        dropout: Tensor,
        weights: Weights,
        *,
        non_linearity: Callable[[Tensor], Tensor],
        KL_factor: float,
        include_hidden_bias: bool = True,
        normals: Callable[[Tensor], Tensor] = Tensor.normal_,
    ) -> None:
        """Take X [B, D], mean and log_excess [D, H], dropout (0-dim), and `Weights.of` these parameters.

        `normals` fills a tensor with standard normals and returns it.
        """
        super().__init__(
            X, mean, weights.std, non_linearity, KL_factor=KL_factor, include_hidden_bias=include_hidden_bias
        )
        self.log_excess = log_excess
        self.dropout = dropout
        self.weights = weights
        self.normals = normals

    def rsample(self, sample_shape: torch.Size = torch.Size()) -> Tensor:  # noqa: B008 - Pyro's signature
        """Return activations [B, H (+ 1 with the column of ones)]; one draw at a time."""
        if sample_shape:
            raise NotImplementedError("FusedHiddenLayer draws one sample at a time; use MatmulHiddenLayer for more")
        pre_activation, self.KL = _Layer.apply(
            self.X, self.A_mean, self.log_excess, self.dropout, self.weights, self.normals
        )
        return self._activate(pre_activation)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return -KL_factor KL, 0-dim, whatever the value: Pyro's definition."""
        if "KL" not in self.__dict__:
            raise RuntimeError(
                "draw from a FusedHiddenLayer before asking for its log_prob: its KL comes with the draw"
            )
        return super().log_prob(value)


class _Layer(torch.autograd.Function):
    """(X, parameters) -> (pre-activations [B, H], KL); gradients by the formulas in `backward`."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        mean: Tensor,
        log_excess: Tensor,
        dropout: Tensor,
        weights: Weights,
        normals: Callable[[Tensor], Tensor],
    ) -> tuple[Tensor, Tensor]:
        del log_excess  # its values are in `weights`; here it only receives a gradient
        x_squared = x.square()
        std = (x_squared @ weights.variance).sqrt_()
        noise = normals(torch.empty_like(std))
        ctx.save_for_backward(x, x_squared, mean, dropout, std, noise)
        ctx.weights = weights
        return torch.addcmul(x @ mean, std, noise), weights.kl.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_kl: Tensor) -> tuple[Tensor | None, Tensor, Tensor, Tensor, None, None]:
        # a = mean part + s noise, s = sqrt(x^2 v):  dL/dv = (x^2)' h / 2  with  h = grad noise / s
        x, x_squared, mean, dropout, std, noise = ctx.saved_tensors
        weights = ctx.weights
        grad_std = grad * noise
        h = grad_std / std
        # d KL / d mean = mean
        grad_mean = torch.addmm(mean, x.T, grad, beta=float(grad_kl))
        # dv/du = 2 v slope and d KL / du = (v - 1) slope, so dL/du = slope (v ((x^2)' h + c) - c) with c = dL/dKL
        grad_log_excess = x_squared.T @ h
        loops = loops_for(grad_log_excess, "layer_loops")
        if loops is not None:
            loops.layer_gradient(*flat_arrays(grad_log_excess, weights.variance, weights.slope), float(grad_kl))
        else:
            grad_log_excess.add_(grad_kl)
            torch.addcmul(-grad_kl, weights.variance, grad_log_excess, out=grad_log_excess)
            grad_log_excess.mul_(weights.slope)
        # sum of v dL/dv over the weights is sum of s grad_std / 2 over the pre-activations
        grad_dropout = (grad_std.flatten().dot(std.flatten()) + grad_kl * weights.variance_excess) / dropout
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.addcmul(grad @ mean.T, x, h @ weights.variance.T)
        return grad_x, grad_mean, grad_log_excess, grad_dropout, None, None


def _noise(shape: torch.Size, like: Tensor) -> Tensor:
    """Return standard normals as `HiddenLayer` draws them: in the default type, then converted to that of `like`."""
    return torch.randn(shape, device=like.device).to(like.dtype)
