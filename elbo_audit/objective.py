"""An objective as the auditor sees it: a function of parameters and a batch, whose noise can be repeated.

Everything here is NumPy in float64. An adapter for a framework is a subclass of `Objective`: `torch_objective` for
PyTorch, `functions` for a function that returns a loss and its gradient.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np

from elbo_audit.errors import AuditError
from elbo_audit.factors import Array, Gaussian, Gradient, Group

Batch = Sequence[object]  # the arguments of the loss: usually (x, y)
Term = Literal["loss", "nll", "kl"]  # `nll`: -log p(y | x, w) summed over the batch; `kl`: unscaled, of no batch
Function = Callable[..., Any]  # a loss, a likelihood or a KL of the user
Look = TypeVar("Look")

PARTS = (1.0, 0.3, 0.1, 0.01, 0.001)  # of a move: the audit takes the largest at which the loss is finite
FEWEST_BATCHES = 3  # with two, a difference of their gradients has nothing to be compared with
ROUNDINGS = 16  # in units of a loss's last digit: how far two equal calls, or two batches, may differ by rounding


class NotFinite(AuditError):
    """The loss, or its gradient, is not finite where the audit moved the parameters."""


class Objective(ABC):
    """A loss, its trained parameters, and batches of which those of the commonest size are compared.

    The methods from `overwritten` on are answers that only some frameworks can give; by default they say "unknown".
    """

    remedies: Mapping[str, str] = {}  # by rule: what to do, where the rule's own words are of another framework
    plates: tuple[str, ...] = ()  # words for a plate and a scale, in a framework where these weigh the likelihood
    other_kl = "kl=, or factors="  # arguments that give the KL where the parameters' names do not
    broadcast = ""  # a sentence on rows that broadcast, if the framework shows it

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        batches: Sequence[object],
        loss: Function,
        nll: Function | None = None,
        kl: Function | None = None,
    ) -> None:
        """Keep functions and shapes of the trained parameters; raises AuditError for what cannot be compared."""
        given: dict[Term, Function | None] = {"loss": loss, "nll": nll, "kl": kl}
        self.functions = {term: function for term, function in given.items() if function is not None}
        for term, function in self.functions.items():
            if not callable(function):
                raise AuditError(f"{term} is a {type(function).__name__}; give a function")
        self.terms = frozenset(self.functions)  # that `_evaluate` can give
        self.shapes = dict(shapes)
        self.batches = [arguments(batch) for batch in batches]
        self.batch_size = self._rows()
        self.is_divisible = True  # whether rows of a batch can be taken apart and given again
        self.mean_of = 0.0  # c, if the function for the NLL gives c times its mean over the rows; 0 if it gives the sum
        self.looked_at: dict[int, list[Array]] = {}  # by the number of draws: what `rows.looked_at` made
        self._is_moved = False

    @abstractmethod
    def _evaluate(self, term: Term, batch: Batch, draw: int, slopes: bool) -> tuple[float, Gradient]:
        """Return a term with the noise of this draw, and its gradient by every parameter; {} without `slopes`.

        The same draw gives the same noise for every term and batch. ValueError means that the term has no value here.
        """

    @abstractmethod
    def value(self, name: str) -> Array:
        """Return a copy of a parameter's present value."""

    @abstractmethod
    def assign(self, name: str, value: Array) -> None:
        """Give a parameter a value. `assign(name, value(name))` changes no bit."""

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """Return one unit in the last digit of a loss of 1."""

    @property
    def parameters(self) -> dict[str, Array]:
        """Return copies of the present values of the trained parameters."""
        return {name: self.value(name) for name in self.shapes}

    @property
    def names(self) -> Collection[str]:
        """Return the names that `value` knows: of the trained parameters, and of others where a framework has them."""
        return self.shapes

    def loss(self, batch: Batch, draw: int) -> float:
        """Return the loss of a batch, with the noise of a draw."""
        return self._checked("loss", batch, draw, False)[0]

    def loss_gradient(self, batch: Batch, draw: int) -> Gradient:
        """Return the gradient of the loss by every trained parameter, with the same noise."""
        return self._checked("loss", batch, draw, True)[1]

    def nll(self, batch: Batch, draw: int) -> float:
        """Return -log p(y | x, w) summed over the batch, with the same noise."""
        return self._summed(batch) * self._checked("nll", batch, draw, False)[0]

    def nll_gradient(self, batch: Batch, draw: int) -> Gradient:
        """Return the gradient of the NLL, with the same noise."""
        times = self._summed(batch)
        return {name: times * part for name, part in self._checked("nll", batch, draw, True)[1].items()}

    def _summed(self, batch: Batch) -> float:
        return (length(batch[0]) or 1) / self.mean_of if self.mean_of else 1.0

    def kl_gradient(self, draw: int) -> Gradient:
        """Return the gradient of the unscaled KL that the user gave, with the noise of a draw of the loss."""
        return self._checked("kl", (), draw, True)[1]

    def _checked(self, term: Term, batch: Batch, draw: int, slopes: bool) -> tuple[float, Gradient]:
        try:
            value, gradient = self._evaluate(term, batch, draw, slopes)
        except ValueError as error:  # such as a distribution's check of its standard deviation
            if not self._is_moved:
                raise
            raise NotFinite(f"{term} of a batch ends in an error near the given parameters: {error}") from error
        if not math.isfinite(value) and term != "kl":
            if self._is_moved:
                raise NotFinite(f"{term} of a batch is {value} near the given parameters")
            raise AuditError(f"{term} of a batch is {value}; audit where training works, or give other batches")
        return value, gradient

    def first_loss(self) -> float:
        """Return the loss of the first batch with the first noise."""
        return self.loss(self.batches[0], 0)

    def drift(self, before: float) -> float:
        """Return how far `first_loss` is from its value before; 0 if rounding explains it."""
        gap = abs(self.first_loss() - before)
        return gap if gap > ROUNDINGS * self.epsilon * abs(before) else 0.0

    @contextlib.contextmanager
    def moved(self, shifts: Mapping[str, Array]) -> Iterator[None]:
        """Add shifts to the parameters, and put the old values back at the end."""
        kept = {name: self.value(name) for name in shifts}
        outer, self._is_moved = self._is_moved, True
        try:
            for name, shift in shifts.items():
                self.assign(name, kept[name] + shift)
            yield
        finally:
            self._is_moved = outer
            for name, value in kept.items():
                self.assign(name, value)

    def seen_near(self, shifts: Mapping[str, Array], look: Callable[[], Look]) -> Look:
        """Return what `look` sees under the shifts; where the loss is not finite, under a smaller part of them."""
        for part in PARTS:
            try:
                with self.moved({name: part * shift for name, shift in shifts.items()}):
                    return look()
            except NotFinite as error:
                last = error
        raise last

    def group(self, factor: object) -> Group:
        """Return the weights of a factor as functions of the present parameters; raises AuditError for no factor."""
        if not isinstance(factor, Gaussian):
            raise AuditError(f"factors hold a {type(factor).__name__}; give Gaussian(mean, scale, transform)")
        for name in (factor.mean, factor.scale):
            if name not in self.names:
                raise AuditError(f"factors name '{name}', which is no parameter; known: {', '.join(self.names)}")
        return factor.group(self.value, self.shapes)

    def take(self, batch: Batch, rows: Sequence[int]) -> Batch:
        """Return these rows of a batch, which may repeat."""
        at = np.asarray(rows)
        return tuple(part if length(part) is None else np.asarray(part)[at] for part in batch)

    def twice(self, batch: Batch) -> Batch:
        """Return a batch with each row twice."""
        return self.take(batch, [*range(self.batch_size)] * 2)

    def _rows(self) -> int:
        """Return the rows of each batch; those of the commonest size are kept. Raises AuditError without three."""
        if len(self.batches) < FEWEST_BATCHES:
            given = f"{len(self.batches)} batch{'' if len(self.batches) == 1 else 'es'}"
            raise AuditError(f"{given} given; the audit compares batches: give {FEWEST_BATCHES} or more")
        sizes = []
        for batch in self.batches:
            rows = length(batch[0]) if batch else None
            if rows is None:
                given = type(batch[0]).__name__ if batch else "nothing"
                raise AuditError(f"a batch begins with {given}; give tuples of tensors, rows first, such as (x, y)")
            sizes.append(rows)
        kept, count = Counter(sizes).most_common(1)[0]
        if count == 1:
            raise AuditError(f"batches of {sorted(sizes)} rows were given; give three of one size")
        self.batches = [batch for batch, size in zip(self.batches, sizes, strict=True) if size == kept]
        if all(self._same(batch, self.batches[0]) for batch in self.batches[1:]):
            given = f"the {len(self.batches)} batches are all the same"
            raise AuditError(f"{given}; the audit compares batches: give others")
        return kept

    def _same(self, one: Batch, other: Batch) -> bool:
        """Return whether the arrays of two batches are equal."""
        pairs = [(a, b) for a, b in zip(one, other, strict=False) if None not in (length(a), length(b))]
        return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)

    def numbers(self, part: object) -> Array | None:
        """Return a part of a batch as numbers; None if it is no array of them."""
        array = np.asarray(part) if length(part) is not None else None
        return array.astype(np.float64) if array is not None and array.dtype.kind in "biuf" else None

    def overwritten(self) -> tuple[Sequence[str], str]:
        """Return the parameters whose gradients an in-place write of the loss changes, and a sentence that says so."""
        return (), ""

    def precision(self) -> tuple[float, str]:
        """Return the coarsest rounding of loss and gradient, and the name of a half precision type if it is of one."""
        return self.epsilon, ""

    def sets_seed(self) -> bool | None:
        """Return whether the loss sets the seed of its noise itself; None if unknown."""
        return None


