"""An objective as the auditor sees it: a function of a batch whose noise can be repeated.

The audit knows nothing of the model but its parameters. Each call gets a seed, and leaves torch's generator, the
parameters and their gradients as they were. Anything else that a call changes, such as running statistics, stays
changed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from elbo_audit.aliases import by_storage, overlap
from elbo_audit.errors import AuditError
from elbo_audit.noise import noise_of

Batch = Sequence[object]  # the arguments of the loss: usually (x, y)
Loss = Callable[..., Tensor]  # called with a batch
Program = Callable[..., object]  # a model or guide of Pyro, called with a batch
Look = TypeVar("Look")
Gradient = dict[str, Tensor]  # float64 on the CPU, by the parameter's name

PARTS = (1.0, 0.3, 0.1, 0.01, 0.001)  # of a move: the audit takes the largest at which the loss is finite
ROUNDINGS = 16  # in units of a loss's last digit: how far two equal calls, or two batches, may differ by rounding


class NotFinite(AuditError):
    """The loss, or its gradient, is not finite where the audit moved the parameters."""


@dataclass(frozen=True)
class Factor:
    """A group of weights with independent Gaussians: how the parameters make its means and standard deviations."""

    name: str
    mean: Callable[[], Tensor]
    std: Callable[[], Tensor]
    may_be_layer: bool = False  # `mean.0.weight` may be the mean of weights, or of a layer that makes an output

    def spread(self) -> Tensor:
        """Return a standard deviation for each mean, also if weights share one; raises AuditError for a misfit."""
        mean, std = self.mean(), self.std()
        try:
            return std.expand_as(mean)
        except RuntimeError as error:
            shapes = f"{tuple(mean.shape)} and {tuple(std.shape)}"
            raise AuditError(f"mean and std of '{self.name}' have shapes {shapes}; give a std for each mean") from error


def arguments(batch: object) -> tuple[object, ...]:
    """Return the arguments of a batch: its parts, or itself if it is one object."""
    return tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)


def one_number(call: str, value: object) -> Tensor:
    """Return what a call of the user's function gave as a scalar; raises AuditError unless it is one number."""
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.reshape(())
    raise AuditError(f"{call} returned {type(value).__name__}; it must return a tensor of one number")


class AuditedObjective:
    """Loss, parameters and batches of one size."""

    def __init__(
        self,
        loss: Loss,
        parameters: Iterable[tuple[str, Tensor]],
        batches: Sequence[Batch],
        nll: Loss | None = None,
    ) -> None:
        """Keep the arguments; raises AuditError if they cannot be audited."""
        given = _named(parameters)
        self._shared = by_storage(given)
        found = {name: value for shared in self._shared for name, value in shared.named.items()}
        self.named = {name: found[name] for name in given if name in found}  # trained or not
        self.parameters = {name: value for name, value in self.named.items() if value.requires_grad}
        self._is_moved = False
        self.batches = [arguments(batch) for batch in batches]
        self._loss, self._nll = loss, nll
        if not self.parameters:
            raise AuditError("no parameter requires a gradient; give model.named_parameters()")
        self.batch_size = _rows(self.batches)

    @property
    def has_nll(self) -> bool:
        """Return whether the user gave the negative log-likelihood."""
        return self._nll is not None

    def loss(self, batch: Batch, draw: int) -> Tensor:
        """Return the loss of a batch, with the noise of a draw: a scalar with its graph."""
        return self._call(self._loss, "loss", batch, draw)

    def nll(self, batch: Batch, draw: int) -> Tensor:
        """Return -log p(y | x, w) summed over the batch, with the same noise."""
        assert self._nll is not None
        return self._call(self._nll, "nll", batch, draw)

    def _call(self, function: Loss, name: str, batch: Batch, draw: int) -> Tensor:
        try:
            with noise_of(draw):
                value = function(*batch)
        except ValueError as error:  # such as a distribution's check of its standard deviation
            if not self._is_moved:
                raise
            raise NotFinite(f"{name} of a batch ends in an error near the given parameters: {error}") from error
        value = one_number(f"{name}(*batch)", value)
        if not value.is_floating_point():
            raise AuditError(f"{name}(*batch) returned a tensor of {value.dtype}; it must return one of floats")
        if not bool(value.isfinite().all()):
            given = float(value.detach())
            if self._is_moved:
                raise NotFinite(f"{name} of a batch is {given} near the given parameters")
            raise AuditError(f"{name} of a batch is {given}; audit where training works, or give other batches")
        return value

    def gradient(self, value: Tensor) -> Gradient:
        """Return the gradient of a scalar by name, float64; zero where autograd sees no path."""
        if not value.requires_grad:
            return {name: torch.zeros(p.shape, dtype=torch.float64) for name, p in self.parameters.items()}
        sources = [source for shared in self._shared for source in shared.sources.values()]
        slopes = iter(torch.autograd.grad(value, sources, allow_unused=True))
        found: Gradient = {}
        for shared in self._shared:  # each takes the slopes of its own sources
            found |= shared.gradient([next(slopes) for _ in shared.sources])
        return {name: found[name] for name in self.parameters}

    def holds(self, name: str, tensor: Tensor) -> bool:
        """Return whether a tensor is the parameter of this name, or has some of its numbers under another name."""
        return overlap(self.named[name], tensor)

    def value(self) -> float:
        """Return the loss of the first batch with the first noise."""
        return float(self.loss(self.batches[0], 0).detach())

    def drift(self, before: float) -> float:
        """Return how far `value` is from its value before; 0 if rounding explains it."""
        digit = torch.finfo(self.loss(self.batches[0], 0).dtype).eps
        gap = abs(self.value() - before)
        return gap if gap > ROUNDINGS * digit * abs(before) else 0.0

    def sets_seed(self) -> bool:
        """Return whether the loss leaves torch's generator in one state, whatever state it found."""
        states = []
        for draw in (0, 1):
            with noise_of(draw):
                self._loss(*self.batches[0])
                states.append(torch.get_rng_state())
        return torch.equal(*states)

    def paths(self, value: Tensor) -> set[str]:
        """Return the names of the parameters that a scalar depends on."""
        return {name for name, slope in self.gradient(value).items() if bool(slope.any())}

    @contextlib.contextmanager
    def moved(self, shifts: Mapping[str, Tensor]) -> Iterator[None]:
        """Add shifts to the parameters, and put the old values back at the end."""
        kept = {name: self.parameters[name].detach().clone() for name in shifts}
        outer, self._is_moved = self._is_moved, True
        try:
            for name, shift in shifts.items():
                self.parameters[name].data.add_(shift.to(kept[name]))
            yield
        finally:
            self._is_moved = outer
            for name, value in kept.items():
                self.parameters[name].data.copy_(value)

    def seen_near(self, shifts: Mapping[str, Tensor], look: Callable[[], Look]) -> Look:
        """Return what `look` sees under the shifts; where the loss is not finite, under a smaller part of them."""
        for part in PARTS:
            try:
                with self.moved({name: part * shift for name, shift in shifts.items()}):
                    return look()
            except NotFinite as error:
                last = error
        raise last


