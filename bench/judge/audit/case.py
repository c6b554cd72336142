"""An objective and what its audit was told."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from bench.core.errors import ConfigError
from bench.judge.audit.objective import Factor, Objective


@dataclass(frozen=True)
class Case:
    """What the rules are applied to."""

    objective: Objective
    groups: Sequence[Factor]  # weights with means and standard deviations
    kl: Callable[[], Tensor] | None  # the unscaled KL
    n_train: int  # rows of an epoch
    prior_std: float | None  # that is meant
    draws: int  # seeds that are averaged over
    subject: str
    lone_means: Sequence[str] = ()  # parameters named as means without a scale

    def __post_init__(self) -> None:
        rows = self.objective.batch_size
        if not isinstance(self.n_train, (int, float)) or self.n_train < rows:
            raise ConfigError(f"n_train is {self.n_train!r}, a batch has {rows} rows; give the rows of an epoch")
        if self.draws < 2:
            raise ConfigError(f"draws is {self.draws}; give two or more: errors come from their spread")
        if self.prior_std is not None and not 0 < self.prior_std < math.inf:
            raise ConfigError(f"prior_std is {self.prior_std}; give the prior's standard deviation, above 0")
        for group in self.groups:
            if not isinstance(group, Factor):
                raise ConfigError(f"factors hold a {type(group).__name__}; give Factor(name, mean, std)")

    @cached_property
    def trained(self) -> list[Factor]:
        """Return the groups whose sigma a parameter moves: of the others the KL shows no entropy."""
        return [g for g in self.groups if self._moves(g)]

    def _moves(self, group: Factor) -> bool:
        return any(bool(path.any()) for path in self.objective.gradient(group.std().sum()).values())
