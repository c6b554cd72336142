"""One plain network whose logits are divided by a temperature, fitted on training images that are held out.

Guo et al. 2017, arXiv 1706.04599. One training row in twelve is held out; the temperature T minimises the negative
log-likelihood of the held-out rows under softmax(z / T). Dividing the last layer by T does the same to the logits.

Objective (mean per training row, nats): the cross-entropy, of eleven rows in twelve.  Target: weights of largest
likelihood.  Cost: one training, one pass.  Fails when: rows are not like the held-out ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from scipy.optimize import brentq, minimize_scalar
from torch import Tensor

from bench.interface import Categorical, Context, Noise, Posterior, Split, Task
from implementations import _dense, _methods

WIDEST = 5.0  # |log T| at most


@dataclass(frozen=True)
class Temperature(_methods.Method):
    """Training of the network and of its temperature."""

    noise: ClassVar[Noise] = "none"

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train on the rows that are not held out; the trace holds the mean of the batch losses."""
        order = torch.randperm(len(train), generator=ctx.generator("held-out"))
        n_held = max(1, len(train) // _methods.HELD_OUT)
        share = 1 - n_held / len(train)  # of the rows, whose loss stands beside the whole of a prior
        part = replace(task, weight_decay=task.weight_decay / share)
        learner = Scaled(self, part, ctx, train.select(order[:n_held]))
        return _methods.learn(learner, self, train.select(order[n_held:]), ctx)

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the network with these matrices and biases."""
        del task, seed
        return _methods.plain(*_dense.from_named(arrays))


class Scaled(_methods.PlainNetworks):
    """A plain network in training, and the held-out rows for its temperature."""

    def __init__(self, recipe: Temperature, task: Task, ctx: Context, held: Split) -> None:
        """Draw the first weights."""
        super().__init__(recipe, task, ctx)
        self._held = held

    def posterior(self) -> Posterior:
        """Return the network with its last layer divided by the temperature."""
        flat = self.weights()[0]
        answer = _methods.plain(self.layout, flat).predict(self._held.x.cpu(), range(1), self._held.rows)
        assert isinstance(answer, Categorical)
        best = best_temperature if flat.dtype == torch.float32 else exact_temperature
        divisor = best(answer.log_probs[0], self._held.y.cpu())
        for part in self.layout.layers(flat)[-1]:
            part.div_(divisor)
        return _methods.plain(self.layout, flat)


def best_temperature(logits: Tensor, y: Tensor) -> float:
    """Return the T > 0 of the lowest mean -log softmax(z / T)_y; logits z [B, K], up to a constant per row, y [B]."""
    logits = logits.double()

    def nll(log_temperature: float) -> float:
        return float(torch.nn.functional.cross_entropy(logits / math.exp(log_temperature), y))

    return math.exp(minimize_scalar(nll, bounds=(-WIDEST, WIDEST), method="bounded", options={"xatol": 1e-6}).x)


def exact_temperature(logits: Tensor, y: Tensor) -> float:
    """Return the same T to the last digits: the minimum itself tells a float64 number to half its digits only.

    The derivative in 1/T, the mean of sum_k p_k z_k - z_y, grows with 1/T; T is where it is zero.
    """

    def slope(log_temperature: float) -> float:
        probs = torch.softmax(logits / math.exp(log_temperature), 1)
        return float(((probs * logits).sum(1) - logits.gather(1, y.unsqueeze(1)).squeeze(1)).mean())

    if slope(-WIDEST) * slope(WIDEST) >= 0:
        return best_temperature(logits, y)
    return math.exp(brentq(slope, -WIDEST, WIDEST, xtol=1e-14))
