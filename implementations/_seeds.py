"""Trains several seeds of an approach in one computation.

Shapes: E seeds, N training rows, B rows of a batch, P scalar weights. Seeds that train together are one network with E
in front of every shape. One seed alone does not have this dimension, so that a single fit runs the plain code.

Several seeds in one computation are faster than one after the other: batched products use the cores better, and the
toys share their overhead (docs/verdicts.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from bench.interface import Context, Posterior, Split

State = Mapping[str, Tensor]


class Seeds(ABC):
    """Seeds of one approach that take every step together; an index 0 <= i < E names a seed."""

    @abstractmethod
    def restore(self, states: Sequence[State]) -> None:
        """Go on from what `state` returned for each seed."""

    @abstractmethod
    def epoch(self, epoch: int) -> list[dict[str, float]]:
        """Train for one epoch; return the trace of each seed, the numbers that its document prints."""

    @abstractmethod
    def posterior(self, index: int) -> Posterior:
        """Return the posterior of one seed as it is now; later steps do not change it."""

    @abstractmethod
    def state(self, index: int) -> State:
        """Return all that one seed needs to go on, as CPU copies, in the same form whether it trained alone or not."""


def fit_seeds(seeds: Seeds, contexts: Sequence[Context], epochs: int) -> list[Posterior]:
    """Train the seeds up to `epochs`; after each epoch, call `epoch_end` of every context."""
    found = [restored for context in contexts if (restored := context.restore()) is not None]
    done = 0
    if found:
        done = found[0][0]
        seeds.restore([state for _, state in found])
    for epoch in range(done + 1, epochs + 1):
        for index, (context, trace) in enumerate(zip(contexts, seeds.epoch(epoch), strict=True)):
            context.epoch_end(epoch, trace, partial(seeds.posterior, index), partial(seeds.state, index))
    return [seeds.posterior(index) for index in range(len(contexts))]


def stacked(values: Sequence[Tensor]) -> Tensor:
    """Return the tensors with E in front, or the only one as it is."""
    return values[0] if len(values) == 1 else torch.stack(list(values))


class TrainingRows:
    """The training rows of each seed, on their device, in batches."""

    def __init__(self, train: Split, rows: Tensor, device: torch.device) -> None:
        """Seed e learns from `train.select(rows[e])`, rows int64 [E, N]."""
        self._x, self._y = train.x.to(device), train.y.to(device)
        self._rows = rows
        self._order = rows.to(device)

    def __len__(self) -> int:
        """Return N."""
        return self._rows.shape[1]

    def shuffle(self, generators: Sequence[torch.Generator]) -> None:
        """Give the rows of each seed a new order, drawn from its generator."""
        shuffles = [torch.randperm(len(self), generator=source) for source in generators]
        orders = [rows[shuffle] for rows, shuffle in zip(self._rows, shuffles, strict=True)]
        self._order = torch.stack(orders).to(self._x.device)

    def batches(self, size: int, n_steps: int | None) -> list[slice]:
        """Return the slices of an epoch's batches; the last one is shorter. `n_steps` cuts the epoch."""
        return [slice(start, start + size) for start in range(0, len(self), size)[:n_steps]]

    def take(self, where: slice) -> tuple[Tensor, Tensor]:
        """Return x [B, n_inputs] and y [B, ...] of one batch, with E in front unless there is one seed."""
        order = self._order[:, where]
        networks = () if len(order) == 1 else order.shape[:1]
        x, y = (values.index_select(0, order.flatten()) for values in (self._x, self._y))
        return x.view(*networks, order.shape[1], *x.shape[1:]), y.view(*networks, order.shape[1], *y.shape[1:])


def all_rows(train: Split) -> Tensor:
    """Return the `rows` of one seed that learns from the whole split in its order, int64 [1, N]."""
    return torch.arange(len(train)).unsqueeze(0)
