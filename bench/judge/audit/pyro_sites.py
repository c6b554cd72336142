"""Pyro's model and guide as an objective: the estimator's loss, and the sites' likelihood and KL without scales."""

# mypy: disable-error-code="no-untyped-call"
# (Pyro has no types)
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from bench.core.errors import ConfigError, MissingFramework
from bench.judge.audit.objective import Batch, own_noise


class PyroObjective:
    """What an SVI step minimises, and its two parts as the sites have them."""

    def __init__(
        self, model: Callable[..., Any], guide: Callable[..., Any], batches: Sequence[Batch], loss: Any
    ) -> None:
        """Run guide and model once, for the parameters that they use; raises ConfigError for what cannot be audited."""
        try:
            import pyro
            from pyro import poutine
            from pyro.infer import Trace_ELBO
        except ImportError as error:
            raise MissingFramework("audit_pyro needs Pyro: pip install 'bnn-uncertainty-bench[pyro]'") from error
        self._pyro, self._poutine = pyro, poutine
        self.model, self.guide = model, guide
        self.estimator = Trace_ELBO() if loss is None else loss
        _check_estimator(self.estimator)
        if not batches:
            raise ConfigError("no batch was given; give three")
        with own_noise(), torch.no_grad():
            traces = self._traces(*_arguments(batches[0]))
        _check_latents(traces[1])
        self._used = {name for trace in traces for name, site in trace.nodes.items() if site["type"] == "param"}

    def parameters(self) -> list[tuple[str, Tensor]]:
        """Return the unconstrained leaf tensors that model and guide take from Pyro's store, which others share."""
        return [pair for pair in self._pyro.get_param_store().named_parameters() if pair[0] in self._used]

    def values(self) -> Mapping[str, Tensor]:
        """Return the constrained values by name, with their graph to the leaf tensors."""
        store = self._pyro.get_param_store()
        return {name: store[name] for name in store if name in self._used}

    def loss(self, *batch: Any) -> Tensor:
        """Return the estimator's loss of a batch."""
        value: Tensor = self.estimator.differentiable_loss(self.model, self.guide, *batch)
        return value

    def nll(self, *batch: Any) -> Tensor:
        """Return -log p of the observed sites without their scales: of the estimator's particles the mean."""
        n_particles = int(getattr(self.estimator, "num_particles", 1))
        traces = [self._traces(*batch)[1] for _ in range(n_particles)]
        sites = [site for trace in traces for site in _samples(trace) if site["is_observed"]]
        if not sites:
            raise ConfigError("the model observes nothing; give pyro.sample(..., obs=y)")
        return -torch.stack([_log_prob(site) for site in sites]).sum() / n_particles

    def kl_of(self, batch: Batch, draws: int) -> Callable[[], Tensor]:
        """Return the mean over draws of log q - log p of the latent sites, without scales, as a function."""

        def kl() -> Tensor:
            terms = []
            for draw in range(draws):
                with own_noise():
                    torch.manual_seed(draw)
                    guide_trace, model_trace = self._traces(*batch)
                terms += [_log_prob(site) for site in _samples(guide_trace) if not site["is_observed"]]
                terms += [-_log_prob(site) for site in _samples(model_trace) if not site["is_observed"]]
            if not terms:
                raise ConfigError("neither model nor guide has a latent site; there is no KL to audit")
            return torch.stack(terms).sum() / draws

        return kl

    def _traces(self, *batch: Any) -> tuple[Any, Any]:
        guide_trace = self._poutine.trace(self.guide).get_trace(*batch)
        model = self._poutine.replay(self.model, guide_trace)
        return guide_trace, self._poutine.trace(model).get_trace(*batch)


def _check_estimator(estimator: Any) -> None:
    name = getattr(estimator, "__name__", type(estimator).__name__)
    if isinstance(estimator, type) or not hasattr(estimator, "differentiable_loss"):
        given = f"the class {name}" if isinstance(estimator, type) else f"a {name}"
        raise ConfigError(f"loss= is {given}; give an ELBO such as Trace_ELBO()")
    if name == "TraceTailAdaptive_ELBO":  # a surrogate's gradient, and infinity for its value
        raise ConfigError(f"loss= is a {name}, which gives no loss; give Trace_ELBO()")
    if getattr(estimator, "vectorize_particles", False) and getattr(estimator, "num_particles", 1) > 1:
        raise ConfigError(f"loss= is a {name} that draws its particles at once; give vectorize_particles=False")
    if name.startswith("Jit"):  # compiled on the first batch, with that batch's noise and shapes
        raise ConfigError(f"loss= is a {name}, which runs what it once compiled; give {name.removeprefix('Jit')}()")


def _check_latents(trace: Any) -> None:
    """Refuse latent sites of the rows themselves: their KL grows with the batch like the likelihood."""
    plates = {frame.name for site in _samples(trace) if site["is_observed"] for frame in site["cond_indep_stack"]}
    for name, site in trace.nodes.items():
        shared = [frame.name for frame in site.get("cond_indep_stack", ()) if frame.name in plates]
        if site["type"] == "sample" and not site["is_observed"] and shared:
            raise ConfigError(
                f"latent site '{name}' is in the data's plate '{shared[0]}', one for each row as in a VAE; "
                "audit_pyro is for weights that all rows share"
            )


def _arguments(batch: Any) -> Sequence[Any]:
    return batch if isinstance(batch, (tuple, list)) else (batch,)


def _samples(trace: Any) -> Iterator[dict[str, Any]]:
    for site in trace.nodes.values():
        if site["type"] == "sample" and type(site["fn"]).__name__ != "_Subsample":
            yield site


def _log_prob(site: Mapping[str, Any]) -> Tensor:
    value: Tensor = site["fn"].log_prob(site["value"])
    return value.sum()
