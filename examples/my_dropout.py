"""Monte Carlo dropout: a network is trained with dropout, and draws new masks for every image when it predicts.

Objective: mean cross-entropy of the batch, nats.  Target: none stated; Gal and Ghahramani 2016, arXiv 1506.02142.
Cost: one pass a draw.  Fails when: dropout is zero, because all draws are then equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bench.core.streams import row_noise
from bench.interface import Approach, Categorical, Context, Noise, Posterior, Split, Task

Weights = Mapping[str, Tensor]
KEPT_BELOW = 0.6744897501960817  # three of four standard normal numbers are smaller


def outputs(w: Weights, x: Tensor, keep: Tensor) -> Tensor:
    """Return log-probabilities [B, K] for images [B, 784] with the hidden units of `keep` (bool [B, H])."""
    hidden = torch.relu(x @ w["w1"] + w["b1"]) * keep / 0.75
    return torch.log_softmax(hidden @ w["w2"] + w["b2"], 1)


@dataclass(frozen=True)
class McDropout(Approach):
    """One hidden layer with dropout 1/4."""

    noise: ClassVar[Noise] = "row"

    epochs: int = 5  # training epochs
    batch_size: int = 128  # images
    learning_rate: float = 0.1  # of SGD
    hidden_units: int = 256  # of the one hidden layer

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train by SGD; the trace is the mean loss of an epoch's batches."""
        start = self._start(task, ctx.generator("init"))
        first, w = 1, {name: value.to(ctx.dtype) for name, value in start.items()}
        if (found := ctx.restore()) is not None:
            first, w = found[0] + 1, {name: value.clone() for name, value in found[1].items()}
        for epoch in range(first, self.epochs + 1):
            order = torch.randperm(len(train), generator=ctx.generator("shuffle", epoch))
            noise, losses = ctx.generator("noise", epoch), []
            for rows in order.split(self.batch_size)[: ctx.steps_per_epoch]:
                keep = torch.rand(len(rows), self.hidden_units, generator=noise) < 0.75
                leaves = {name: value.clone().requires_grad_() for name, value in w.items()}
                loss = -outputs(leaves, train.x[rows], keep)[torch.arange(len(rows)), train.y[rows]].mean()
                gradients = torch.autograd.grad(loss, list(leaves.values()))
                w = {name: w[name] - self.learning_rate * g for name, g in zip(w, gradients, strict=True)}
                losses.append(float(loss.detach()))
            trace, state = {f"mnist/{train.name}/train_loss": sum(losses) / len(losses)}, dict(w)
            ctx.epoch_end(epoch, trace, lambda now=state: McDropoutPosterior(now, ctx.seed), lambda now=state: now)
        return McDropoutPosterior(w, ctx.seed)

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior of stored weights."""
        del task
        return McDropoutPosterior(arrays, seed)

    def _start(self, task: Task, source: torch.Generator) -> Weights:
        w1 = torch.randn(task.n_inputs, self.hidden_units, generator=source) * (2 / task.n_inputs) ** 0.5
        w2 = torch.randn(self.hidden_units, task.n_outputs, generator=source) / self.hidden_units**0.5
        return {"w1": w1, "b1": torch.zeros(self.hidden_units), "w2": w2, "b2": torch.zeros(task.n_outputs)}


class McDropoutPosterior(Posterior):
    """Weights, and a mask for each draw and image."""

    noise: Noise = "row"

    def __init__(self, w: Weights, seed: int) -> None:
        """Keep the weights and the seed of the masks."""
        self._w, self._seed = dict(w), seed

    def predict(self, x: Tensor, draws: range, rows: Tensor) -> Categorical:
        """Predict with masks that depend on seed, draw and row only, not on the other rows of the block."""
        masks = [row_noise(self._seed, draw, rows, len(self._w["b1"])) < KEPT_BELOW for draw in draws]
        return Categorical(torch.stack([outputs(self._w, x, keep) for keep in masks]))

    def arrays(self) -> Mapping[str, Tensor]:
        """Return the weights."""
        return self._w
