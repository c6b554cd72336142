"""A foreign objective as the auditor sees it: a function of a batch whose noise can be repeated.

Nothing of the model is known but its parameters. Every call runs from a seed of its own and leaves torch's generator,
the parameters and their gradients as they were; what else a call changes, such as running statistics, stays changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bench.core.errors import ConfigError
from bench.core.streams import stream_seed

Batch = Sequence[Any]  # the arguments of the loss: usually (x, y)
Loss = Callable[..., Tensor]
Gradient = dict[str, Tensor]  # float64 on the CPU, by the parameter's name


@dataclass(frozen=True)
class Factor:
    """A group of weights with independent Gaussians: how the parameters make its means and standard deviations."""

    name: str
    mean: Callable[[], Tensor]
    std: Callable[[], Tensor]


def own_noise() -> AbstractContextManager[None]:
    """Return a context that puts torch's generators back, those of GPUs too."""
    return torch.random.fork_rng(devices=range(torch.cuda.device_count()))


class Objective:
    """Loss, parameters and batches of one size."""

    def __init__(
        self,
        loss: Loss,
        parameters: Iterable[tuple[str, Tensor]],
        batches: Sequence[Batch],
        nll: Loss | None = None,
    ) -> None:
        """Keep what is audited; raises ConfigError where it cannot be."""
        named = _named(parameters)
        self.parameters = {name: value for name, value in named.items() if value.requires_grad}
        self.held = {name: value for name, value in named.items() if name not in self.parameters}  # cannot be trained
        self.batches = [tuple(batch) if isinstance(batch, (tuple, list)) else (batch,) for batch in batches]
        self._loss, self._nll = loss, nll
        if not self.parameters:
            raise ConfigError("no parameter requires a gradient; give model.named_parameters()")
        self.batch_size = _rows(self.batches)

    @property
    def named(self) -> dict[str, Tensor]:
        """Return all that was given by name, what cannot be trained too."""
        return self.parameters | self.held

    @property
    def has_nll(self) -> bool:
        """Return whether the likelihood is known apart from the loss."""
        return self._nll is not None

    def loss(self, batch: Batch, draw: int) -> Tensor:
        """Return the loss of a batch with the noise of a draw, a scalar with its graph."""
        return self._call(self._loss, "loss", batch, draw)

    def nll(self, batch: Batch, draw: int) -> Tensor:
        """Return -log p(y | x, w) summed over the batch, with the same noise."""
        assert self._nll is not None
        return self._call(self._nll, "nll", batch, draw)

    def _call(self, function: Loss, name: str, batch: Batch, draw: int) -> Tensor:
        with own_noise(), torch.enable_grad():
            torch.manual_seed(stream_seed(draw, "audit"))
            value = function(*batch)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise ConfigError(f"{name}(*batch) returned {type(value).__name__}; it must return a tensor of one number")
        if not value.is_floating_point():
            raise ConfigError(f"{name}(*batch) returned a tensor of {value.dtype}; it must return one of floats")
        if not bool(value.isfinite().all()):
            given = float(value.detach())
            raise ConfigError(f"{name} of a batch is {given}; audit where training works, or give other batches")
        return value.reshape(())

    def gradient(self, value: Tensor) -> Gradient:
        """Return the gradient of a scalar by name, float64; zero where autograd sees no path."""
        if not value.requires_grad:
            return {name: torch.zeros(p.shape, dtype=torch.float64) for name, p in self.parameters.items()}
        found = torch.autograd.grad(value, list(self.parameters.values()), allow_unused=True)
        return {
            name: torch.zeros(p.shape, dtype=torch.float64) if g is None else g.detach().cpu().double()
            for (name, p), g in zip(self.parameters.items(), found, strict=True)
        }

    @contextlib.contextmanager
    def moved(self, shifts: Mapping[str, Tensor]) -> Iterator[None]:
        """Add to the parameters, and put them back at the end."""
        kept = {name: self.parameters[name].detach().clone() for name in shifts}
        try:
            for name, shift in shifts.items():
                self.parameters[name].data.add_(shift.to(kept[name]))
            yield
        finally:
            for name, value in kept.items():
                self.parameters[name].data.copy_(value)


def _named(parameters: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    found = {}
    for pair in parameters:
        if not isinstance(pair, tuple) or tuple(map(_kind, pair)) != (str, Tensor):
            given = type(pair).__name__
            raise ConfigError(f"parameters hold a {given}; give pairs of name and tensor: model.named_parameters()")
        found[pair[0]] = pair[1]
    return found


def _kind(part: object) -> type:
    return Tensor if isinstance(part, Tensor) else type(part)


def _rows(batches: Sequence[Batch]) -> int:
    """Return how many rows each batch has; raises ConfigError where that is unknown, or batches cannot be compared."""
    if len(batches) < 2:
        raise ConfigError(f"{len(batches)} batch was given; the audit compares batches: give three")
    for batch in batches:
        if not batch or not isinstance(batch[0], Tensor) or batch[0].dim() == 0:
            given = type(batch[0]).__name__ if batch else "nothing"
            raise ConfigError(f"a batch begins with {given}; give tuples of tensors, rows first, such as (x, y)")
    sizes = {len(batch[0]) for batch in batches}
    if len(sizes) != 1:
        raise ConfigError(f"batches of {sorted(sizes)} rows were given; give batches of one size")
    if all(_same(batch, batches[0]) for batch in batches[1:]):
        raise ConfigError(f"the {len(batches)} batches are all the same; the audit compares batches: give others")
    return sizes.pop()


def _same(one: Batch, other: Batch) -> bool:
    """Return whether the tensors of two batches are equal."""
    pairs = [(a, b) for a, b in zip(one, other, strict=False) if isinstance(a, Tensor) and isinstance(b, Tensor)]
    return all(torch.equal(a, b) for a, b in pairs)
