"""Fits of several seeds side by side: who trains with whom, which rows each sees, and what each reports.

Shapes: E seeds, N training rows, B rows of a batch, P scalar weights. Seeds that learn together are one network with E
in front of every shape; one seed alone has no such dimension, so that a single fit is the plain code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from bench.interface import Context, Posterior, Split

State = Mapping[str, Tensor]


class Seeds(ABC):
    """Some seeds of one approach that take every step together; index 0 <= i < E is the place of a seed in them."""

    @abstractmethod
    def restore(self, states: Sequence[State]) -> None:
        """Go on from what `state` returned for each seed."""

    @abstractmethod
    def epoch(self, epoch: int) -> list[dict[str, float]]:
        """Train for one epoch; return what each seed's document prints."""

    @abstractmethod
    def posterior(self, index: int) -> Posterior:
        """Return the posterior of one seed as it is now; later steps do not change it."""

    @abstractmethod
    def state(self, index: int) -> State:
        """Return all that one seed needs to go on, as CPU copies; the same whether it trained alone or not."""


def fit_seeds(
    make: Callable[[slice], Seeds], contexts: Sequence[Context], epochs: int, at_once: int
) -> list[Posterior]:
    """Train all seeds, `at_once` of them in one step, every group up to the end of an epoch before any goes on.

    Args:
        make: returns the seeds of a part of the contexts at their start.
        contexts: one a seed.
        epochs: how many to train.
        at_once: seeds of a group; the last group takes what is left.
    """
    parts = [slice(start, start + at_once) for start in range(0, len(contexts), at_once)]
    groups = [make(part) for part in parts]
    done = 0
    for part, group in zip(parts, groups, strict=True):
        found = [restored for context in contexts[part] if (restored := context.restore()) is not None]
        if found:
            done = found[0][0]
            group.restore([state for _, state in found])
    for epoch in range(done + 1, epochs + 1):
        for part, group in zip(parts, groups, strict=True):
            traces = group.epoch(epoch)
            for index, context in enumerate(contexts[part]):
                context.epoch_end(epoch, traces[index], partial(group.posterior, index), partial(group.state, index))
    return [
        group.posterior(index)
        for part, group in zip(parts, groups, strict=True)
        for index in range(len(contexts[part]))
    ]


def all_at_once(contexts: Sequence[Context]) -> int:
    """Return how many of the seeds take a step together where networks are small: all."""
    return len(contexts)


def all_at_once_on_a_gpu(contexts: Sequence[Context]) -> int:
    """Return how many of the seeds take a step together where networks are large: all on a GPU, else one.

    On a CPU a step is bound by matrix products, which are no faster together, and by passes over the weights, which
    are slower: those of one network stay in the processor's cache from step to step, those of sixteen do not.
    """
    return len(contexts) if contexts[0].device.type == "cuda" else 1


def stacked(values: Sequence[Tensor]) -> Tensor:
    """Return the tensors with E in front, or the only one as it is."""
    return values[0] if len(values) == 1 else torch.stack(list(values))


class TrainingRows:
    """The rows that the seeds of a group learn from, on their device, batch by batch."""

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
        """Return where the batches of an epoch lie, the last one shorter; `n_steps` cuts the epoch."""
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
