"""The audit of a loss in JAX: a function of a tree of arrays, a batch and a key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from elbo_audit import audits
from elbo_audit.errors import AuditError
from elbo_audit.factors import Gaussian
from elbo_audit.findings import ElboReport
from elbo_audit.functions import FunctionObjective
from elbo_audit.names import case_of
from elbo_audit.objective import Batch, Term
from elbo_audit.streams import SHORT, seed_of

Function = Callable[..., Any]  # a number from the tree of parameters, a batch and a key; a KL gets no batch


def audit_jax(
    loss: Function,
    parameters: object,
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
    """Audit the loss of a training step in JAX; the arguments are those of `audit`, but for these.

    - `loss(parameters, batch, key)` is the number that `jax.grad` differentiates; its noise comes from the key. It may
      be jitted. So is `nll`, and `kl(parameters, key)`.
    - `parameters` is the tree of trained arrays. The name of an array is its path, such as `layer1.w_mu`.
    """
    objective = JaxObjective(loss, parameters, batches, nll, kl)
    return audits.report(audits.apply_rules(case_of(objective, factors, n_train, prior_std, draws, n_batches)))


class JaxObjective(FunctionObjective):
    """Losses of JAX, whose gradients JAX computes."""

    remedies: Mapping[str, str] = {
        "detached-gradient": "remove stop_gradient between parameter and loss, or say which estimator needs it",
        "repeated-noise": "draw the noise from the key that each step gets, and split a new key for each step",
    }

    def __init__(
        self,
        loss: Function,
        parameters: object,
        batches: Sequence[object],
        nll: Function | None = None,
        kl: Function | None = None,
    ) -> None:
        """Keep the arguments; raises AuditError if they cannot be audited."""
        leaves, self._tree = jax.tree_util.tree_flatten_with_path(parameters)
        if not leaves:
            raise AuditError("parameters have no array; give the tree that jax.grad differentiates by")
        named = {".".join(map(_word, path)) or "parameter": np.asarray(leaf) for path, leaf in leaves}
        self._are_tuples = bool(batches) and isinstance(batches[0], (tuple, list))
        super().__init__(loss, named, batches, nll, kl)

    def _called(self, term: Term, batch: Batch, draw: int, slopes: bool) -> tuple[object, Mapping[str, ArrayLike]]:
        parts = tuple(jnp.asarray(part) if hasattr(part, "shape") else part for part in batch)
        shown = () if term == "kl" else (parts if self._are_tuples else parts[0],)
        held = jax.tree_util.tree_unflatten(self._tree, [jnp.asarray(value) for value in self._values.values()])
        given, function = (held, *shown, jax.random.PRNGKey(seed_of(draw, bits=SHORT))), self.functions[term]
        if not slopes:
            return np.asarray(function(*given)), {}
        value, gradient = jax.value_and_grad(lambda *given: jnp.reshape(function(*given), ()))(*given)
        by_array = map(np.asarray, jax.tree_util.tree_leaves(gradient))
        return np.asarray(value), dict(zip(self.shapes, by_array, strict=True))


def _word(key: Any) -> str:
    """Return a step of a path in a tree: a key, a field's name or a position."""
    return str(next(getattr(key, word) for word in ("key", "name", "idx") if hasattr(key, word)))
