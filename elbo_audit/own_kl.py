"""How often does an epoch count the KL that the user gives, as a whole or in two parts: the entropy, and the rest?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from elbo_audit import weighing
from elbo_audit.factors import Gradient, Group, total
from elbo_audit.kl_weight import KlWeight, TensorWeight
from elbo_audit.least_squares import fit, fit_drawn, over_batches
from elbo_audit.likelihood import DataWeight
from elbo_audit.names import gaussians
from elbo_audit.objective import Case
from elbo_audit.patterns import differ, known, unlike


class _Drawn(NamedTuple):
    targets: Sequence[Gradient]  # of the loss without the data part, in each draw
    own: Sequence[Gradient]  # of kl=, in each draw
    doubt: Gradient  # standard error that all draws share
    scale: float


def measure_own_kl(case: Case, data: DataWeight | None) -> KlWeight:
    """Measure the weight of the user's KL from its gradient; of its two parts, where it does not fit as a whole."""
    objective, scale = case.objective, weighing.epoch_scale(case, data)
    doubt = weighing.shared_error(objective, data)
    targets = weighing.without_data(case, data, doubt, weighing.NUMBERS)
    drawn = _Drawn(targets, [objective.kl_gradient(draw) for draw in range(len(targets))], doubt, scale)
    found = _with_own_prior(case, _as_a_whole(drawn, len(objective.batches)))
    is_whole = not found.missed and not unlike(found)
    return found if is_whole or found.by_batch else _in_parts(case, drawn, found)


def _with_own_prior(case: Case, found: KlWeight) -> KlWeight:
    """Add what the gradient of `kl=` itself shows: the width of its prior, or that it is the reverse KL."""
    objective, factors = case.objective, case.trained
    if not factors:
        return found

    def look() -> KlWeight:
        columns = weighing.directions(factors)
        own = weighing.only([objective.kl_gradient(draw) for draw in range(case.draws)], columns)
        doubt = {name: weighing.ROUNDINGS * objective.epsilon * part for name, part in own[0].items()}
        alone = fit(own, columns, doubt)
        if weighing.unexplained(alone, doubt):
            return replace(found, is_reverse=weighing.is_reverse_kl(own, factors, doubt))
        return replace(found, own_prior=alone.ratio(1, 0), size=weighing.size_of(factors))

    return objective.seen_near(weighing.shifts_of(objective, factors), look)


def _as_a_whole(drawn: _Drawn, n_batches: int) -> KlWeight:
    """Fit the gradient of the user's KL: of each parameter alone, unless the KL is drawn, and of all together."""
    targets, own, doubt, scale = drawn
    if any(not np.array_equal(part, own[1][name]) for name, part in own[0].items()):
        found = fit_drawn(weighing.only(targets, own), [own])
        counts, by_batch = over_batches(found, scale, n_batches)
        return KlWeight(counts, None, [], {} if by_batch else weighing.unexplained(found, doubt), by_batch)
    tensors: list[TensorWeight] = []
    missed: dict[str, float] = {}
    for name, part in own[0].items():
        if part.any():
            alone = fit([{name: target[name]} for target in targets], own[:1], doubt)
            tensors.append(TensorWeight(name, part.size, alone.coefficient(0).times(scale)))
            missed |= weighing.unexplained(alone, doubt)
    counts, by_batch = over_batches(fit(targets, own[:1], doubt), scale, n_batches)
    return KlWeight(counts, None, tensors, missed, by_batch)


def _two_parts(drawn: _Drawn, factors: Sequence[Group], found: KlWeight) -> KlWeight:
    """Fit the entropy and the rest of the user's KL, which is the pull of its prior, each with a weight of its own."""
    targets, own, doubt, scale = drawn
    tensors: list[TensorWeight] = []
    missed: dict[str, float] = {}
    every = [*weighing.joined(factors), factors]
    for group in every:  # the last are all groups together
        entropy = total([factor.entropy() for factor in group])
        names = set().union(*(factor.means | factor.scales for factor in group))
        pulls = [{n: part - entropy.get(n, 0.0) for n, part in draw.items() if n in names} for draw in own]
        alone = fit_drawn(weighing.only(targets, [entropy, *pulls]), [[entropy] * len(pulls), pulls])
        tensors.append(weighing.tensor_of(group, alone, scale))
        missed |= weighing.unexplained(alone, doubt) if group is not every[-1] else {}
    whole = tensors.pop()
    found = replace(found, per_epoch=whole.per_epoch, precision=whole.precision, pull=whole.pull)
    return replace(found, tensors=tensors, missed=missed)


def _in_parts(case: Case, drawn: _Drawn, found: KlWeight) -> KlWeight:
    """Return the weights of the entropy and of the rest of kl=, if these explain the loss; else what `found` misses."""
    objective = case.objective
    pairs = gaussians(objective.parameters, objective.shapes)
    factors = case.trained or [group for group in map(objective.group, pairs) if group.scales]
    parts = _two_parts(drawn, factors, found) if factors else found
    if not parts.missed:
        return parts
    weights = {tensor.name: tensor.per_epoch for tensor in known(found)}
    bent = [f.name for f in factors if differ([weights[n] for n in f.means | f.scales if n in weights])]
    return replace(found, missed=found.missed or (parts.missed if bent else {}))
