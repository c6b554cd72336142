"""Monte Carlo dropout: hidden units are dropped in training and, with masks of its own for every row, in each draw.

Gal and Ghahramani 2016, arXiv 1506.02142: dropout before every layer but the first, on at test, the mean of the
probabilities of the draws. Their weight decay is left out, as the other methods have none.

The rate is the one of 0.1, 0.25 and 0.5 with the least NLL of held-out training images.

Objective (mean per training row, nats): the cross-entropy under one mask a row.  Target: none stated; their paper reads
it as a variational bound.  Cost: one training, one pass a draw.  Fails when: the rate is zero, as all draws are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from bench.core.streams import StepNoise
from bench.interface import Context, Noise, Posterior, Split, Task
from implementations import _dense, _methods, dropout_fcn
from implementations._kernels.flat_adam import FlatAdam


@dataclass(frozen=True)
class McDropout(_methods.Method):
    """Training of the network with dropout."""

    noise: ClassVar[Noise] = "row"

    dropout: float = 0.25  # probability of dropping a hidden unit

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train by Adam; the trace holds the mean of the batch losses, with dropout on."""
        return _methods.learn(Dropping(self, task, ctx), self, train, ctx)

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior with these matrices and biases."""
        return self.with_dropout(task).rebuild(arrays, task, seed)

    def with_dropout(self, task: Task) -> dropout_fcn.DropoutFcn:
        """Return this network as one of `dropout_fcn`: no momentum, so that its velocity is the gradient."""
        return dropout_fcn.DropoutFcn(
            hidden=_methods.hidden_of(task),
            input_dropout=0.0,
            hidden_dropout=self.dropout,
            negative_slope=0.0,
            loss="cross_entropy",
            momentum=0.0,
        )


class Dropping(_methods.Learner):
    """The network in training."""

    def __init__(self, recipe: McDropout, task: Task, ctx: Context) -> None:
        """Draw the first weights."""
        _dense.check_task("mc_dropout", task, "classification")
        self._recipe, self._ctx = recipe, ctx
        flat = _methods.initial(task, ctx)
        self._training = dropout_fcn.Training(recipe.with_dropout(task), _methods.layout_of(task), flat)
        self._adam = FlatAdam(flat, self._training.velocity, recipe.learning_rate)
        self._decay = task.weight_decay

    def begin(self, epoch: int, n_steps: int) -> None:
        """See `_methods.Learner`."""
        del n_steps
        self._adam.set_learning_rate(self._recipe.rate(epoch))
        self._noise = StepNoise(self._ctx.stream("noise", epoch))

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """See `_methods.Learner`."""
        loss, _ = self._training.differentiate(x, y, self._training.masks.random_words(len(y), self._noise))
        if self._decay:
            self._training.velocity.add_(self._training.flat, alpha=self._decay)
        self._adam.step()
        return loss

    def posterior(self) -> Posterior:
        """See `_methods.Learner`."""
        return self._training.posterior(0, self._ctx.seed)

    def state(self) -> Mapping[str, Tensor]:
        """See `_methods.Learner`."""
        return self._adam.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `_methods.Learner`."""
        self._adam.restore(state)
