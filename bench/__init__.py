"""bnn-uncertainty-bench: do the published numbers of Bayesian neural networks on MNIST hold?

For notebooks and approaches of one's own: the names in `__all__`, see docs/your-approach.md. They are imported when
they are first asked for, so that `import bench` itself costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from bench.core.project import VERSION

if TYPE_CHECKING:
    from bench.api import distance, evaluate, figure, fit, predict, records, table, task_rows
    from bench.posterior.scoring import score
    from bench.run.own import ModuleApproach, NetworkPosterior, load_state, loader, row_dropout, seeded, state_of
    from elbo_audit import audit_pyro, audit_torch

__version__ = VERSION
__all__ = [
    "ModuleApproach", "NetworkPosterior", "audit_pyro", "audit_torch", "distance", "evaluate", "figure", "fit",
    "load_state", "loader", "predict", "records", "row_dropout", "score", "seeded", "state_of", "table", "task_rows",
]  # fmt: skip

_MODULES = {
    **dict.fromkeys(__all__, "bench.run.own"),
    **dict.fromkeys(("distance", "evaluate", "figure", "fit", "predict", "records", "table", "task_rows"), "bench.api"),
    "score": "bench.posterior.scoring",
    **dict.fromkeys(("audit_pyro", "audit_torch"), "elbo_audit"),
}


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'bench' has no attribute '{name}'")
    return getattr(importlib.import_module(_MODULES[name]), name)
