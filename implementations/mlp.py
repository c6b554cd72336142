"""Deterministic multilayer perceptron: the baseline without uncertainty about its weights.

Implements the baseline classifier of feldman2018 (https://joshfeldman.net/ml/2018/12/17/WeightUncertainty.html):
784 - 400 ReLU - 400 ReLU - 10 log-softmax, Adam 1e-3, ten epochs of shuffled batches of 128. The document means to
divide the learning rate by 1.1 after each epoch but rebinds a Python float that the optimiser copied before: no decay.

Objective (mean per training row, nats)
    L = -1/B sum_i log p(y_i | x_i)
Target
    weights of largest likelihood (no prior, no temperature).
Departures from the document are the corrections and variants listed in mlp.toml.

Cost: 0.29 GFLOP of matrix products a step of 128 rows, about 80 % of its time; the rest is one fused pass of Adam
(12 %) and the element-wise work of a hand-written backward pass. Memory: 4 P.  Fails when: asked what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bench.errors import unknown_name
from bench.interface import Approach, Context, Noise, Posterior, Split, Task
from implementations import _dense
from implementations._kernels.flat_adam import FlatAdam
from implementations._kernels.layout import Layout


@dataclass(frozen=True)
class Mlp(Approach):
    """Training of the deterministic network."""

    noise: ClassVar[Noise] = "none"

    epochs: int = 10  # passes over the training rows
    width: int = 400  # units of each of the two hidden layers
    activation: str = "relu"  # or "sigmoid"
    initial_half_width: float | None = None  # weights and biases start in U(-h, h); None: nn.Linear's 1/sqrt(n_in)
    learning_rate: float = 1e-3  # of Adam, in the first epoch
    learning_rate_divisor: float = 1.0  # divides the learning rate after each epoch
    batch_size: int = 128  # rows of a step; the last step of an epoch takes what is left

    def __post_init__(self) -> None:
        """Raise ConfigError on an unknown activation."""
        if self.activation not in _dense.ACTIVATIONS:
            raise unknown_name("activation of mlp", self.activation, _dense.ACTIVATIONS)

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace holds the mean of the batch losses."""
        _dense.check_task("mlp", task, "classification")
        layout = Layout((task.n_inputs, self.width, self.width, task.n_outputs))
        flat = _dense.linear_init(layout, ctx.generator("init"), self.initial_half_width)
        training = Training(self, layout, flat.to(ctx.device))
        finished, state = ctx.restore() or (0, {})
        if state:
            training.adam.restore(state)
        for epoch in range(finished + 1, self.epochs + 1):
            training.adam.set_learning_rate(self.learning_rate / self.learning_rate_divisor ** (epoch - 1))
            trace = self._epoch(training, train, epoch, ctx)
            ctx.epoch_end(epoch, trace, training.posterior, training.adam.state)
        return training.posterior()

    def _epoch(self, training: Training, train: Split, epoch: int, ctx: Context) -> dict[str, float]:
        order = torch.randperm(len(train), generator=ctx.generator("shuffle", epoch)).to(train.x.device)
        losses = []
        for where in _dense.batches(len(train), self.batch_size, ctx.steps_per_epoch):
            x, y = (value.to(ctx.device) for value in _dense.take(train, order, where))
            losses.append(training.step(x, y))
        return {f"mnist/{train.name}/train_loss": torch.stack(losses).double().mean().item()}

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior with these matrices and biases."""
        del seed
        return _dense.DensePosterior(*_dense.from_named(arrays), _dense.ACTIVATIONS[self.activation], task.kind)


class Training:
    """The network while it learns: weights, gradient, and one step of Adam without autograd."""

    def __init__(self, recipe: Mlp, layout: Layout, flat: Tensor) -> None:
        """Take over the initial weights `flat` [P]; steps change them in place."""
        self.flat = flat
        self.gradient = torch.zeros_like(flat)
        self.adam = FlatAdam(flat, self.gradient, recipe.learning_rate)
        self._layout = layout
        self._layers = layout.layers(flat)
        self._gradients = layout.layers(self.gradient)
        self._activation = _dense.ACTIVATIONS[recipe.activation]
        self._backward = BACKWARD[recipe.activation]

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """Take one step of Adam on x [B, n_inputs], y int64 [B]; return the loss of before it, nats."""
        loss = self.differentiate(x, y)
        self.adam.step()
        return loss

    def differentiate(self, x: Tensor, y: Tensor) -> Tensor:
        """Write the gradient of the mean cross-entropy into `gradient`, and return the loss."""
        inputs = [x]
        *hidden, (matrix, bias) = self._layers
        for hidden_matrix, hidden_bias in hidden:
            inputs.append(self._activation(torch.addmm(hidden_bias, inputs[-1], hidden_matrix.t())))
        loss, delta = _dense.cross_entropy(torch.addmm(bias, inputs[-1], matrix.t()), y)
        for depth in reversed(range(len(self._layers))):
            matrix_gradient, bias_gradient = self._gradients[depth]
            torch.mm(delta.t(), inputs[depth], out=matrix_gradient)
            torch.sum(delta, 0, out=bias_gradient)
            if depth > 0:
                delta = self._backward(delta @ self._layers[depth][0], inputs[depth])
        return loss

    def posterior(self) -> Posterior:
        """Return the network of this moment."""
        return _dense.DensePosterior(self._layout, self.flat.detach().clone(), self._activation, "classification")


# gradient at a layer's output and that output -> gradient before its activation
BACKWARD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda delta, output: torch.ops.aten.threshold_backward(delta, output, 0),
    "sigmoid": torch.ops.aten.sigmoid_backward,
}
