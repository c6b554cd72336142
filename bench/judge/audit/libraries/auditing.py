"""Audit an example as its library has it, and with the change that makes it an ELBO."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from functools import partial

from bench.judge.audit.elbo import ElboReport
from bench.judge.audit.libraries import functional, layers
from bench.judge.audit.libraries.examples import Example
from bench.judge.audit.libraries.reading import LibraryReading, ObjectiveReading
from bench.judge.audit.libraries.setting import seeded

AUDITS: Mapping[str, Callable[[bool], ElboReport | ObjectiveReading]] = {
    "torchbnn": layers.torchbnn,
    "bayesian_torch": partial(layers.bayesian_torch, passes=1),
    "bayesian_torch, 2 passes": partial(layers.bayesian_torch, passes=2),
    "blitz": partial(layers.blitz, passes=3),
    "blitz, 1 sample": partial(layers.blitz, passes=1),
    "torch-uncertainty": layers.torch_uncertainty,
    "posteriors": functional.posteriors,
    "AutoNormal": partial(functional.automatic_guide, name="AutoNormal"),
    "AutoDiagonalNormal": partial(functional.automatic_guide, name="AutoDiagonalNormal"),
    "laplace-torch": functional.laplace,
}
"""By example; called with whether the change is made."""


def audit_example(example: Example) -> LibraryReading:
    """Audit an example as published and changed; raises MissingFramework where the library is not installed."""
    found = []
    for corrected in (False, True):
        with seeded():
            one = AUDITS[example.name](corrected)
        found.append(one if isinstance(one, ObjectiveReading) else ObjectiveReading.of(one))
    versions = {name: importlib.metadata.version(name) for name in (example.package, "torch")}
    return LibraryReading(versions, *found)
