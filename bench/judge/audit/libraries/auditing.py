"""Audit an example as its library has it, and with the change that makes it an ELBO."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.judge.audit.elbo import ElboReport
from bench.judge.audit.libraries import functional, layers, post_hoc
from bench.judge.audit.libraries.examples import Example
from bench.judge.audit.libraries.reading import LibraryReading, ObjectiveReading, versions_of
from bench.judge.audit.libraries.setting import seeded

AUDITS: Mapping[str, Callable[[bool], ElboReport | ObjectiveReading]] = {
    "torchbnn": layers.torchbnn,
    "bayesian_torch": layers.bayesian_torch,
    "bayesian_torch, 2 passes": layers.bayesian_torch_passes,
    "blitz": layers.blitz,
    "blitz, 1 sample": layers.blitz_one_sample,
    "torch-uncertainty": layers.torch_uncertainty,
    "posteriors": functional.posteriors,
    "AutoNormal": functional.auto_normal,
    "AutoDiagonalNormal": functional.auto_diagonal_normal,
    "laplace-torch": post_hoc.laplace,
}
"""By example; called with whether the change is made."""


def audit_example(example: Example) -> LibraryReading:
    """Audit an example as published and changed; raises MissingFramework where the library is not installed."""
    found = []
    for corrected in (False, True):
        with seeded():
            one = AUDITS[example.name](corrected)
        found.append(one if isinstance(one, ObjectiveReading) else ObjectiveReading.of(one))
    return LibraryReading(versions_of(example.package, "torch"), *found)
