"""A fully connected ReLU network in one flat vector: its loss on a batch, and the gradient without autograd.

Shapes: B rows, P scalar weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from implementations._kernels.layout import Layout, affine, product
from implementations._kernels.sampled_mlp import categorical_nll


class ReluNetwork:
    """Weights [P] and their gradient [P], with buffers for the layers' outputs."""

    def __init__(self, layout: Layout, weights: Tensor, gradient: Tensor, batch_size: int) -> None:
        """Read `weights` [P], which the caller changes, and write `gradient` [P]; `batch_size` rows at most."""
        self._layers = layout.layers(weights)
        self._gradients = layout.layers(gradient)
        self._outputs = layout.activations(batch_size, weights)
        self._flowing = layout.activations(batch_size, weights)

    def differentiate(self, x: Tensor, y: Tensor, scale: float, masks: Sequence[Tensor] = ()) -> Tensor:
        """Write the gradient of `scale` times the summed negative log-likelihood; return that sum, nats, [].

        x [B, n_inputs], y int64 [B]. With scale 1/B it is the gradient of the mean. `masks` multiply the outputs of
        each hidden layer, [B, width], such as those of dropout; () for none.
        """
        outputs = [buffer[: len(x)] for buffer in self._outputs]
        below = [x, *outputs[:-1]]
        for depth, ((matrix, bias), out) in enumerate(zip(self._layers, outputs, strict=True)):
            affine(below[depth], matrix, bias, out)
            if depth < len(outputs) - 1:
                out.relu_()
                if masks:
                    out.mul_(masks[depth])
        nll, flowing = categorical_nll(outputs[-1], y)
        flowing.mul_(scale)
        for depth in reversed(range(len(outputs))):
            matrix_gradient, bias_gradient = self._gradients[depth]
            product(flowing.mT, below[depth], out=matrix_gradient)
            torch.sum(flowing, -2, out=bias_gradient)
            if depth:
                buffer = product(flowing, self._layers[depth][0], out=self._flowing[depth - 1][: len(x)])
                if masks:
                    buffer.mul_(masks[depth - 1])
                # an output of zero was below zero before, or its mask is zero
                flowing = torch.ops.aten.threshold_backward.grad_input(buffer, below[depth], 0, grad_input=buffer)
        return nll
