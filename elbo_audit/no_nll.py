"""The KL where no nll= is given: what the same rows twice, and inputs of zero, show of it.

The data part of a sum over the rows doubles with the rows, and the KL does not. In a mean, or beside a KL that grows
with the rows, nothing differs. But inputs of zero reach no weight that only multiplies them, such as those of the first
layer: its gradient is then that of the KL alone, whatever the loss is.
"""

from __future__ import annotations

import operator
from dataclasses import replace

from elbo_audit.errors import AuditError
from elbo_audit.factors import Gradient
from elbo_audit.gradients import same
from elbo_audit.likelihood import DataWeight
from elbo_audit.objective import Batch, Case, Objective

SMALL = 4  # numbers of mean and of sigma: fewer show no KL


def counts_rows(objective: Objective) -> bool:
    """Return whether the loss grows with the number of rows (a sum) or not (a mean)."""
    batch, other = objective.batches[:2]
    single, double, third = (objective.loss(rows, 0) for rows in (batch, objective.twice(batch), other))
    return abs(double - single) > abs(third - single) + 1e-6 * abs(single)


def without_rows(objective: Objective, batch: Batch, draw: int) -> Gradient:
    """Return the gradient of the KL in a loss that sums its rows: only the data part doubles with them."""
    whole, doubled = (objective.loss_gradient(rows, draw) for rows in (batch, objective.twice(batch)))
    return {name: 2 * whole[name] - doubled[name] for name in whole}


def of_zero_inputs(objective: Objective, batch: Batch, draw: int) -> Gradient:
    """Return the gradient of the loss for inputs of zero; the other parts of the batch stay."""
    return objective.loss_gradient((operator.mul(batch[0], 0), *batch[1:]), draw)


def seen_at_zero(case: Case, is_sum: bool) -> tuple[Case, DataWeight] | None:
    """Return the case of the weights that zero inputs do not reach, and a weight of the likelihood; None without any.

    What is left of a batch still differs from batch to batch. So a gradient that is the same in all holds no data.
    """
    objective = case.objective
    if len(objective.batches[0]) < 2 or objective.numbers(objective.batches[0][0]) is None:
        return None
    try:
        gradients = [of_zero_inputs(objective, batch, 0) for batch in objective.batches]
    except AuditError:  # the loss is not finite there
        return None
    silent = {name for name in objective.shapes if same(gradients, name)}
    groups = [
        group
        for group in case.trained
        if not group.may_be_layer and group.std().size >= SMALL and group.means | group.scales <= silent
    ]
    weight = 1.0 if is_sum else 1 / objective.batch_size
    return (replace(case, groups=groups), DataWeight(weight, 0.0, "zero inputs", 0.0)) if groups else None
