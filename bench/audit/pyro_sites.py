"""Pyro's model and guide as an objective: the estimator's loss, and the sites' likelihood and KL without scales."""

# mypy: disable-error-code="no-untyped-call"
# (Pyro has no types)
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from bench.audit.objective import Batch, own_noise
from bench.errors import ConfigError, MissingFramework


class PyroObjective:
    """What an SVI step minimises, and its two parts as the sites have them."""

    def __init__(
        self, model: Callable[..., Any], guide: Callable[..., Any], batches: Sequence[Batch], loss: Any
    ) -> None:
        """Run the guide once, so that its parameters are in Pyro's store."""
        try:
            import pyro
            from pyro import poutine
            from pyro.infer import Trace_ELBO
        except ImportError as error:
            raise MissingFramework("audit_pyro needs Pyro: pip install 'bnn-uncertainty-bench[pyro]'") from error
        self._pyro, self._poutine = pyro, poutine
        self.model, self.guide = model, guide
        self.estimator = Trace_ELBO() if loss is None else loss
        if not hasattr(self.estimator, "differentiable_loss"):
            raise ConfigError(f"loss= is a {type(self.estimator).__name__}; give an ELBO such as Trace_ELBO()")
        if not batches:
            raise ConfigError("no batch was given; give three")
        with own_noise(), torch.no_grad():
            self._traces(*batches[0])

    def parameters(self) -> list[tuple[str, Tensor]]:
        """Return the unconstrained leaf tensors of Pyro's store."""
        return list(self._pyro.get_param_store().named_parameters())

    def values(self) -> Mapping[str, Tensor]:
        """Return the constrained values by name, with their graph to the leaf tensors."""
        store = self._pyro.get_param_store()
        return {name: store[name] for name in store}

    def loss(self, *batch: Any) -> Tensor:
        """Return the estimator's loss of a batch."""
        value: Tensor = self.estimator.differentiable_loss(self.model, self.guide, *batch)
        return value

    def nll(self, *batch: Any) -> Tensor:
        """Return -log p of the observed sites, with their draws but without their scales."""
        _, model_trace = self._traces(*batch)
        sites = [site for site in _samples(model_trace) if site["is_observed"]]
        if not sites:
            raise ConfigError("the model observes nothing; give pyro.sample(..., obs=y)")
        return -torch.stack([_log_prob(site) for site in sites]).sum()

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


def _samples(trace: Any) -> Iterator[dict[str, Any]]:
    for site in trace.nodes.values():
        if site["type"] == "sample" and type(site["fn"]).__name__ != "_Subsample":
            yield site


def _log_prob(site: Mapping[str, Any]) -> Tensor:
    value: Tensor = site["fn"].log_prob(site["value"])
    return value.sum()
