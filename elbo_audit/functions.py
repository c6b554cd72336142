"""The audit of a function that returns a loss and its gradient as arrays, whatever framework computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from elbo_audit import audits
from elbo_audit.errors import AuditError
from elbo_audit.factors import Array, Gaussian, Gradient
from elbo_audit.findings import ElboReport
from elbo_audit.names import case_of
from elbo_audit.objective import Batch, Objective, Term
from elbo_audit.streams import SHORT, seed_of

Floats = NDArray[np.floating[Any]]
Function = Callable[..., tuple[object, Mapping[str, ArrayLike]]]
"""Called with the parameters by name, a batch and a seed; returns a number and its gradient by every parameter."""


def audit(
    loss_and_gradient: Function,
    parameters: Mapping[str, ArrayLike],
    batches: Sequence[object],
    n_train: int,
    *,
    nll: Function | None = None,
    kl: Function | None = None,
    factors: Sequence[Gaussian] | None = None,
    prior_std: float | None = None,
    n_batches: int | Sized | None = None,
    draws: int = audits.DRAWS,
) -> ElboReport:
    """Audit the loss of a training step, given as a function of its parameters; other arguments as for `audit_torch`.

    - `loss_and_gradient(parameters, batch, seed)` returns the number that a step minimises, and its gradient: an array
      of the parameter's shape for each name. `parameters` has arrays of the types that were given, `batch` is a tuple
      of arrays, and all noise comes from `seed`, a whole number below 2^31.
    - `parameters` are the values to audit at, by name.
    - `batches` are tuples of arrays, rows first, or one array each.
    - `nll` returns the same for -log p(y | x, w) summed over the batch; the same seed gives the weights of the loss.
    - `kl(parameters, seed)` returns the unscaled KL and its gradient.
    - `factors` say which parameters make means and standard deviations: they take names.
    """
    objective = FunctionObjective(loss_and_gradient, parameters, batches, nll, kl)
    return audits.report(audits.apply_rules(case_of(objective, factors, n_train, prior_std, draws, n_batches)))


class FunctionObjective(Objective):
    """A loss as a function of parameters, batch and seed."""

    remedies: Mapping[str, str] = {
        "detached-gradient": "return the gradient of the whole number that is returned beside it",
        "repeated-noise": "draw the noise from the seed that each call gets",
    }

    def __init__(
        self,
        loss: Callable[..., Any],
        parameters: Mapping[str, ArrayLike],
        batches: Sequence[object],
        nll: Callable[..., Any] | None = None,
        kl: Callable[..., Any] | None = None,
    ) -> None:
        """Keep the arguments; raises AuditError if they cannot be audited."""
        if not isinstance(parameters, Mapping) or not parameters:
            given = type(parameters).__name__ if parameters else "nothing"
            raise AuditError(f"parameters are {given}; give a mapping from names to arrays, the trained parameters")
        self._values = {name: _floats(f"parameter '{name}'", value) for name, value in parameters.items()}
        super().__init__({name: value.shape for name, value in self._values.items()}, batches, loss, nll, kl)

    def value(self, name: str) -> Array:
        """Return a copy of a parameter's present value."""
        return self._values[name].astype(np.float64)

    def assign(self, name: str, value: Array) -> None:
        """Give a parameter a value, in the type in which it was given."""
        self._values[name] = np.asarray(value.astype(self._values[name].dtype))

    @cached_property
    def epsilon(self) -> float:
        """Return the rounding of the coarsest of parameters and gradient."""
        given = self._called("loss", self.batches[0], 0, True)[1]
        arrays = [*self._values.values(), *(np.asarray(part) for part in given.values())]
        return max(float(np.finfo(array.dtype).eps) for array in arrays if np.issubdtype(array.dtype, np.floating))

    def _called(self, term: Term, batch: Batch, draw: int, slopes: bool) -> tuple[object, Mapping[str, ArrayLike]]:
        """Return a number and, with `slopes`, its gradient; raises AuditError for anything else."""
        values = {name: value.copy() for name, value in self._values.items()}  # a function may write into its arguments
        found = self.functions[term](values, *(() if term == "kl" else (batch,)), seed_of(draw, bits=SHORT))
        parts = list(found) if isinstance(found, Sequence) else [found]
        if len(parts) != 2 or not isinstance(parts[1], Mapping):
            given = ", ".join(type(part).__name__ for part in parts)
            raise AuditError(f"{term} returned {given}; it must return a number, and its gradient by parameter name")
        return parts[0], parts[1] if slopes else {}

    def _evaluate(self, term: Term, batch: Batch, draw: int, slopes: bool) -> tuple[float, Gradient]:
        number, given = self._called(term, batch, draw, slopes)
        value = _floats(f"the value of {term}", number)
        if value.size != 1:
            raise AuditError(f"the value of {term} has shape {value.shape}; give one number")
        return float(value.reshape(())), self._gradient(term, given) if slopes else {}

    def _gradient(self, term: Term, given: Mapping[str, ArrayLike]) -> Gradient:
        """Return a gradient in float64; raises AuditError for one that does not fit the parameters."""
        for word, names in (("lacks", self.shapes.keys() - given.keys()), ("has", given.keys() - self.shapes.keys())):
            if names:
                shown = ", ".join(sorted(map(str, names)))
                raise AuditError(f"the gradient of {term} {word} {shown}; give one by each of {', '.join(self.shapes)}")
        found: Gradient = {}
        for name, shape in self.shapes.items():
            part = _floats(f"the gradient of {term} by {name}", given[name]).astype(np.float64)
            if part.shape != shape:
                raise AuditError(f"the gradient of {term} by {name} has shape {part.shape}; the parameter has {shape}")
            if not (np.isfinite(part).all() or self._is_moved):
                raise AuditError(f"the gradient of {term} by {name} is not finite; audit where training works")
            found[name] = part
        return found


def _floats(what: str, given: object) -> Floats:
    """Return an array of floating-point numbers; raises AuditError for anything else."""
    try:
        array = np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise AuditError(f"{what} is a {type(given).__name__}, which is no array of numbers: {error}") from error
    if array.dtype.kind in "iu":
        array = array.astype(np.float64)
    if array.dtype.kind != "f":
        raise AuditError(f"{what} has numbers of type {array.dtype}; give NumPy's floating-point numbers")
    return array