@dataclass(frozen=True)
class Case:
    """An objective and the arguments of its audit."""

    objective: AuditedObjective
    groups: Sequence[Factor]  # weights with means and standard deviations
    kl: Callable[[], Tensor] | None  # the unscaled KL
    n_train: int  # rows of an epoch
    prior_std: float | None  # that the user means to have
    draws: int  # number of seeds to average over
    lone_means: Sequence[str] = ()  # parameters named as means that have no scale
    other_kl: str = "kl=, or factors="  # arguments that give the KL where the parameters' names do not; for advice

    def __post_init__(self) -> None:
        rows = self.objective.batch_size
        if not isinstance(self.n_train, (int, float)) or self.n_train < rows:
            raise AuditError(f"n_train is {self.n_train!r}, a batch has {rows} rows; give the rows of an epoch")
        if self.draws < 2:
            raise AuditError(f"draws is {self.draws}; give two or more: errors come from their spread")
        if self.prior_std is not None and not 0 < self.prior_std < math.inf:
            raise AuditError(f"prior_std is {self.prior_std}; give the prior's standard deviation, above 0")
        for group in self.groups:
            if not isinstance(group, Factor):
                raise AuditError(f"factors hold a {type(group).__name__}; give Factor(name, mean, std)")

    @cached_property
    def trained(self) -> list[Factor]:
        """Return the groups whose sigma is trained. The entropy of a fixed sigma has no gradient to measure."""
        return [group for group in self.groups if self.objective.paths(group.std().sum())]


def _named(parameters: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    found = {}
    for pair in parameters:
        good = isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], Tensor)
        if not good:
            given = type(pair).__name__
            raise AuditError(f"parameters hold a {given}; give pairs of name and tensor: model.named_parameters()")
        found[pair[0]] = pair[1]
    return found


def _rows(batches: Sequence[Batch]) -> int:
    """Return the rows of each batch; raises AuditError if they are unknown, or the batches cannot be compared."""
    if len(batches) < 2:
        raise AuditError(f"{len(batches)} batch was given; the audit compares batches: give three")
    sizes = set()
    for batch in batches:
        first = batch[0] if batch else None
        if not isinstance(first, Tensor) or first.dim() == 0:
            given = type(first).__name__ if batch else "nothing"
            raise AuditError(f"a batch begins with {given}; give tuples of tensors, rows first, such as (x, y)")
        sizes.add(len(first))
    if len(sizes) != 1:
        raise AuditError(f"batches of {sorted(sizes)} rows were given; give batches of one size")
    if all(_same(batch, batches[0]) for batch in batches[1:]):
        raise AuditError(f"the {len(batches)} batches are all the same; the audit compares batches: give others")
    return sizes.pop()


def _same(one: Batch, other: Batch) -> bool:
    """Return whether the tensors of two batches are equal."""
    pairs = [(a, b) for a, b in zip(one, other, strict=False) if isinstance(a, Tensor) and isinstance(b, Tensor)]
    return all(torch.equal(a, b) for a, b in pairs)
