"""An objective of Pyro: the estimator's loss, and likelihood and KL from the sites of model and guide, unscaled."""

# mypy: disable-error-code="no-untyped-call"
# (Pyro has no types)
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyro
import torch
from pyro import poutine
from pyro.distributions import Distribution
from pyro.infer import ELBO, Trace_ELBO
from pyro.poutine import Trace
from torch import Tensor
from torch.distributions import Independent, Normal

from elbo_audit.errors import AuditError
from elbo_audit.factors import Factor, Gaussian
from elbo_audit.noise import own_noise
from elbo_audit.objective import Batch, arguments
from elbo_audit.torch_objective import TorchObjective

Program = Callable[..., object]  # a model or guide, called with a batch

_TRANSFORMS: dict[object, Callable[[Tensor], Tensor]] = {  # as in `factors`, with a graph
    "softplus": torch.nn.functional.softplus,
    "exp": torch.exp,
    "exp of half": lambda raw: (raw / 2).exp(),
    "identity": lambda raw: raw,
}


class PyroSites:
    """The loss that an SVI step minimises, and the likelihood and KL of the sites."""

    def __init__(self, model: Program, guide: Program, batches: Sequence[Batch], loss: object) -> None:
        """Run guide and model once, for the parameters that they use; raises AuditError for what cannot be audited."""
        self.model, self.guide = model, guide
        self.estimator = _checked_estimator(Trace_ELBO() if loss is None else loss)
        self.n_particles = int(getattr(self.estimator, "num_particles", 1))
        if not batches:
            raise AuditError("no batch was given; give three")
        with own_noise(), torch.no_grad():
            traces = self._traces(*arguments(batches[0]))
        _check_latents(traces[1])
        self._used = {name for trace in traces for name, site in trace.nodes.items() if site["type"] == "param"}

    def parameters(self) -> list[tuple[str, Tensor]]:
        """Return the unconstrained leaf tensors of Pyro's store that model and guide use; other models share it."""
        return [pair for pair in pyro.get_param_store().named_parameters() if pair[0] in self._used]

    def values(self) -> Mapping[str, Tensor]:
        """Return the constrained values by name, with their graph to the leaf tensors."""
        store = pyro.get_param_store()
        return {name: store[name] for name in store if name in self._used}

    def factor(self, pair: Gaussian) -> Factor:
        """Return a pair of constrained values as functions that autograd can follow to the leaf tensors."""
        transform = _TRANSFORMS[pair.transform]
        return Factor(
            pair.name,
            lambda: self.values()[pair.mean],
            lambda: transform(self.values()[pair.scale]),
            pair.may_be_layer,
        )

    def objective(self, batches: Sequence[Batch], with_kl: bool) -> TorchObjective:
        """Return the objective on these batches; the KL of the latent sites is of the first."""
        kl = partial(self.kl, *arguments(batches[0])) if with_kl else None
        return TorchObjective(self.loss, self.parameters(), batches, self.nll, kl)

    def loss(self, *batch: object) -> Tensor:
        """Return the estimator's loss of a batch."""
        value: Tensor = self.estimator.differentiable_loss(self.model, self.guide, *batch)
        return value

    def nll(self, *batch: object) -> Tensor:
        """Return -log p of the observed sites without their scales, the mean over the estimator's particles."""
        models = [self._traces(*batch)[1] for _ in range(self.n_particles)]
        terms = [-term for model in models for term in _log_probs(model, are_observed=True)]
        return self._mean(terms, "the model observes nothing; give pyro.sample(..., obs=y)")

    def kl(self, *batch: object) -> Tensor:
        """Return the latent sites' log q - log p without scales, the mean over the estimator's particles."""
        terms = []
        for _ in range(self.n_particles):
            guide, model = self._traces(*batch)
            terms += _log_probs(guide, are_observed=False)
            terms += [-term for term in _log_probs(model, are_observed=False)]
        return self._mean(terms, "neither model nor guide has a latent site; there is no KL to audit")

    def _mean(self, terms: list[Tensor], without: str) -> Tensor:
        """Return the sum of terms, as the mean over particles; raises AuditError `without` any."""
        if not terms:
            raise AuditError(without)
        return torch.stack(terms).sum() / self.n_particles

    def constant_scales(self, *batch: object) -> list[str]:
        """Return the guide's Gaussian sites whose mean can be trained and whose scale cannot."""
        with own_noise(), torch.enable_grad():
            sites = self._traces(*batch)[0].nodes.items()
        found = [(name, _gaussian(site["fn"])) for name, site in sites if site["type"] == "sample"]
        return [name for name, q in found if q is not None and q.loc.requires_grad and not q.scale.requires_grad]

    def _traces(self, *batch: object) -> tuple[Trace, Trace]:
        """Return the traces of the guide and of the model on a batch."""
        guide = poutine.trace(self.guide).get_trace(*batch)
        return guide, poutine.trace(poutine.replay(self.model, guide)).get_trace(*batch)


def _checked_estimator(given: object) -> ELBO:
    """Return an estimator whose loss can be audited; raises AuditError for any other object."""
    name = getattr(given, "__name__", type(given).__name__)
    if isinstance(given, type) or not hasattr(given, "differentiable_loss"):
        raise AuditError(
            f"loss= is {'the class' if isinstance(given, type) else 'a'} {name}; give an ELBO such as Trace_ELBO()"
        )
    if name == "TraceTailAdaptive_ELBO":  # it has a gradient, but its value is infinite
        raise AuditError(f"loss= is a {name}, which gives no loss; give Trace_ELBO()")
    if getattr(given, "vectorize_particles", False) and getattr(given, "num_particles", 1) > 1:
        raise AuditError(f"loss= is a {name} that draws its particles at once; give vectorize_particles=False")
    if name.startswith("Jit"):  # it is compiled on the first batch, with the noise and shapes of that batch
        raise AuditError(f"loss= is a {name}, which runs what it once compiled; give {name.removeprefix('Jit')}()")
    return given


def _check_latents(trace: Trace) -> None:
    """Refuse latent sites of single rows: their KL grows with the batch like the likelihood."""
    sites = {name: site for name, site in trace.nodes.items() if site["type"] == "sample"}
    plates = {frame.name for site in sites.values() if site["is_observed"] for frame in site["cond_indep_stack"]}
    for name, site in sites.items():
        shared = [frame.name for frame in site["cond_indep_stack"] if frame.name in plates]
        if shared and not site["is_observed"]:
            raise AuditError(
                f"latent site '{name}' is in the data's plate '{shared[0]}', one for each row as in a VAE; "
                "audit_pyro is for weights that all rows share"
            )


def _gaussian(fn: Distribution) -> Normal | None:
    """Return the Gaussian of a site, within `to_event`; None for any other distribution."""
    while isinstance(fn, Independent):
        fn = fn.base_dist
    return fn if isinstance(fn, Normal) else None


def _log_probs(trace: Trace, are_observed: bool) -> list[Tensor]:
    """Return log p of each observed site, or of each latent one, without its scale."""
    sites = [site for site in trace.nodes.values() if site["type"] == "sample"]
    sites = [site for site in sites if type(site["fn"]).__name__ != "_Subsample"]
    return [site["fn"].log_prob(site["value"]).sum() for site in sites if site["is_observed"] == are_observed]
