"""An objective as the auditor sees it: a function of a batch whose noise can be repeated.

The auditor knows nothing of the model but its parameters. Each call gets a seed of its own and leaves torch's
generator, the parameters and their gradients as they were. What else a call changes, such as running statistics, stays
changed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bench.core.errors import ConfigError
from bench.core.streams import stream_seed

Batch = Sequence[object]  # the arguments of the loss: usually (x, y)
Loss = Callable[..., Tensor]  # called with a batch
Program = Callable[..., object]  # a model or guide of Pyro, likewise
Gradient = dict[str, Tensor]  # float64 on the CPU, by the parameter's name


@dataclass(frozen=True)
class Factor:
    """A group of weights with independent Gaussians: how the parameters make its means and standard deviations."""

    name: str
    mean: Callable[[], Tensor]
    std: Callable[[], Tensor]

    def spread(self) -> Tensor:
        """Return a standard deviation for each mean, where weights share one too; raises ConfigError for a misfit."""
        mean, std = self.mean(), self.std()
        try:
            return std.expand_as(mean)
        except RuntimeError as error:
            shapes = f"{tuple(mean.shape)} and {tuple(std.shape)}"
            raise ConfigError(
                f"mean and std of '{self.name}' have shapes {shapes}; give a std for each mean"
            ) from error


def own_noise() -> AbstractContextManager[None]:
    """Return a context that puts torch's generators back at its end, those of GPUs too."""
    return torch.random.fork_rng(devices=range(torch.cuda.device_count()))


def arguments(batch: object) -> tuple[object, ...]:
    """Return the arguments that a batch stands for: its parts, or itself where it is one object."""
    return tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)


class AuditedObjective:
    """Loss, parameters and batches of one size."""

    def __init__(
        self,
        loss: Loss,
        parameters: Iterable[tuple[str, Tensor]],
        batches: Sequence[Batch],
        nll: Loss | None = None,
    ) -> None:
        """Keep what is audited; raises ConfigError where it cannot be audited."""
        given = _named(parameters)
        self.parameters = {name: value for name, value in given.items() if value.requires_grad}
        self.named = self.parameters | given  # with what cannot be trained
        self.batches = [arguments(batch) for batch in batches]
        self._loss, self._nll = loss, nll
        if not self.parameters:
            raise ConfigError("no parameter requires a gradient; give model.named_parameters()")
        self.batch_size = _rows(self.batches)

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

    def paths(self, value: Tensor) -> set[str]:
        """Return the names of the parameters that move a scalar."""
        return {name for name, slope in self.gradient(value).items() if bool(slope.any())}

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


@dataclass(frozen=True)
class Case:
    """An objective and what its audit was told."""

    objective: AuditedObjective
    groups: Sequence[Factor]  # weights with means and standard deviations
    kl: Callable[[], Tensor] | None  # the unscaled KL
    n_train: int  # rows of an epoch
    prior_std: float | None  # as the user means it to be
    draws: int  # number of seeds to average over
    lone_means: Sequence[str] = ()  # parameters named as means that have no scale

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
        """Return the groups whose sigma can be trained: the gradient of a fixed sigma's entropy is zero."""
        return [group for group in self.groups if self.objective.paths(group.std().sum())]


def _named(parameters: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    found = {}
    for pair in parameters:
        good = isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], Tensor)
        if not good:
            given = type(pair).__name__
            raise ConfigError(f"parameters hold a {given}; give pairs of name and tensor: model.named_parameters()")
        found[pair[0]] = pair[1]
    return found


def _rows(batches: Sequence[Batch]) -> int:
    """Return how many rows each batch has; raises ConfigError where that is unknown, or batches cannot be compared."""
    if len(batches) < 2:
        raise ConfigError(f"{len(batches)} batch was given; the audit compares batches: give three")
    sizes = set()
    for batch in batches:
        first = batch[0] if batch else None
        if not isinstance(first, Tensor) or first.dim() == 0:
            given = type(first).__name__ if batch else "nothing"
            raise ConfigError(f"a batch begins with {given}; give tuples of tensors, rows first, such as (x, y)")
        sizes.add(len(first))
    if len(sizes) != 1:
        raise ConfigError(f"batches of {sorted(sizes)} rows were given; give batches of one size")
    if all(_same(batch, batches[0]) for batch in batches[1:]):
        raise ConfigError(f"the {len(batches)} batches are all the same; the audit compares batches: give others")
    return sizes.pop()


def _same(one: Batch, other: Batch) -> bool:
    """Return whether the tensors of two batches are equal."""
    pairs = [(a, b) for a, b in zip(one, other, strict=False) if isinstance(a, Tensor) and isinstance(b, Tensor)]
    return all(torch.equal(a, b) for a, b in pairs)
