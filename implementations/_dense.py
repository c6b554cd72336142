"""Shared by the plain fully connected networks: initial weights, the loss gradient, and the deterministic posterior.

Shapes: B rows, K classes, P scalar weights. All weights of a network are one flat vector (`_kernels.layout`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor

from bench.core.errors import ConfigError
from bench.core.streams import uniforms
from bench.interface import Categorical, Gaussian, Marginal, Posterior, Task
from implementations._kernels.layout import Layout, check_masks

Kind = Literal["classification", "regression"]
Activation = Callable[[Tensor], Tensor]  # in place, returns its argument

ACTIVATIONS: dict[str, Activation] = {"relu": torch.relu_, "sigmoid": torch.sigmoid_}
ROWS_AT_A_TIME = 512  # rows of a forward pass without gradients: its activations stay in the processor's cache


def check_task(name: str, task: Task, kind: Kind) -> None:
    """Raise ConfigError if the approach is not made for this kind of task."""
    if task.kind != kind:
        raise ConfigError(f"{name} learns a {kind} task and was given a {task.kind} one; choose another approach")


def linear_init(
    layout: Layout, generator: torch.Generator, dtype: torch.dtype, half_width: float | None = None
) -> Tensor:
    """Draw initial weights and biases, uniform on (-h, h), layer by layer; [P] on the CPU.

    h is `half_width`; None for 1/sqrt(n_in) of each layer, as in `torch.nn.Linear`.
    """
    flat = torch.empty(layout.n_weights, dtype=dtype)
    for matrix, bias in layout.layers(flat):
        h = 1 / math.sqrt(matrix.shape[1]) if half_width is None else half_width
        for part in (matrix, bias):
            part.copy_(uniforms(part.numel(), h, generator, dtype).view(part.shape))
    return flat


def cross_entropy(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean cross-entropy of logits [B, K] in nats, and its gradient (p - onehot) / B [B, K].

    For E networks at once, every shape has E in front, and the loss is [E].
    """
    log_p = torch.log_softmax(logits, -1)
    picked = y.unsqueeze(-1)
    loss = log_p.gather(-1, picked).mean((-2, -1)).neg_()
    gradient = log_p.exp_()
    gradient.scatter_add_(-1, picked, gradient.new_full((1,), -1.0).expand(picked.shape))
    return loss, gradient.div_(y.shape[-1])


def named_copy(layout: Layout, flat: Tensor) -> dict[str, Tensor]:
    """Return copies of all matrices [out, in] and biases [out] by name, on the CPU."""
    return {name: view.detach().to("cpu", copy=True) for name, view in layout.named(flat).items()}


def from_named(arrays: Mapping[str, Tensor]) -> tuple[Layout, Tensor]:
    """Return the layout and the flat vector of the arrays that `named_copy` returned."""
    matrices = [value for value in arrays.values() if value.dim() == 2]
    layout = Layout((matrices[0].shape[1], *(matrix.shape[0] for matrix in matrices)))
    flat = matrices[0].new_empty(layout.n_weights)
    for name, view in layout.named(flat).items():
        view.copy_(arrays[name])
    return layout, flat


def marginals(layout: Layout, flat: Tensor) -> dict[str, Marginal]:
    """Return the marginals of a network without noise, which uses every weight."""
    named = named_copy(layout, flat)
    return {name: Marginal(value, None, torch.ones_like(value, dtype=torch.bool)) for name, value in named.items()}


def masked_copy(layout: Layout, flat: Tensor, keep: Mapping[str, Tensor]) -> Tensor:
    """Return a copy of the flat vector with zeros where keep=False; raises as `check_masks`."""
    pruned = flat.clone()
    views = layout.named(pruned)
    check_masks(keep, views)
    for name, mask in keep.items():
        views[name].masked_fill_(~mask.to(flat.device), 0)
    return pruned


class DensePosterior(Posterior):
    """One fully connected network without noise: log-softmax outputs, or means with variance zero."""

    n_draws = 1

    def __init__(self, layout: Layout, flat: Tensor, activation: Activation, kind: Kind) -> None:
        """Keep the weights `flat` [P], which the caller must not change afterwards."""
        self._layout = layout
        self._flat = flat
        self._activation = activation
        self._kind = kind

    def predict(self, x: Tensor, draws: range, rows: Tensor) -> Categorical | Gaussian:
        """Predict x [B, n_inputs], on its device; every draw is the same network."""
        del rows
        layers = self._layout.layers(self._flat.to(x.device))
        x = x.to(self._flat.dtype)
        out = torch.cat([self._outputs(block, layers) for block in torch.split(x, ROWS_AT_A_TIME)])
        shape = (len(draws), *out.shape)
        if self._kind == "regression":
            return Gaussian(out.expand(shape), torch.zeros_like(out).expand(shape))
        return Categorical(torch.log_softmax(out, 1).expand(shape))

    def _outputs(self, x: Tensor, layers: list[tuple[Tensor, Tensor]]) -> Tensor:
        *hidden, (matrix, bias) = layers
        for hidden_matrix, hidden_bias in hidden:
            x = self._activation(torch.addmm(hidden_bias, x, hidden_matrix.t()))
        return torch.addmm(bias, x, matrix.t())

    def arrays(self) -> Mapping[str, Tensor]:
        """Return the matrices and biases by name."""
        return named_copy(self._layout, self._flat)

    def weights(self) -> Mapping[str, Marginal]:
        """Return the matrices and biases by name, without sigma."""
        return marginals(self._layout, self._flat)

    def masked(self, keep: Mapping[str, Tensor]) -> DensePosterior:
        """Return the network with zeros where keep=False; tensors not named are kept. Raises as `check_masks`."""
        return DensePosterior(self._layout, masked_copy(self._layout, self._flat, keep), self._activation, self._kind)

    def mean_network(self) -> DensePosterior:
        """Return the network itself: it has no noise."""
        return self
