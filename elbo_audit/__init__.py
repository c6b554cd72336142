"""Audit the objective of a Bayesian network, numerically, in PyTorch, Pyro, JAX, NumPyro, TensorFlow or anything else.

    import elbo_audit
    report = elbo_audit.audit_torch(loss, model.named_parameters(), batches, n_train=60_000, nll=nll)
    print(report)

docs/elbo-audit.md describes the audits and their limits. Bad arguments raise AuditError. Each file has one question:

    likelihood   how often does the loss count the data, and what other terms does it have?
    kl           how often does an epoch count the KL of each tensor, with which sign, and how wide is the prior?
    gradients    is the gradient the slope of the loss, and do the data influence every parameter?
    sigma        can training change sigma, does the optimiser decay it, and is it zero where the mean was pruned?
    rows         does each row count once?
    predictions  which mean of the draws is a reported prediction, and do two calls agree?

`own_kl` measures a KL that the user gives, `prior` judges the prior, `lines` finds the line to change. `rules` lists
the mistakes, and `findings` has what an audit returns. These are the core, on float64 arrays. They see an objective
through `objective.Objective`, which adapters implement: `functions` (and on it `jax_audits`), `torch_objective` and
`tensorflow_audits`; `pyro_sites` and `numpyro_sites` read model and guide. A framework is imported when one asks for
its audit.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from elbo_audit.errors import AuditError, MissingLibrary
from elbo_audit.findings import ElboReport

if TYPE_CHECKING:
    from elbo_audit.factors import Factor, Gaussian
    from elbo_audit.functions import audit
    from elbo_audit.jax_audits import audit_jax
    from elbo_audit.numpyro_sites import audit_numpyro
    from elbo_audit.predictions import audit_prediction, entropy_of
    from elbo_audit.pyro_sites import audit_pyro
    from elbo_audit.tensorflow_audits import audit_tensorflow
    from elbo_audit.torch_audits import audit_torch

__all__ = [
    "AuditError", "ElboReport", "Factor", "Gaussian", "MissingLibrary", "audit", "audit_jax", "audit_numpyro",
    "audit_prediction", "audit_pyro", "audit_tensorflow", "audit_torch", "entropy_of",
]  # fmt: skip

_MODULES = {
    "Factor": "factors",
    "Gaussian": "factors",
    "audit": "functions",
    "audit_jax": "jax_audits",
    "audit_numpyro": "numpyro_sites",
    "audit_prediction": "predictions",
    "audit_pyro": "pyro_sites",
    "audit_tensorflow": "tensorflow_audits",
    "audit_torch": "torch_audits",
    "entropy_of": "predictions",
}
_PACKAGES = {"torch": "torch", "pyro": "pyro-ppl", "jax": "jax", "numpyro": "numpyro", "tensorflow": "tensorflow"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'elbo_audit' has no attribute '{name}'")
    try:
        return getattr(importlib.import_module(f"elbo_audit.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        return _without(name, error.name)


def _without(name: str, library: str) -> Callable[..., object]:
    """Return what stands for an audit whose framework is not installed: all names can be imported without it."""

    def refuse(*_: object, **__: object) -> object:
        raise MissingLibrary(f"{name} needs {library}: pip install {_PACKAGES[library]}")

    return refuse
