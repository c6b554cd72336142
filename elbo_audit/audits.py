"""What every audit does once there is an objective: apply each rule, and make the report."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from elbo_audit import gradients, kl, likelihood, sigma
from elbo_audit.findings import Finding, Seen
from elbo_audit.objective import Case
from elbo_audit.report import ElboReport
from elbo_audit.sigma import Training

DRAWS = 8  # number of seeds to average a sampled KL over


@np.errstate(all="ignore")  # a gradient that is no number stays none, and is judged as not measured
def apply_rules(case: Case, training: Training | None = None) -> dict[str, Seen]:
    """Return what each rule sees, in the order of the report."""
    objective = case.objective
    before = objective.first_loss()
    data = likelihood.data_weight(objective, case.draws) if case.has_nll else None
    slope = gradients.detached(objective, data)
    seen = {
        "wrong-likelihood": likelihood.judge(data),
        **kl.judge(case, data, has_slopes=slope.outcome != "fails"),
        "detached-gradient": slope,
        "unused-layer": gradients.unused(objective, case.groups),
    }
    drift = objective.drift(before)
    if drift:  # a changed state also changes the differences that these rules compare
        detail = (
            f"calls with the same batch and noise differ by {drift:.2g}: the loss keeps a state, such as a warm-up's "
            "counter, or draws from a generator of its own; hold that still, such as at the warm-up's end"
        )
        seen = dict.fromkeys(seen, Seen("not measured", detail))
    seen["repeated-noise"] = _repeated_noise(objective.sets_seed())
    seen["sigma-frozen"] = sigma.frozen(case, training)
    seen["pruned-noise"] = sigma.noisy_where_pruned(case)
    return seen


def _repeated_noise(sets_seed: bool | None) -> Seen:
    if sets_seed is None:
        return Seen("not measured", "whether a step draws new noise is not seen in a function that is given its seed")
    if sets_seed:
        return Seen("fails", "the loss sets torch's seed, so that every step draws the same noise")
    return Seen("passes", "the loss does not set torch's seed")


def report(seen: Mapping[str, Seen]) -> ElboReport:
    """Return the report of what the rules saw."""
    return ElboReport(tuple(Finding(rule, "objective", *what) for rule, what in seen.items()))
