"""The audit of model, guide and estimator of Pyro: the loss of a step, and likelihood and KL of the sites, unscaled."""

# mypy: disable-error-code="no-untyped-call"
# (Pyro has no types)
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.distributions import Distribution, MaskedDistribution
from pyro.distributions.util import scale_and_mask
from pyro.infer import ELBO, Trace_ELBO
from pyro.poutine import Trace
from pyro.poutine.indep_messenger import CondIndepStackFrame
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import Independent, Normal

from elbo_audit import audits
from elbo_audit.errors import AuditError
from elbo_audit.factors import Factor, Gaussian
from elbo_audit.findings import ElboReport, Seen
from elbo_audit.names import case_of, gaussians
from elbo_audit.objective import Batch, arguments
from elbo_audit.streams import generator
from elbo_audit.torch_objective import TorchObjective, as_array, noise_of, own_noise

Program = Callable[..., object]  # a model or guide, called with a batch

_TRANSFORMS: dict[object, Callable[[Tensor], Tensor]] = {  # as in `factors`, with a graph
    "softplus": torch.nn.functional.softplus,
    "exp": torch.exp,
    "exp of half": lambda raw: (raw / 2).exp(),
    "identity": lambda raw: raw,
}


def audit_pyro(
    model: Program,
    guide: Program,
    batches: Sequence[Batch],
    n_train: int,
    *,
    loss: object = None,
    factors: Sequence[Factor | Gaussian] | None = None,
    prior_std: float | None = None,
    n_batches: int | Sized | None = None,
    draws: int = audits.DRAWS,
) -> ElboReport:
    """Audit model, guide and estimator of Pyro, as an SVI step uses them.

    The likelihood comes from the observed sites. The KL comes from the parameters that are paired by name; if there are
    none, it is log q - log p of the latent sites. Scales, as of `poutine.scale`, are left out of both.

    The arguments are those of `audit_torch`, but for these:

    - `model` and `guide` are called with a batch. `loss` is the estimator, by default Trace_ELBO().
    - `factors` are by default those that the names in Pyro's store pair; [] takes the KL from the latent sites.
    - `prior_std` is by default that of the latent sites, if all have one.
    """
    sites = PyroSites(model, guide, batches, loss)
    pairs = sites.pairs() if factors is None else factors
    objective = sites.objective(with_kl=not pairs)
    prior_std = sites.prior_std if prior_std is None else prior_std
    seen = audits.apply_rules(case_of(objective, pairs, n_train, prior_std, draws, n_batches))
    scale, plate = seen["kl-scale"], sites.plate
    if plate and plate.full_size != n_train and scale.outcome != "passes" and not sites.broadcast:
        detail = f"the plate '{plate.name}' has {plate.full_size:,} rows, n_train is {n_train:,}: give both one size"
        seen["kl-scale"] = scale._replace(detail=f"{detail}; {scale.detail}", advised=True)
    if sites.constants:
        names = ", ".join(sites.constants)
        detail = f"the guide's scale of {names} is a constant; make it a pyro.param, constraint=positive"
        seen["sigma-frozen"] = Seen("fails", detail)
    return audits.report(seen)


class _Rows(Messenger):  # type: ignore[misc]  # Pyro has no types
    """Gives a plate that would draw its rows these rows, so that batches differ while the noise is the same."""

    def __init__(self, plate: str, rows: object) -> None:
        super().__init__()
        self.plate, self.rows = plate, rows

    def _pyro_sample(self, msg: dict[str, object]) -> None:
        if msg["name"] == self.plate and msg["value"] is None:
            msg["value"] = self.rows