def arguments(batch: object) -> tuple[object, ...]:
    """Return the arguments of a batch: its parts, or itself if it is one object."""
    return tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)


def length(part: object) -> int | None:
    """Return the rows of an array of any framework; None for anything else, and for a single number."""
    shape = getattr(part, "shape", None)
    return int(shape[0]) if shape is not None and len(shape) else None


@dataclass(frozen=True)
class Case:
    """An objective and the arguments of its audit."""

    objective: Objective
    groups: Sequence[Group]  # weights with means and standard deviations
    n_train: int  # rows of an epoch
    prior_std: float | None  # that the user means to have
    draws: int  # number of seeds to average over
    alone: Mapping[str, str] = field(default_factory=dict)  # means and scales without a partner: what to give
    n_batches: float | None = None  # in an epoch, if it is known; else N / B, rounded up or down

    def __post_init__(self) -> None:
        rows = self.objective.batch_size
        if not isinstance(self.n_train, (int, float)) or self.n_train < rows:
            raise AuditError(f"n_train is {self.n_train!r}, a batch has {rows} rows; give the rows of an epoch")
        if self.n_batches is not None and abs(self.n_batches - self.n_train / rows) >= 1:
            given = f"n_batches is {self.n_batches}, and n_train / B is {self.n_train / rows:.6g}"
            raise AuditError(f"{given}; give n_train, and batches as the loader makes them")
        if self.draws < 2:
            raise AuditError(f"draws is {self.draws}; give two or more: errors come from their spread")
        if self.prior_std is not None and not 0 < self.prior_std < math.inf:
            raise AuditError(f"prior_std is {self.prior_std}; give the prior's standard deviation, above 0")

    @property
    def has_nll(self) -> bool:
        """Return whether the user gave the negative log-likelihood."""
        return "nll" in self.objective.terms

    @property
    def has_kl(self) -> bool:
        """Return whether the user gave the unscaled KL."""
        return "kl" in self.objective.terms

    @cached_property
    def trained(self) -> list[Group]:
        """Return the groups whose sigma is trained. The entropy of a fixed sigma has no gradient to measure."""
        return [group for group in self.groups if group.scales]
