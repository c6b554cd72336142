"""Uniform prediction: probability 1/K for every class, whatever the image. Every other approach should do better.

Its NLL is log K exactly, its predictive entropy is log K, its mutual information is zero: a check of the metrics.

Objective: none, nothing is learnt.  Target: the prior over classes.
Cost: none.  Fails when: the harness does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bench.interface import Approach, Categorical, Context, Noise, Posterior, Split, Task
from implementations._dense import check_task


@dataclass(frozen=True)
class Uniform(Approach):
    """No training."""

    noise: ClassVar[Noise] = "none"

    epochs: int = 0  # there is nothing to train

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Return the prediction, untrained."""
        del train, ctx
        check_task("uniform", task, "classification")
        return UniformPosterior(task.n_outputs)

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the prediction for the number of classes in `arrays`."""
        del task, seed
        return UniformPosterior(int(arrays["n_classes"]))


class UniformPosterior(Posterior):
    """Log-probability -log K of every class."""

    n_draws = 1

    def __init__(self, n_classes: int) -> None:
        """Predict `n_classes` classes."""
        self._n_classes = n_classes

    def predict(self, x: Tensor, draws: range, rows: Tensor) -> Categorical:
        """Return the same for each of the B rows of x."""
        del rows
        shape = (len(draws), len(x), self._n_classes)
        return Categorical(torch.full(shape, -math.log(self._n_classes), dtype=x.dtype, device=x.device))

    def arrays(self) -> Mapping[str, Tensor]:
        """Return the number of classes."""
        return {"n_classes": torch.tensor(self._n_classes)}
