"""The KL where no nll= is given, or one of an unknown factor: what labels, rows twice and inputs of zero show of it.

The data part of a sum over the rows doubles with the rows, and the KL does not. In a mean, or beside a KL that grows
with the rows, nothing differs. But inputs of zero reach no weight that only multiplies them, such as those of the first
layer: its gradient is then that of the KL alone, whatever the loss is. How often the likelihood counts beside it is
assumed, unless the labels show it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from elbo_audit.errors import AuditError
from elbo_audit.factors import Array, Gradient
from elbo_audit.gradients import same
from elbo_audit.likelihood import DataWeight
from elbo_audit.objective import Batch, Case, Objective

SMALL = 4  # numbers of mean and of sigma: fewer show no KL
ROWS, LABELS = 24, 32  # whose losses show the likelihood's weight: at most so many rows, each with so many labels
STEPS = 20  # of Newton's method
UNLIKE = 1e-3  # nats: where entropies of rows differ by less, a score that is no likelihood looks like one
SURE = 0.01  # of the likelihood's weight: its largest error
SAME = 0.003  # nats an output, or of a range: what rounding of float32 may leave of a Gaussian's constants


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

    Targets still differ from batch to batch, so that a gradient which is the same in all holds no data.
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
    if not groups:
        return None
    shown, share = by_labels(objective, objective.loss), 1.0 if is_sum else 1 / objective.batch_size
    weight, error = (share * part for part in shown or (1.0, 0.0))
    return replace(case, groups=groups), DataWeight(weight, 0.0, "labels" if shown else "assumed", error)


def by_labels(objective: Objective, of: Callable[[Batch, int], float]) -> tuple[float, float] | None:
    """Return how often `of` counts -log p(label | x) of one row, and its error; None if the labels do not tell.

    The probabilities of all labels of a row sum to 1. So F = -a log sum exp(-loss / a) over the labels is the KL, which
    all rows share, if a is this weight. dF / da is minus the entropy of the labels: rows of unlike entropies tell a.
    """
    batches, n = objective.batches, objective.batch_size
    columns = [objective.numbers(batch[1]) for batch in batches]
    known = [column.ravel() for column in columns if column is not None and column.size == n]
    where = {float(label): (k, row) for k, column in enumerate(known) for row, label in enumerate(column)}
    if len(known) < len(batches) or not 2 <= len(where) <= LABELS or set(where) != set(range(len(where))):
        return None
    labels = [objective.take(batches[k], [row])[1] for _, (k, row) in sorted(where.items())]
    try:
        rows = [objective.take(batches[0], [row]) for row in range(min(n, ROWS))]
        losses = np.array([[of((x, label, *rest), 0) for label in labels] for x, _, *rest in rows])
    except Exception:  # noqa: BLE001 - what a user's function raises for a single row
        return None
    low = losses.min(1, keepdims=True)

    def free(weight: float) -> tuple[Array, Array]:
        """Return F and the entropy of each row, both less their mean over the rows."""
        powers = np.exp((low - losses) / weight)
        sums = powers.sum(1)
        energy = low[:, 0] - weight * np.log(sums)
        entropy = ((powers * losses).sum(1) / sums - energy) / weight
        return energy - energy.mean(), entropy - entropy.mean()

    weight = min(np.ptp(losses) * np.geomspace(1e-3, 10, 100), key=lambda each: float(np.square(free(each)[0]).sum()))
    for _ in range(STEPS):
        energy, entropy = free(weight)
        weight = max(weight + float(energy @ entropy) / max(float(entropy @ entropy), 1e-300), weight / 2)
    energy, entropy = free(weight)
    spread = float(entropy.std())
    error = float(energy.std()) / max(spread, 1e-300)
    return (weight, error) if spread > UNLIKE and error <= SURE * weight else None


def mean_of_sites(case: Case) -> float:
    """Return c where the NLL of sites is c times its mean over the rows, as `factor` may hold; 0 for a sum, or unknown.

    Labels show c. So do targets under Gaussians: the least value of c x -log p of a row, by its targets, is
    c/2 sum log(2 pi sigma^2), and c / sigma^2 are its curvatures. Without these constants it fits no c that people use:
    1 or N, for a mean over the rows alone or over the outputs too.
    """
    objective = case.objective
    batch, n = objective.batches[0], objective.batch_size
    try:
        once, twice = objective.nll(batch, 0), objective.nll(objective.twice(batch), 0)
        rows = [objective.take(batch, [row]) for row in range(n)]
        if abs(twice - once) > SAME * abs(once) or (targets := objective.numbers(batch[1])) is None:
            return 0.0
        if shown := by_labels(objective, objective.nll):
            return shown[0]
        x, _, *rest = rows[0]
        values = np.array([objective.nll((x, row[1], *rest), 0) for row in rows])
    except Exception:  # noqa: BLE001 - what a user's function raises for a single row, or for none
        return 0.0
    targets = targets.reshape(n, -1)
    parts = np.hstack([targets**2 / 2, targets, np.ones((n, 1))])
    found = np.linalg.lstsq(parts, values, rcond=None)[0]
    m = targets.shape[1]
    curvatures, slopes = found[:m], found[m:-1]
    if len(found) >= n or np.ptp(values - parts @ found) > SAME * np.ptp(values) or not (curvatures > 0).all():
        return 0.0
    least = found[-1] - (slopes**2 / curvatures).sum() / 2
    known = {c for times in (1.0, case.n_train) for c in (times, times / m)}
    fits = [c for c in known if abs(np.log(math.tau * c / curvatures).sum() / 2 - least / c) <= SAME * m]
    return float(fits[0]) if len(fits) == 1 else 0.0
