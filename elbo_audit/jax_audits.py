"""The audits of a loss in JAX, and of model, guide and estimator of NumPyro."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from elbo_audit.audits import DRAWS
from elbo_audit.errors import AuditError, MissingLibrary
from elbo_audit.factors import TRANSFORMS, Array, Gaussian, Transform
from elbo_audit.functions import Function, audit
from elbo_audit.names import gaussians
from elbo_audit.objective import arguments
from elbo_audit.report import ElboReport

if TYPE_CHECKING:
    from elbo_audit.numpyro_sites import NumpyroSites

Named = Mapping[str, Any]  # arrays by the names of parameters
Term = Callable[..., Any]  # a number from the tree of parameters, a batch and a key; a KL gets no batch


def audit_jax(
    loss: Term,
    parameters: object,
    batches: Sequence[object],
    n_train: int,
    *,
    nll: Term | None = None,
    kl: Term | None = None,
    factors: Sequence[Gaussian] | None = None,
    prior_std: float | None = None,
    draws: int = DRAWS,
) -> ElboReport:
    """Audit the loss of a training step in JAX.

    Args:
        loss: `loss(parameters, batch, key)` is the number that `jax.grad` differentiates; its noise comes from the key.
        parameters: the tree of trained arrays. The name of an array is its path, such as `layer1.w_mu`.
        batches: three or more batches of one size; each a tuple of arrays, rows first, or one array.
        n_train: N, rows of the training set.
        nll: `nll(parameters, batch, key)` is -log p(y | x, w) summed over the batch, with the noise of the loss.
        kl: `kl(parameters, key)` is the unscaled KL, for posteriors that are not independent Gaussians.
        factors: which parameters make means and standard deviations; by default paired by their names.
        prior_std: the standard deviation that the prior should have.
        draws: number of seeds to average over.

    Raises:
        AuditError: arguments that do not fit together, or a loss that is not finite.
    """
    paths, tree = jax.tree_util.tree_flatten_with_path(parameters)
    names = [".".join(map(_word, path)) or "parameter" for path, _ in paths]
    is_tuple = bool(batches) and isinstance(batches[0], (tuple, list))

    def function(term: Term) -> Function:
        slopes = jax.value_and_grad(term)

        def of_arrays(values: Named, *rest: Any) -> tuple[object, dict[str, Any]]:
            *batch, seed = rest
            shown = [tuple(map(_as_jax, part)) if is_tuple else _as_jax(part[0]) for part in batch]
            held = jax.tree_util.tree_unflatten(tree, [jnp.asarray(values[name]) for name in names])
            value, gradient = slopes(held, *shown, jax.random.PRNGKey(seed))
            return np.asarray(value), dict(
                zip(names, map(np.asarray, jax.tree_util.tree_leaves(gradient)), strict=True)
            )

        return of_arrays

    return audit(
        function(loss),
        {name: np.asarray(leaf) for name, (_, leaf) in zip(names, paths, strict=True)},
        batches,
        n_train,
        nll=None if nll is None else function(nll),
        kl=None if kl is None else function(kl),
        factors=factors,
        prior_std=prior_std,
        draws=draws,
    )


def _word(key: Any) -> str:
    """Return a step of a path in a tree: a key, a field's name or a position."""
    return str(next(getattr(key, word) for word in ("key", "name", "idx") if hasattr(key, word)))


def _as_jax(part: Any) -> Any:
    return jnp.asarray(part) if hasattr(part, "shape") else part


def audit_numpyro(
    model: Callable[..., Any],
    guide: Callable[..., Any],
    batches: Sequence[object],
    n_train: int,
    *,
    loss: Any = None,
    params: Named | None = None,
    prior_std: float | None = None,
    draws: int = DRAWS,
) -> ElboReport:
    """Audit model, guide and estimator of NumPyro, as a step of SVI on a batch uses them.

    Likelihood and KL are those of the sites, without their scales, as in `audit_pyro`.

    Args:
        model: called with a batch.
        guide: called with a batch.
        batches: three or more batches of one size.
        n_train: N, rows of the training set.
        loss: the estimator, such as TraceMeanField_ELBO(); by default Trace_ELBO().
        params: the values to audit at, as `svi.get_params` returns them; by default those at the start.
        prior_std: the standard deviation that the prior should have; by default that of the model's latent sites.
        draws: number of seeds to average over.

    Raises:
        AuditError: arguments that do not fit together, or a loss that is not finite.
        MissingLibrary: NumPyro is not installed.
    """
    try:
        from elbo_audit import numpyro_sites  # here: JAX alone is enough for `audit_jax`
    except ModuleNotFoundError as error:
        raise MissingLibrary("audit_numpyro needs NumPyro: pip install numpyro") from error
    if not batches:
        raise AuditError("no batch was given; give three")
    sites = numpyro_sites.NumpyroSites(model, guide, arguments(batches[0]), loss, params)
    pairs = [_composed(pair, sites) for pair in gaussians(sites.values(), sites.raw)]
    return audit_jax(
        jax.jit(sites.loss),  # as SVI does
        sites.raw,
        [arguments(batch) for batch in batches],
        n_train,
        nll=jax.jit(sites.nll),
        kl=None if pairs else jax.jit(sites.kl),
        factors=pairs,
        prior_std=sites.prior_std if prior_std is None else prior_std,
        draws=draws,
    )


def _composed(pair: Gaussian, sites: NumpyroSites) -> Gaussian:
    """Return a pair of constrained values as one of the numbers that SVI trains."""
    if np.array_equal(sites.values()[pair.scale], np.asarray(sites.raw[pair.scale])):
        return pair
    outer = TRANSFORMS[pair.transform] if isinstance(pair.transform, str) else pair.transform

    def inner(raw: Array) -> tuple[Array, Array]:
        value, slope = jax.jvp(
            lambda part: sites.constrained(pair.scale, part), (jnp.asarray(raw),), (jnp.ones(raw.shape),)
        )
        return np.asarray(value, np.float64), np.asarray(slope, np.float64)

    def slope(raw: Array) -> Array:
        value, own = inner(raw)
        return outer.slope(value) * own

    return Gaussian(pair.mean, pair.scale, Transform(lambda raw: outer.value(inner(raw)[0]), slope))
