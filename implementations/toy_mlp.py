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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bench.interface import Approach, Context, Noise, Posterior, Split, Task
from implementations import _dense, _seeds
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
        return self.fit_many(train, _seeds.all_rows(train), task, [ctx])[0]

    def fit_many(self, train: Split, rows: Tensor, task: Task, contexts: Sequence[Context]) -> list[Posterior]:
        """See `Approach.fit_many`."""
        _dense.check_task("toy_mlp", task, "regression")
        return _seeds.fit_seeds(Seeds(self, train, rows, task, contexts), contexts, self.epochs)

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior with these matrices and biases."""
        del task, seed
        return _posterior(*_dense.from_named(arrays))


class Seeds(_seeds.Seeds):
    """Seeds that train together."""

    def __init__(self, recipe: ToyMlp, train: Split, rows: Tensor, task: Task, contexts: Sequence[Context]) -> None:
        """Draw the initial weights of every seed; see `Approach.fit_many`."""
        self._layout = Layout((task.n_inputs, recipe.width, recipe.width, task.n_outputs))
        starts = [_dense.linear_init(self._layout, context.generator("init"), context.dtype) for context in contexts]
        self._flat = _seeds.stacked(starts)
        self._key, self._device, self._rate = f"toy/{train.name}/train_loss", contexts[0].device, recipe.learning_rate
        limit = contexts[0].steps_per_epoch
        self._n_steps = recipe.interval if limit is None else min(recipe.interval, limit)
        points = _seeds.TrainingRows(train, rows, torch.device("cpu"))
        self._x, self._y = (values.numpy() for values in points.take(slice(0, len(points))))

    def restore(self, states: Sequence[_seeds.State]) -> None:
        """See `_seeds.Seeds`."""
        self._flat.copy_(_seeds.stacked([state["flat"] for state in states]))

    def epoch(self, epoch: int) -> list[dict[str, float]]:
        """See `_seeds.Seeds`."""
        del epoch  # every interval is the same
        losses = descend(self._layout, self._flat, self._x, self._y, self._n_steps, self._rate)
        return [{self._key: loss} for loss in np.reshape(losses, -1).tolist()]

    def posterior(self, index: int) -> Posterior:
        """See `_seeds.Seeds`."""
        return _posterior(self._layout, self.state(index)["flat"].to(self._device))

    def state(self, index: int) -> dict[str, Tensor]:
        """See `_seeds.Seeds`."""
        return {"flat": self._flat.view(-1, self._layout.n_weights)[index].clone()}


def _posterior(layout: Layout, flat: Tensor) -> Posterior:
    return _dense.DensePosterior(layout, flat, torch.sigmoid_, "regression")


def descend(layout: Layout, flat: Tensor, x: Array, y: Array, n_steps: int, learning_rate: float) -> Array:
    """Take steps of full-batch gradient descent; return the mean squared error [] before the first step.

    The network has two hidden layers of sigmoids; its weights `flat` [P] change in place. x [N, n_inputs], y [N, D].
    With weights [E, P], E networks train at once, and every shape has E in front.
    """
    weights = flat.numpy()
    gradient = np.empty_like(weights)
    (w1, b1), (w2, b2), (w3, b3) = _arrays(layout, weights)
    (g1, c1), (g2, c2), (g3, c3) = _arrays(layout, gradient)
    first_loss = np.zeros(())
    for step in range(n_steps):
        h1 = _sigmoid(x @ w1.swapaxes(-2, -1) + b1)
        h2 = _sigmoid(h1 @ w2.swapaxes(-2, -1) + b2)
        error: Array = h2 @ w3.swapaxes(-2, -1) + b3 - y
        if step == 0:
            first_loss = np.square(error).mean((-2, -1))
        d3 = error * (2 / (error.shape[-2] * error.shape[-1]))
        d2 = (d3 @ w3) * h2 * (1 - h2)
        d1 = (d2 @ w2) * h1 * (1 - h1)
        passes: list[tuple[Array, ...]] = [(d1, x, g1, c1), (d2, h1, g2, c2), (d3, h2, g3, c3)]
        for delta, inputs, matrix, bias in passes:
            np.matmul(delta.swapaxes(-2, -1), inputs, out=matrix)
            np.add.reduce(delta, -2, out=bias, keepdims=True)
        gradient *= learning_rate
        weights -= gradient
    return first_loss


def _arrays(layout: Layout, flat: Array) -> list[tuple[Array, Array]]:
    """Return (matrix [out, in], bias [1, out]) of each layer as NumPy views of `flat`."""
    return [(matrix.numpy(), bias.unsqueeze(-2).numpy()) for matrix, bias in layout.layers(torch.from_numpy(flat))]


def _sigmoid(z: Array) -> Array:
    """Return 1 / (1 + exp(-z)) without overflow; the hyperbolic tangent is bounded."""
    result: Array = 0.5 * np.tanh(0.5 * z) + 0.5
    return result
