"""What every audit does once there is an objective: apply each rule, and make the report."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from elbo_audit import gradients, kl, likelihood, no_nll, rows, sigma
from elbo_audit.factors import Group, same_ratio
from elbo_audit.findings import Advice, ElboReport, Finding, Seen
from elbo_audit.objective import Case, Objective
from elbo_audit.sigma import Training

DRAWS = 8  # number of seeds to average a sampled KL over
_KL = r"(?<![a-z])(?:kl|kld|kl_\w+|\w+_kl|complexity\w*|log_q\w*)(?![a-z])"
_NAMED = re.compile(rf"(?i){_KL}")
_WEIGHED = re.compile(rf"(?i)[-+*/]=?\s*\(*[\w.]*{_KL}|{_KL}[\w.()\[\]]*\s*[-+*/]")  # added, or multiplied
_SAID = re.compile(r"""#.*|(["']).*?\1""")  # comments, and text


@np.errstate(all="ignore")  # a gradient that is no number stays none, and is judged as not measured
def apply_rules(case: Case, training: Training | None = None) -> dict[str, Seen]:
    """Return what each rule sees, in the order of the report."""
    objective = case.objective
    if case.has_nll and objective.plates and objective.is_divisible:  # of sites
        objective.mean_of = no_nll.mean_of_sites(case)
    broadcast = objective.broadcast or (rows.check(objective, case.draws) if objective.is_divisible else "")
    broadcast = broadcast or rows.pairs_all(objective, case.draws)
    before = objective.first_loss()
    data = likelihood.data_weight(objective, case.draws) if case.has_nll else None
    slope = gradients.detached(objective, data)
    seen = {
        "wrong-likelihood": likelihood.judge(objective, data),
        **kl.judge(case, data, has_slopes=slope.outcome != "fails"),
        "detached-gradient": slope,
        "unused-layer": gradients.unused(objective, case.groups),
    }
    if broadcast:
        hidden = Seen("not measured", "rows broadcast (wrong-likelihood), which hides the KL; mend that first")
        seen |= dict.fromkeys(kl.RULES, hidden)
        seen["wrong-likelihood"] = Seen("fails", broadcast, advised=True, advice=Advice("rows", "likelihood"))
    elif objective.mean_of:
        whole = seen["wrong-likelihood"]
        share = f"the sites hold {objective.mean_of:.4g} times the rows' mean of log p, where N is right"
        seen["wrong-likelihood"] = whole._replace(detail=f"{whole.detail}; {share}")
    scale = seen["kl-scale"]
    if scale.outcome == "fails" and (line := line_of_kl(objective.functions["loss"])):
        seen["kl-scale"] = scale._replace(detail=f"{scale.detail}; the line to change may be {line}")
    drift = objective.drift(before)
    if drift:  # a changed state also changes the differences that these rules compare
        detail = (
            f"calls with the same batch and noise differ by {drift:.2g}: the loss keeps a state, such as a warm-up's "
            "counter, or draws from a generator of its own; hold that still, such as at the warm-up's end"
        )
        seen = dict.fromkeys(seen, Seen("not measured", detail))
    seen["repeated-noise"] = _repeated_noise(case)
    seen["sigma-frozen"] = sigma.frozen(case, training)
    seen["pruned-noise"] = sigma.noisy_where_pruned(case)
    return {rule: _in_words(what, objective.remedies.get(rule, "")) for rule, what in seen.items()}


def _in_words(seen: Seen, remedy: str) -> Seen:
    """Say a framework's own remedy of a failure in the place of the rule's."""
    if not remedy or seen.outcome != "fails" or seen.advised:
        return seen
    return seen._replace(detail=f"{seen.detail}; to do: {remedy}", advised=True)


def _repeated_noise(case: Case) -> Seen:
    objective = case.objective
    if (sets_seed := objective.sets_seed()) is not None:
        if sets_seed:
            return Seen("fails", "the loss sets torch's seed, so that every step draws the same noise")
        return Seen("passes", "the loss does not set torch's seed")
    if objective.loss(objective.batches[0], 0) != objective.loss(objective.batches[0], 1):
        return Seen("passes", "two seeds give two losses")
    if any(_has_fixed_noise(objective, group) for group in case.trained):
        return Seen("fails", "every seed gives the same noise")
    return Seen("not measured", "every seed gives the same loss: it draws no noise, or the same noise in every step")


def _has_fixed_noise(objective: Objective, group: Group) -> bool:
    """Return whether weights are mean + sigma x the same noise in every batch.

    Then the data's gradient by sigma is that by the mean times the noise, for each weight, whatever the batch. What all
    batches share, such as the KL's gradient, is left out by differences between three batches.
    """
    if len(objective.batches) < 3:  # of the commonest size
        return False
    slopes = [objective.loss_gradient(batch, 0) for batch in objective.batches[:3]]
    means, scales = (sorted(names) for names in (group.means, group.scales))
    if len(means) != 1 or len(scales) != 1 or objective.shapes[means[0]] != objective.shapes[scales[0]]:
        return False
    mean, other_mean, scale, other_scale = (
        slopes[0][name] - slopes[at][name] for name in (means[0], scales[0]) for at in (1, 2)
    )
    return same_ratio((mean, scale), (other_mean, other_scale))


def report(seen: Mapping[str, Seen]) -> ElboReport:
    """Return the report of what the rules saw."""
    return ElboReport(tuple(Finding(rule, "objective", *what) for rule, what in seen.items()))


def line_of_kl(function: Callable[..., object] | None) -> str:
    """Return file, number and text of the last line that weighs or adds the KL, else that names it; or ''."""
    if function is None:
        return ""
    function = inspect.unwrap(function)  # of jax.jit and the like
    try:
        lines, first = inspect.getsourcelines(function)
        name = Path(inspect.getsourcefile(function) or "").name
    except (OSError, TypeError):
        return ""
    for pattern in (_WEIGHED, _NAMED):
        hits = [k for k, line in enumerate(lines) if pattern.search(_SAID.sub("", line))]
        if hits:
            return f"{name}:{first + hits[-1]}: {lines[hits[-1]].strip()}"
    return ""
