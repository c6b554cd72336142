"""The audits of the examples in TensorFlow and JAX, which need NumPy, msgspec and their framework alone."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from typing import cast

from bench.judge.audit.libraries.audited import LibraryAudit, ObjectiveAudit
from bench.judge.audit.libraries.examples import Example
from bench.judge.audit.libraries.foreign import ForeignObjective, Rows, nuts
from bench.judge.audit.libraries.tensorflow_objectives import TENSORFLOW, Network
from elbo_audit.findings import ElboReport

FOREIGN: Mapping[str, Callable[[bool], ForeignObjective]] = {**TENSORFLOW, "NUTS": nuts}
"""By the example's name. Each is called with True for the objective with the change."""


def audit_foreign(example: Example) -> LibraryAudit:
    """Audit an example as published and changed; raises MissingLibrary where its framework is not installed."""
    audit, framework = (_in_jax, "jax") if example.library == "numpyro" else (_in_tensorflow, "tensorflow")
    whether_changed = (False,) if example.change.startswith("none needed") else (False, True)
    found = [ObjectiveAudit.of(audit(FOREIGN[example.name](changed), example.n_train)) for changed in whether_changed]
    versions = {name: importlib.metadata.version(name) for name in (example.package, framework)}
    return LibraryAudit(versions, found[0], found[-1])


def _in_tensorflow(objective: ForeignObjective, n_train: int) -> ElboReport:
    from elbo_audit import audit_tensorflow  # here: it imports TensorFlow

    model, kl = cast(Network, objective.parameters), objective.kl

    def loss(x: Rows, y: Rows) -> object:
        return objective.loss(model, x, y)

    def nll(x: Rows, y: Rows) -> object:
        return objective.nll(model, x, y)

    return audit_tensorflow(
        loss,
        model.trainable_variables,
        objective.batches,
        n_train,
        nll=nll,
        kl=None if kl is None else lambda: kl(model),
        model=model,
    )


def _in_jax(objective: ForeignObjective, n_train: int) -> ElboReport:
    from elbo_audit import audit_jax  # here: it imports JAX

    kl = objective.kl
    return audit_jax(
        lambda weights, batch, _: objective.loss(weights, *batch),
        objective.parameters,
        objective.batches,
        n_train,
        nll=lambda weights, batch, _: objective.nll(weights, *batch),
        kl=None if kl is None else lambda weights, _: kl(weights),
    )
