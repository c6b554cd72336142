"""Deterministic multilayer perceptron on six points: a curve without an error band.

Implements the first toy regression of feldman2018 (https://joshfeldman.net/ml/2018/12/17/WeightUncertainty.html):
1 - 16 sigmoid - 16 sigmoid - 1 (the text says 8 units), full-batch gradient descent with step .01 for 30,000 steps.
An epoch is one of the document's printing intervals of 5,000 steps.

Objective (mean per training row, squared target units)
    L = 1/N sum_i (f(x_i) - y_i)^2
Target
    least squares (no prior); the prediction has variance zero.

Cost: 30,000 steps of 6 rows are all call overhead, about 20 microseconds each in NumPy and three times that in
PyTorch, hence NumPy.  Fails when: asked between or beyond the points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bench.interface import Approach, Context, Noise, Posterior, Split, Task
from implementations import _dense
from implementations._kernels.layout import Layout

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ToyMlp(Approach):
    """Training of the network on a handful of points."""

    noise: ClassVar[Noise] = "none"

    epochs: int = 6  # printing intervals
    interval: int = 5000  # steps of gradient descent in one
    width: int = 16  # units of each of the two hidden layers
    learning_rate: float = 0.01  # of gradient descent

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace holds the mean squared error at the first step of each interval, before that step."""
        _dense.check_task("toy_mlp", task, "regression")
        layout = Layout((task.n_inputs, self.width, self.width, task.n_outputs))
        flat = _dense.linear_init(layout, ctx.generator("init"))
        finished, state = ctx.restore() or (0, {})
        if state:
            flat.copy_(state["flat"])
        n_steps = self.interval if ctx.steps_per_epoch is None else min(self.interval, ctx.steps_per_epoch)
        x, y = (value.cpu().numpy() for value in (train.x, train.y))
        for epoch in range(finished + 1, self.epochs + 1):
            loss = descend(layout, flat, x, y, n_steps, self.learning_rate)
            ctx.epoch_end(
                epoch,
                {f"toy/{train.name}/train_loss": loss},
                lambda: _posterior(layout, flat.clone().to(ctx.device)),
                lambda: {"flat": flat.clone()},
            )
        return _posterior(layout, flat.to(ctx.device))

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior with these matrices and biases."""
        del task, seed
        return _posterior(*_dense.from_named(arrays))


def _posterior(layout: Layout, flat: Tensor) -> Posterior:
    return _dense.DensePosterior(layout, flat, torch.sigmoid_, "regression")


def descend(layout: Layout, flat: Tensor, x: Array, y: Array, n_steps: int, learning_rate: float) -> float:
    """Take steps of full-batch gradient descent in place; return the mean squared error of before the first.

    Args:
        layout: the network, two hidden layers of sigmoids.
        flat: its weights [P], changed in place.
        x: inputs [N, n_inputs], of the type of `flat`.
        y: targets [N, D].
        n_steps: steps to take.
        learning_rate: step size.
    """
    weights = flat.numpy()
    gradient = np.empty_like(weights)
    (w1, b1), (w2, b2), (w3, b3) = _arrays(layout, weights)
    (g1, c1), (g2, c2), (g3, c3) = _arrays(layout, gradient)
    first_loss = 0.0
    for step in range(n_steps):
        h1 = _sigmoid(x @ w1.T + b1)
        h2 = _sigmoid(h1 @ w2.T + b2)
        error: Array = h2 @ w3.T + b3 - y
        if step == 0:
            first_loss = float(np.square(error).mean())
        d3 = error * (2 / error.size)
        d2 = (d3 @ w3) * h2 * (1 - h2)
        d1 = (d2 @ w2) * h1 * (1 - h1)
        passes: list[tuple[Array, ...]] = [(d1, x, g1, c1), (d2, h1, g2, c2), (d3, h2, g3, c3)]
        for delta, inputs, matrix, bias in passes:
            np.matmul(delta.T, inputs, out=matrix)
            np.add.reduce(delta, 0, out=bias)
        gradient *= learning_rate
        weights -= gradient
    return first_loss


def _arrays(layout: Layout, flat: Array) -> list[tuple[Array, Array]]:
    """Return (matrix, bias) of each layer as NumPy views of `flat`."""
    return [(matrix.numpy(), bias.numpy()) for matrix, bias in layout.layers(torch.from_numpy(flat))]


def _sigmoid(z: Array) -> Array:
    """Return 1 / (1 + exp(-z)) without overflow; the hyperbolic tangent is bounded."""
    result: Array = 0.5 * np.tanh(0.5 * z) + 0.5
    return result
