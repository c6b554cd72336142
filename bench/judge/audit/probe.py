"""Short fits of an approach on made-up rows, for the rules of `approach`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import torch
from torch import Tensor

from bench.core.errors import Unsupported
from bench.core.text import counted
from bench.interface import Marginal, Posterior, Split
from bench.judge.contract import ApproachUnderTest, CheckContext

FULL_ROWS = 60_000  # N of the training that is planned


@dataclass(frozen=True)
class Trail:
    """A short fit: the weights' marginals after each epoch, and the arrays of its posterior."""

    weights: list[dict[str, Marginal]]
    arrays: Mapping[str, Tensor]

    def last(self, n: int) -> list[dict[str, Marginal]]:
        """Return the marginals after the last n epochs; raises Unsupported if the approach trains fewer."""
        if len(self.weights) < n:
            raise Unsupported(f"it trains {counted(len(self.weights), 'epoch')}, and this rule needs {n}")
        return self.weights[-n:]


class Probe:
    """One recipe of an approach. It is fitted for a few steps when a rule first needs a fit."""

    def __init__(self, name: str, recipe: str) -> None:
        """Make the approach; raises BenchError if it cannot be made."""
        self.subject = ApproachUnderTest(name, recipe)
        self.blank = torch.arange(self.subject.task.n_inputs) % 2 == 0
        self.trail = cache(self._trail)

    @property
    def posterior(self) -> Posterior:
        """Return a short fit on ordinary rows."""
        return self.subject.fit()

    @property
    def planned_steps(self) -> int | None:
        """Return the number of steps of the planned training; None if the approach has no field `batch_size`."""
        whole = self.subject.approach(1_000_000)
        rows = getattr(whole, "batch_size", None)
        return whole.epochs * math.ceil(FULL_ROWS / rows) if isinstance(rows, int) and rows > 0 else None

    @cached_property
    def has_sigma(self) -> bool:
        """Return whether the posterior shows weights with standard deviations."""
        try:
            return any(marginal.std is not None for marginal in self.posterior.weights().values())
        except Unsupported:
            return False

    def _trail(self, n_train: int, epochs: int = 2) -> Trail:
        """Fit rows whose inputs `blank` are zero, and tell the approach that the training set has `n_train` rows.

        All fits have the same `ROWS` rows and the same noise.
        """
        train = self.subject.train
        x = train.x.clone()
        x[:, self.blank] = 0
        context, found = CheckContext(3), []
        context.on_epoch = lambda posterior: found.append(_copied(posterior.weights()))
        task = dataclasses.replace(self.subject.task, n_train=n_train)
        posterior = self.subject.approach(epochs).fit(Split(train.name, x, train.y, train.rows), task, context)
        return Trail(found, posterior.arrays())


def _copied(weights: Mapping[str, Marginal]) -> dict[str, Marginal]:
    return {
        name: Marginal(m.mean.clone(), None if m.std is None else m.std.clone(), m.used) for name, m in weights.items()
    }