class PyroSites:
    """The loss that an SVI step minimises, and the likelihood and KL of the sites."""

    def __init__(self, model: Program, guide: Program, batches: Sequence[Batch], loss: object) -> None:
        """Run guide and model once, for the parameters that they use; raises AuditError for what cannot be audited."""
        self.model, self.guide = model, guide
        self.estimator = _checked_estimator(Trace_ELBO() if loss is None else loss)
        self.n_particles = int(getattr(self.estimator, "num_particles", 1))
        if not batches:
            raise AuditError("no batch was given; give three")
        self.batches = [arguments(batch) for batch in batches]
        self._drawn_by = ""  # the plate that draws a step's rows, whose indices are then the first part of each batch
        with own_noise(), torch.enable_grad():
            guided, modelled = traces = self._traces(*self.batches[0])
        self.plate = _subsampling(modelled)
        if hasattr(self.estimator, "max_plate_nesting"):  # TraceEnum_ELBO: its first call guesses the nesting
            with own_noise():
                self.estimator.differentiable_loss(self.model, self.guide, *self.batches[0])
        _check_latents(modelled)
        if self.plate is not None:
            self._let_draw(self.plate)
        self.prior_std, self.broadcast, self.constants = _prior_std(modelled), _broadcast(modelled), _constants(guided)
        self._used = {name for trace in traces for name, site in trace.nodes.items() if site["type"] == "param"}

    def _let_draw(self, plate: CondIndepStackFrame) -> None:
        """Put indices in front of each batch, if a plate draws them and the model picks its rows by them."""
        plain, source = self.batches, generator("rows")
        drawn = [torch.as_tensor(source.permutation(plate.full_size)[: plate.size]) for _ in range(max(len(plain), 3))]
        self.batches = [(rows, *plain[k % len(plain)]) for k, rows in enumerate(drawn)]
        self._drawn_by = plate.name
        values = []
        for rows in drawn[:2]:
            with noise_of(0), torch.no_grad():
                values.append(self.nll(rows, *plain[0]))
        if torch.equal(*values):  # the rows come from the model's arguments
            self.batches, self._drawn_by = plain, ""

    def values(self) -> Mapping[str, Tensor]:
        """Return the constrained values of Pyro's store that model and guide use, with their graph to the leaves."""
        store = pyro.get_param_store()  # other models share it
        return {name: store[name] for name in store if name in self._used}

    def pairs(self) -> list[Factor | Gaussian]:
        """Return the weights by their names in the store, as functions that autograd can follow to the leaf tensors."""
        named = {name: as_array(value) for name, value in self.values().items()}
        trained = {name for name, value in self.values().items() if value.requires_grad}
        found = gaussians(named, trained)  # a scale that is not positive has no constraint: it is its own leaf
        return [pair if pair.other else self._factor(pair) for pair in found]

    def _factor(self, pair: Gaussian) -> Factor:
        transform = _TRANSFORMS[pair.transform]
        mean, std = (lambda: self.values()[pair.mean]), (lambda: transform(self.values()[pair.scale]))
        return Factor(pair.name, mean, std, pair.may_be_layer)

    def objective(self, with_kl: bool) -> TorchObjective:
        """Return the objective; the KL of the latent sites is of the first batch."""
        kl = partial(self.kl, *self.batches[0]) if with_kl else None
        leaves = [pair for pair in pyro.get_param_store().named_parameters() if pair[0] in self._used]
        found = TorchObjective(self.loss, leaves, self.batches, self.nll, kl)
        found.batch_size = self.plate.size if self.plate else found.batch_size
        found.is_divisible = self.plate is None
        found.broadcast = self.broadcast
        found.plates = ("pyro.plate", "poutine.scale")
        found.other_kl = "factors=[], which takes the KL from the latent sites"
        return found

    def loss(self, *batch: object) -> Tensor:
        """Return the estimator's loss of a batch."""
        rows, given = self._split(batch)
        with rows:
            value: Tensor = self.estimator.differentiable_loss(self.model, self.guide, *given)
        return value

    def nll(self, *batch: object) -> Tensor:
        """Return -log p of the observed sites without their scales, the mean over the estimator's particles."""
        without = "the model observes nothing; give pyro.sample(..., obs=y)"
        return self._mean(batch, lambda _, model: [-term for term in _log_probs(model, True)], without)

    def kl(self, *batch: object) -> Tensor:
        """Return the latent sites' log q - log p without scales, the mean over the estimator's particles."""
        without = "neither model nor guide has a latent site; there is no KL to audit"

        def terms(guide: Trace, model: Trace) -> list[Tensor]:
            return _log_probs(guide, False) + [-term for term in _log_probs(model, False)]

        return self._mean(batch, terms, without)

    def _mean(self, batch: Batch, terms_of: Callable[[Trace, Trace], list[Tensor]], without: str) -> Tensor:
        """Return the sum of terms, as the mean over particles; raises AuditError `without` any."""
        terms = [term for _ in range(self.n_particles) for term in terms_of(*self._traces(*batch))]
        if not terms:
            raise AuditError(without)
        return torch.stack(terms).sum() / self.n_particles

    def _traces(self, *batch: object) -> tuple[Trace, Trace]:
        """Return the traces of the guide and of the model on a batch."""
        rows, given = self._split(batch)
        with rows:
            guide = poutine.trace(self.guide).get_trace(*given)
            return guide, poutine.trace(poutine.replay(self.model, guide)).get_trace(*given)

    def _split(self, batch: Batch) -> tuple[AbstractContextManager[object], Batch]:
        """Return a context in which the plate has the batch's rows, and the arguments of model and guide."""
        return (_Rows(self._drawn_by, batch[0]), batch[1:]) if self._drawn_by else (nullcontext(), batch)


