"""Deep ensemble: several plain networks from different first weights, whose probabilities are averaged.

Lakshminarayanan et al. 2017, arXiv 1612.01474, without their adversarial examples. Each member learns for the budget
of one network.

Objective (mean per training row, nats): the cross-entropy, for each member.  Target: weights of largest likelihood.
Cost: five trainings and five passes.  Fails when: the members agree, as where no row contradicts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from bench.interface import Context, Noise, Posterior, Split, Task
from implementations import _methods


@dataclass(frozen=True)
class DeepEnsemble(_methods.Method):
    """Training of the members."""

    noise: ClassVar[Noise] = "weights"

    members: int = 5  # networks

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train all members together; the trace holds the mean of their losses."""
        return _methods.learn(_methods.PlainNetworks(self, task, ctx, self.members), self, train, ctx)

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior of stored networks."""
        del seed
        return _methods.NetworkSet(_methods.layout_of(task), arrays["weights"])
