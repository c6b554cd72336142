"""Does each row count once? Whether nll= is a sum over rows, and how often the loss counts those of each batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elbo_audit.errors import AuditError
from elbo_audit.factors import Array, Gradient, norm
from elbo_audit.least_squares import common
from elbo_audit.objective import ROUNDINGS, Batch, Objective, length
from elbo_audit.streams import generator

SURE = 4.0  # standard errors by which noise of single rows may separate a batch from its halves
SMALL = 0.02  # of the NLL: such as what batch normalisation changes
NEAR = 0.1  # of a ratio
SYSTEMATIC = 0.005  # largest part of the gradients' differences that another likelihood may cause unnoticed
SAME = 1e-4  # of the gradients' differences: one weight that leaves less is that of all batches
GROWS = 0.05  # of a gradient: less cannot move the KL's weight by more than its tolerance
FEW = 3  # draws that are looked at first: where they show no mistake, more do not either
MORE = 4  # times the draws, if noise may hide that a gradient grows
NUMBERS = 20_000  # elements of a gradient that are compared: a large network's draws would not fit into memory
OF_KL = (
    1.0,
    2.0,
    0.5,
)  # of a KL's gradient, for each row twice: of a KL alone, KL x rows / N, and a mean over the rows
SEEN = 10  # in units of rounding: how far two rows must pull the loss apart, to see whether it pairs them
BROADCAST = (
    "nll= of a batch is twice that of its halves together: it grows with the square of the rows, as where predictions "
    "[B, 1] meet targets [B], which broadcast to B x B terms; give both one shape"
)
PAIRS_ALL = (
    "two rows of a batch may swap the second part, their targets, and the loss stays the same: it pairs all rows with "
    "all targets, as where predictions [B, 1] meet targets [B], which broadcast to B x B terms; give both one shape"
)


def check(objective: Objective, draws: int) -> str:
    """Return how rows broadcast; '' if they do not, or cannot be taken apart.

    Raises AuditError if x and y of a batch have other numbers of rows, or nll= is a mean.
    """
    sizes = [size for size in map(length, objective.batches[0][:2]) if size is not None]
    if len(set(sizes)) > 1:
        raise AuditError(
            f"the first two parts of a batch begin with {sizes[0]} and {sizes[1]} rows; give tensors, rows first "
            f"(n_train / {sizes[0]} would be the number of batches)"
        )
    if "nll" not in objective.terms or objective.batch_size < 2:
        return ""
    try:
        for n in (min(FEW, draws), draws):
            whole, halves = np.array([_whole_and_halves(objective, k % len(objective.batches), k) for k in range(n)]).T
            gap, size = float((halves - whole).mean()), float(np.abs(whole).mean())
            if abs(gap) <= SMALL * size:
                return ""
    except Exception:  # noqa: BLE001 - what a user's function raises for another number of rows
        return ""
    if abs(gap) <= SURE * float((halves - whole).std(ddof=1)) / draws**0.5 + SMALL * size:
        return ""
    ratio = float(halves.mean() / whole.mean())
    if abs(ratio - 2) <= NEAR:
        raise AuditError(
            f"nll= is no sum over the rows: it is {whole[0]:.4g} for a batch, and {halves[0]:.4g} for its two halves "
            "together, as a mean is; give the sum, such as cross_entropy(..., reduction='sum')"
        )
    n = objective.batch_size
    squares = ((n // 2) ** 2 + (n - n // 2) ** 2) / n**2
    return BROADCAST if abs(ratio - squares) <= NEAR * squares else ""


def pairs_all(objective: Objective, draws: int) -> str:
    """Return how rows broadcast in the loss; '' if they do not, or if it cannot be seen.

    If row i has the input x_i and the target y_i, a loss that is a sum or a mean over the rows changes, where two rows
    swap their targets, by g(0, 0) + g(1, 1) - g(0, 1) - g(1, 0), for g(i, j) the term of x_i and y_j: this is what
    tells x from y at all. The loss of a batch that repeats x_i and y_j shows each g without a swap.
    """
    batch, n = objective.batches[0], objective.batch_size
    targets = objective.numbers(batch[1]) if len(batch) > 1 else None
    if targets is None or len(targets) != n or objective.numbers(batch[0]) is None:
        return ""
    other = next((k for k in range(1, n) if not np.array_equal(targets[k], targets[0])), 0)
    swapped = [other, *range(1, other), 0, *range(other + 1, n)]

    def loss(xs: Sequence[int], ys: Sequence[int], draw: int) -> float:
        return objective.loss((objective.take(batch, xs)[0], objective.take(batch, ys)[1], *batch[2:]), draw)

    try:
        for draw in range(draws if other else 0):
            plain = loss(range(n), range(n), draw)
            rounding = ROUNDINGS * objective.epsilon * abs(plain)
            if abs(loss(range(n), swapped, draw) - plain) > rounding:
                return ""
            cross = sum((1 if i == j else -1) * loss([i] * n, [j] * n, draw) for i in (0, other) for j in (0, other))
            if abs(cross) / n <= SEEN * rounding:
                return ""
    except AuditError:  # not finite
        return ""
    return PAIRS_ALL if other else ""


def _whole_and_halves(objective: Objective, index: int, draw: int) -> tuple[float, float]:
    """Return the NLL of a batch, and the sum of those of its halves, with the same noise."""
    batch, n = objective.batches[index], objective.batch_size
    halves = (objective.take(batch, range(start, n, 2)) for start in (0, 1))  # rows may be sorted by their class
    return objective.nll(batch, draw), sum(objective.nll(half, draw) for half in halves)


def weights_of_batches(objective: Objective, draws: int) -> tuple[Sequence[float], float]:
    """Return a weight of the NLL for each batch, and what they leave unexplained; no weights if one explains as much.

    The loss of batch b in draw d is a_b NLL + K_d: gradients, less their mean over a draw's batches, give each a_b.
    """
    losses, nlls = looked_at(objective, draws)
    apart = np.eye(losses.shape[1]) - 1 / losses.shape[1]
    squares, products = (np.einsum("dbn,dcn->bc", nlls, other) * apart for other in (nlls, losses))
    weights = np.linalg.pinv(squares, hermitian=True) @ products.sum(1)
    whole = math.sqrt(float((np.einsum("dbn,dcn->bc", losses, losses) * apart).sum())) or 1.0
    alike, misfit = (
        float(np.linalg.norm(left - left.mean(1, keepdims=True))) / whole
        for left in (losses - factor * nlls for factor in (products.sum() / (squares.sum() or 1.0), weights[:, None]))
    )
    is_better = misfit <= min(SYSTEMATIC, alike / 10) and alike > SAME
    if not is_better or not (weights > 0).all():
        return (), misfit
    return tuple(map(float, weights)), misfit


def normaliser(objective: Objective, weights: Sequence[float]) -> str:
    """Say what the weights of the batches are one over: the rows with a label, or the sum of a mask; '' if unknown."""
    for column in list(zip(*objective.batches, strict=True))[1:]:
        arrays = [array for array in map(objective.numbers, column) if array is not None]
        if len(arrays) < len(weights):
            continue
        numbers = {"the sum of a mask": [array.sum() for array in arrays]}
        values = np.unique(np.concatenate([array.ravel() for array in arrays]))[:20]
        if (values == np.round(values)).all():
            numbers |= {f"the labelled rows (label not {v:.0f})": [(a != v).sum() for a in arrays] for v in values}
        for words, counts in numbers.items():
            if np.allclose(np.array(weights) * counts, 1, rtol=SYSTEMATIC):
                return f", one over {words}"
    return ""


def grows_with_rows(objective: Objective, weight: float, error: float, draws: int) -> bool:
    """Return whether the gradient without the NLL surely changes with the rows, and not as that of a KL.

    Of a batch with each row twice, the NLL doubles, and a KL stays, doubles (KL x rows / N) or halves (a mean over the
    rows). Another likelihood, such as that of an alpha-energy, does none of these. That of single rows doubles, but
    differs from batch to batch, as no KL x rows / N does. `error` is that of the weight.
    """
    if not objective.is_divisible:
        return False
    for n in (FEW, max(draws, FEW + 1), MORE * draws):
        try:
            once, twice = (
                np.stack(part) for part in zip(*(_rests(objective, weight, d) for d in range(n)), strict=True)
            )
        except Exception:  # noqa: BLE001 - what a user's function raises for another number of rows
            return False
        size = common(once)
        slope = float(np.linalg.norm(vector(objective.loss_gradient(objective.batches[0], 0))))
        rounding = SURE * (4 * objective.epsilon + error) * slope
        sure = size.value - (SURE * size.error if n == FEW else 0.0)
        least = max(GROWS**2 * sure, rounding**2)
        rests = [twice - factor * once for factor in OF_KL]
        fits = [float(np.square(rest).sum(1).mean()) <= least for rest in rests]
        if any(fits):
            grows = fits[1] and not fits[0]
            if not grows:
                return False
            if float(np.square(_apart(objective, weight, FEW)).sum(1).mean()) <= least:
                return False
            apart = common(_apart(objective, weight, MORE * draws))
            return apart.value > max(least, SURE * apart.error)
        found = [common(rest) for rest in rests]
        if n > FEW and all(rest.value > max(least, SURE * rest.error) for rest in found):
            return True
    return False


def _apart(objective: Objective, weight: float, draws: int) -> Array:
    """Return the difference [draws, n] of the gradients without the NLL of two batches."""
    losses, nlls = tables(objective, objective.batches[:2], draws)
    return np.asarray(np.diff(losses - weight * nlls, axis=1)[:, 0])


def _rests(objective: Objective, weight: float, draw: int) -> tuple[Array, Array]:
    """Return the gradient without the NLL, of a batch and of the batch with each row twice."""
    batch = objective.batches[draw % len(objective.batches)]
    (once, nll), (twice, nlls) = (
        (vector(objective.loss_gradient(rows, draw)), vector(objective.nll_gradient(rows, draw)))
        for rows in (batch, objective.twice(batch))
    )
    rest = once - weight * nll
    # of a sum over the rows, of a mean, and of a mean that is divided by the rows again
    doubled = [twice - weight * share * nlls for share in (1.0, 0.5, 0.25)]
    return rest, min(doubled, key=lambda each: min(norm(each - factor * rest) for factor in OF_KL))


def looked_at(objective: Objective, draws: int, whole: Sequence[Array] = ()) -> list[Array]:
    """Return the elements of a gradient that are compared, as `tables` of all batches: made once, or from the whole."""
    n = sum(map(math.prod, objective.shapes.values()))
    at = generator("looked at").permutation(n)[:NUMBERS]
    if draws not in objective.looked_at:
        found = [table[..., at] for table in whole] or tables(objective, objective.batches, draws, at)
        objective.looked_at[draws] = found
    return objective.looked_at[draws]


def tables(
    objective: Objective, batches: Sequence[Batch], draws: int, elements: NDArray[np.intp] | None = None
) -> list[Array]:
    """Return the gradients [draws, batches, n] of the loss and of the NLL; by default of all elements."""
    at, functions = ... if elements is None else elements, (objective.loss_gradient, objective.nll_gradient)
    return [np.stack([[vector(f(b, draw))[at] for b in batches] for draw in range(draws)]) for f in functions]


def vector(gradient: Gradient) -> Array:
    """Return a gradient's numbers in one row."""
    return np.concatenate([part.ravel() for part in gradient.values()])