def _checked_estimator(given: object) -> ELBO:
    """Return an estimator whose loss can be audited; raises AuditError for any other object."""
    name, is_class = getattr(given, "__name__", type(given).__name__), isinstance(given, type)
    many = getattr(given, "vectorize_particles", False) and getattr(given, "num_particles", 1) > 1
    for is_refused, why in (
        (is_class or not hasattr(given, "differentiable_loss"), "; give an ELBO such as Trace_ELBO()"),
        (name == "TraceTailAdaptive_ELBO", ", which gives no loss; give Trace_ELBO()"),  # its value is infinite
        (many, " that draws its particles at once; give vectorize_particles=False"),
        # it is compiled on the first batch, with the noise and shapes of that batch
        (name.startswith("Jit"), f", which runs what it once compiled; give {name.removeprefix('Jit')}()"),
    ):
        if is_refused:
            raise AuditError(f"loss= is {'the class' if is_class else 'a'} {name}{why}")
    return given


def _check_latents(trace: Trace) -> None:
    """Refuse latent sites of single rows: their KL grows with the batch like the likelihood."""
    plates = {frame.name for site in _sites(trace, True).values() for frame in site["cond_indep_stack"]}
    for name, site in _sites(trace, False).items():
        shared = [frame.name for frame in site["cond_indep_stack"] if frame.name in plates]
        if shared:
            raise AuditError(
                f"latent site '{name}' is in the data's plate '{shared[0]}', one for each row as in a VAE; "
                "audit_pyro is for weights that all rows share"
            )


def _sites(trace: Trace, are_observed: bool) -> dict[str, dict[str, Any]]:
    """Return the observed sites, or the latent ones, without those at which plates draw their rows."""
    sites = {name: site for name, site in trace.nodes.items() if site["type"] == "sample"}
    return {
        name: site
        for name, site in sites.items()
        if site["is_observed"] == are_observed and type(site["fn"]).__name__ != "_Subsample"
    }


def _subsampling(trace: Trace) -> CondIndepStackFrame | None:
    """Return the plate of the observed sites that has some of its rows only; None without one."""
    frames = [frame for site in _sites(trace, True).values() for frame in site["cond_indep_stack"]]
    found = {frame.name: frame for frame in frames if frame.full_size is not None and frame.size < frame.full_size}
    if len(found) > 1:
        shown = ", ".join(f"'{name}'" for name in found)
        raise AuditError(f"the observed sites are in {len(found)} plates that subsample, {shown}; audit one at a time")
    return next(iter(found.values()), None)


def _broadcast(trace: Trace) -> str:
    """Say at which observed site log_prob has more terms than there are numbers, since two shapes broadcast."""
    for name, site in _sites(trace, True).items():
        fn, value = site["fn"], site["value"]
        while isinstance(fn, (Independent, MaskedDistribution)):
            fn = fn.base_dist
        n_terms = fn.log_prob(value).numel() * math.prod(fn.event_shape)
        if n_terms > value.numel() > 1:  # one number may be meant for all rows, such as a residual of 0
            shapes = f"{tuple(fn.batch_shape + fn.event_shape)} and {tuple(value.shape)}"
            return (
                f"at site '{name}' prediction and obs= have shapes {shapes}, which broadcast: log_prob has {n_terms:,} "
                f"terms for {value.numel():,} numbers, so that each number counts for several predictions; give both "
                "one shape"
            )
    return ""


def _prior_std(trace: Trace) -> float | None:
    """Return the standard deviation of the latent sites' prior, if all are Gaussians around 0 with the same one."""
    priors = [_gaussian(site["fn"]) for site in _sites(trace, False).values()]
    stds = {std for prior in priors if prior is not None for std in prior.scale.detach().unique().tolist()}
    is_known = all(prior is not None and not bool(prior.loc.any()) for prior in priors)
    return stds.pop() if is_known and len(stds) == 1 else None


def _constants(guide: Trace) -> list[str]:
    """Return the guide's Gaussian sites whose mean can be trained and whose scale cannot."""
    found = [(name, _gaussian(site["fn"])) for name, site in guide.nodes.items() if site["type"] == "sample"]
    return [name for name, q in found if q is not None and q.loc.requires_grad and not q.scale.requires_grad]


def _gaussian(fn: Distribution) -> Normal | None:
    """Return the Gaussian of a site, within `to_event`; None for any other distribution."""
    while isinstance(fn, Independent):
        fn = fn.base_dist
    return fn if isinstance(fn, Normal) else None


def _log_probs(trace: Trace, are_observed: bool) -> list[Tensor]:
    """Return log p of each observed site, or of each latent one, with its mask and without its scale."""
    sites = _sites(trace, are_observed).values()
    return [scale_and_mask(site["fn"].log_prob(site["value"]), 1.0, site["mask"]).sum() for site in sites]
