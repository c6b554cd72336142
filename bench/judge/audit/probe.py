"""An approach fitted for a few steps on made-up rows, half of whose inputs are blank in every row."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bench.core.errors import Unsupported
from bench.interface import Categorical, Marginal, Posterior, Split
from bench.judge.contract import ROWS, CheckContext, Subject

FULL_ROWS = 60_000  # N of the training that is planned
EPOCHS = 2


@dataclass(frozen=True)
class Trail:
    """The weights' marginals after each epoch of a short fit, and all that the last one holds."""

    weights: list[dict[str, Marginal]]
    arrays: Mapping[str, Tensor]


class Probe:
    """One recipe of an approach, fitted for a few steps when a rule asks."""

    def __init__(self, name: str, recipe: str) -> None:
        """Make the subject; raises BenchError where the approach cannot be made."""
        self.subject = Subject(name, recipe)
        self.title = f"{name} {recipe}"
        self.blank = torch.arange(self.subject.task.n_inputs) % 2 == 0

    @cached_property
    def posterior(self) -> Posterior:
        """Return a short fit on ordinary rows."""
        return self.subject.fit()

    @cached_property
    def is_classifier(self) -> bool:
        """Return whether there are classes, and so images."""
        return self.subject.task.kind == "classification"

    def predict(self, posterior: Posterior) -> Tensor:
        """Return log-probabilities or means of up to three draws [S, B, K]."""
        draws = range(self.subject.n_draws(posterior))
        answer = posterior.predict(self.subject.x, draws, self.subject.rows)
        return answer.log_probs if isinstance(answer, Categorical) else answer.mean

    def offers(self, capability: str) -> bool:
        """Return whether the manifest declares an optional method."""
        return capability in self.subject.manifest.capabilities

    @cached_property
    def has_sigma(self) -> bool:
        """Return whether the posterior shows weights with standard deviations."""
        try:
            return any(marginal.std is not None for marginal in self.posterior.weights().values())
        except Unsupported:
            return False

    @cached_property
    def small(self) -> Trail:
        """Return a fit with blank inputs as if N were the few rows there are."""
        return self._trail(ROWS)

    @cached_property
    def large(self) -> Trail:
        """Return the same fit, same rows and noise, as if N were 60,000."""
        return self._trail(FULL_ROWS)

    def _trail(self, n_train: int) -> Trail:
        train = self.subject.train
        x = train.x.clone()
        x[:, self.blank] = 0
        context, found = CheckContext(3), []
        context.on_epoch = lambda posterior: found.append(_copied(posterior.weights()))
        task = dataclasses.replace(self.subject.task, n_train=n_train)
        posterior = self.subject.approach(EPOCHS).fit(Split(train.name, x, train.y, train.rows), task, context)
        return Trail(found, posterior.arrays())


def _copied(weights: Mapping[str, Marginal]) -> dict[str, Marginal]:
    return {
        name: Marginal(m.mean.clone(), None if m.std is None else m.std.clone(), m.used) for name, m in weights.items()
    }
