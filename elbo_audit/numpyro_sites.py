"""The audit of model, guide and estimator of NumPyro: loss, likelihood and KL of the numbers that SVI trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers, optim
from numpyro.distributions import Normal
from numpyro.infer import SVI, Trace_ELBO

from elbo_audit import audits
from elbo_audit.errors import AuditError
from elbo_audit.factors import TRANSFORMS, Array, Gaussian, Transform
from elbo_audit.findings import ElboReport
from elbo_audit.jax_audits import JaxObjective
from elbo_audit.names import case_of, gaussians
from elbo_audit.objective import Batch, arguments

Named = Mapping[str, Any]  # arrays by the names of parameters
Sites = Mapping[str, Any]  # a trace: sites by name
Program = Callable[..., Any]  # a model or guide, called with a batch


def audit_numpyro(
    model: Program,
    guide: Program,
    batches: Sequence[object],
    n_train: int,
    *,
    loss: Any = None,
    params: Named | None = None,
    prior_std: float | None = None,
    n_batches: int | Sized | None = None,
    draws: int = audits.DRAWS,
) -> ElboReport:
    """Audit model, guide and estimator of NumPyro, as a step of SVI uses them; arguments are as in `audit_pyro`.

    `params` are the values to audit at, as `svi.get_params` returns them; by default those at the start.
    """
    if not batches:
        raise AuditError("no batch was given; give three")
    given = [arguments(batch) for batch in batches]
    sites = NumpyroSites(model, guide, given[0], loss, params)
    pairs = [sites.pair(pair) for pair in gaussians(sites.values(), sites.raw)]
    kl = None if pairs else jax.jit(sites.kl)
    objective = JaxObjective(jax.jit(sites.loss), sites.raw, given, jax.jit(sites.nll), kl)  # jitted, as SVI does
    objective.plates = ("numpyro.plate", "handlers.scale")
    prior_std = sites.prior_std if prior_std is None else prior_std
    return audits.report(audits.apply_rules(case_of(objective, pairs, n_train, prior_std, draws, n_batches)))


class NumpyroSites:
    """The loss that a step of SVI minimises, and likelihood and KL of the sites without their scales."""

    def __init__(self, model: Program, guide: Program, batch: Batch, loss: Any, params: Named | None) -> None:
        """Start SVI on a batch, for the parameters; raises AuditError for an estimator that cannot be audited."""
        if isinstance(loss, type) or (loss is not None and not hasattr(loss, "loss")):
            raise AuditError(f"loss= is {loss!r}; give an ELBO such as numpyro.infer.Trace_ELBO()")
        self.model, self.guide, self._batch = model, guide, batch
        self.estimator = Trace_ELBO() if loss is None else loss
        self._particles = int(getattr(self.estimator, "num_particles", 1))
        self._svi = SVI(model, guide, optim.SGD(1.0), self.estimator)
        state = self._svi.init(jax.random.PRNGKey(0), *batch, init_params=params)
        self.raw: dict[str, Any] = self._svi.optim.get_params(state.optim_state)

    @property
    def prior_std(self) -> float | None:
        """Return the standard deviation of the latent sites' prior, if all are Gaussians around 0 with the same one."""
        _, model = next(self._traces(self.raw, self._batch, jax.random.PRNGKey(0)))
        stds = {std for site in _sites(model, False) for std in _stds(site["fn"])}
        return stds.pop() if len(stds) == 1 else None

    def constrained(self, name: str, raw: Any) -> Any:
        """Return the value of a parameter from the unconstrained number that is trained."""
        return self._svi.constrain_fn({name: raw})[name]

    def values(self) -> dict[str, Array]:
        """Return the constrained values by name."""
        return {name: np.asarray(self.constrained(name, raw), np.float64) for name, raw in self.raw.items()}

    def pair(self, pair: Gaussian) -> Gaussian:
        """Return a pair of constrained values as one of the numbers that SVI trains."""
        if np.array_equal(self.values()[pair.scale], np.asarray(self.raw[pair.scale])):
            return pair
        outer = TRANSFORMS[pair.transform] if isinstance(pair.transform, str) else pair.transform

        def inner(raw: Array) -> Array:
            """Return the constrained value and its derivative."""
            at, along = jnp.asarray(raw), jnp.ones(raw.shape)
            return np.asarray(jax.jvp(lambda part: self.constrained(pair.scale, part), (at,), (along,)), np.float64)

        def slope(raw: Array) -> Array:
            value, own = inner(raw)
            return np.asarray(outer.slope(value) * own)

        return Gaussian(pair.mean, pair.scale, Transform(lambda raw: outer.value(inner(raw)[0]), slope))

    def loss(self, raw: Named, batch: Batch, key: Any) -> Any:
        """Return the estimator's loss of a batch."""
        return self.estimator.loss(key, self._svi.constrain_fn(raw), self.model, self.guide, *batch)

    def nll(self, raw: Named, batch: Batch, key: Any) -> Any:
        """Return -log p of the observed sites, the mean over the estimator's particles, with the loss's noise."""
        return -sum(_log_p(model, True) for _, model in self._traces(raw, batch, key)) / self._particles

    def kl(self, raw: Named, key: Any) -> Any:
        """Return the latent sites' log q - log p, the mean over the particles."""
        pairs = self._traces(raw, self._batch, key)
        return sum(_log_p(guide, False) - _log_p(model, False) for guide, model in pairs) / self._particles

    def _traces(self, raw: Named, batch: Batch, key: Any) -> Iterator[tuple[Sites, Sites]]:
        """Yield the traces of guide and model for each particle, with keys as NumPyro's estimators split them."""
        held = self._svi.constrain_fn(raw)
        for particle in jax.random.split(key, self._particles) if self._particles > 1 else [key]:
            model_key, guide_key = jax.random.split(particle)
            guide = handlers.trace(handlers.substitute(handlers.seed(self.guide, guide_key), held)).get_trace(*batch)
            model = handlers.substitute(handlers.replay(handlers.seed(self.model, model_key), guide), held)
            yield guide, handlers.trace(model).get_trace(*batch)


def _sites(trace: Sites, are_observed: bool) -> list[Any]:
    """Return the observed sites, or the latent ones."""
    return [site for site in trace.values() if site["type"] == "sample" and site["is_observed"] == are_observed]


def _stds(fn: Any) -> set[float | None]:
    """Return the standard deviations of a Gaussian around 0; {None} for any other distribution."""
    while hasattr(fn, "base_dist"):
        fn = fn.base_dist
    is_normal = isinstance(fn, Normal) and not np.any(np.asarray(fn.loc))
    return {float(std) for std in np.unique(np.asarray(fn.scale))} if is_normal else {None}


def _log_p(trace: Sites, are_observed: bool) -> Any:
    """Return the sum of log p over the observed sites, or over the latent ones."""
    chosen = _sites(trace, are_observed)
    if not chosen and are_observed:
        raise AuditError("the model observes nothing; give numpyro.sample(..., obs=y)")
    return sum((site["fn"].log_prob(site["value"]).sum() for site in chosen), 0.0)
