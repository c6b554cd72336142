"""How often does the loss count the likelihood, and what else does it hold that depends on the data?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from elbo_audit.factors import Array, norm
from elbo_audit.findings import Advice, Seen
from elbo_audit.least_squares import SURE, common
from elbo_audit.objective import ROUNDINGS, Objective
from elbo_audit.rows import SYSTEMATIC, grows_with_rows, looked_at, normaliser, tables, weights_of_batches

PROPORTIONAL = 0.02  # of the losses' range between batches: what the NLL may leave unexplained
ALIKE = 0.9  # least correlation over draws of two losses with the same noise; a mean of two draws and one of them: 0.7
ALIKE_SHARES = 0.05  # of the gradients: what one vector, times the share of each batch, may leave unexplained
STEPS = 30  # in which the weight and the shares of the batches are fitted in turn
MORE = 4  # times the draws, if noise may hide another likelihood
NOISY = 1e-5  # of the gradients: a smaller change from draw to draw is rounding

UNLIKE = 0.1  # weights of batches that differ by less count their rows alike
ANOTHER = Advice("likelihood", "likelihood")  # no factor of the KL mends it

Rest = Literal[
    "proportional", "shares", "other noise", "other likelihood", "unlike batches", "rounding", "assumed", "labels"
]
"""What a loss holds besides a NLL + constant. `proportional`: nothing. `shares`: a term that differs between batches by
a factor only, such as a KL that is re-weighted over batches. `other noise`: noise that averages out over draws. `other
likelihood`: a term that does not. `unlike batches`: nothing, but each batch has a weight of its own. `rounding`: the
losses of the batches differ too little to tell. `assumed`, `labels`: without an NLL, for inputs of zero; the weight
is assumed, or comes from the losses of all labels of a row."""


@dataclass(frozen=True)
class DataWeight:
    """The weight `a` of the NLL in the loss, and what the loss holds besides a NLL + constant."""

    weight: float
    misfit: float  # the part of the range of losses that the NLL does not explain
    rest: Rest
    error: float  # standard error of `weight`; if the likelihood is right, it comes from rounding
    rounding: float = 0.0  # the misfit that rounding may leave
    by_batch: Sequence[float] = ()  # the weight in each batch, if they differ; `weight` is then their harmonic mean
    grows: bool = False  # whether the gradient without the NLL changes with the rows as that of no KL does

    def of(self, batch: int) -> float:
        """Return the weight in the batch of this index."""
        return self.by_batch[batch] if self.by_batch else self.weight

    @property
    def usable(self) -> bool:
        """Return whether the likelihood can be subtracted from the loss."""
        return self.rest not in ("other noise", "rounding")


def judge(objective: Objective, data: DataWeight | None) -> Seen:
    """Return what the rule on the likelihood sees; `data` is None if no NLL was given."""
    if data is None:
        return Seen("not measured", "give nll= to compare the loss with the likelihood")
    detail = f"the loss counts the batch's summed NLL {data.weight:.4g} times"
    rest = f"{data.misfit:.1%} of its range over batches is something else"
    measured = {"weight": data.weight, "misfit": data.misfit}
    if data.rest == "other noise":
        advice = "give an nll= that draws like the loss: the same calls in the same order, as many draws a step"
        return Seen("not measured", f"{detail} and {rest}, which may be noise: {advice}; or raise draws=", measured)
    if data.rest == "shares":
        more = (
            "each batch counts one further term in a share of its own: a KL re-weighted over batches, or another term"
        )
        return Seen("not measured", f"{detail}; {more}", measured)
    if data.rest == "rounding":
        detail = "rounding of the loss hides how the batches differ; audit in float64"
        return Seen("not measured", detail, measured)
    if data.weight == 0:
        return Seen("fails", "the loss is the same for every batch: it holds no likelihood", measured, advice=ANOTHER)
    if data.weight < 0:
        more = "minimising it makes the data less likely (nll= is -log p, and the loss adds it)"
        return Seen("fails", f"{detail}: {more}", measured, advice=ANOTHER)
    if data.rest == "other likelihood":
        grown = "what is left of its gradient changes with the rows as no KL does (an alpha-energy?)"
        more = grown if data.grows else rest
        return Seen("fails", f"{detail}, but {more}", measured, advice=ANOTHER)
    if data.rest == "unlike batches":
        shown = ", ".join(f"1/{1 / weight:.4g}" for weight in data.by_batch)
        more = f"the loss counts the summed NLL of the batches {shown} times{normaliser(objective, data.by_batch)}"
        if max(data.by_batch) <= (1 + UNLIKE) * min(data.by_batch):
            return Seen("passes", more, measured)
        advice = "so that rows count otherwise from batch to batch: divide by the same number in every batch"
        return Seen("fails", f"{more}, {advice}", measured, advised=True, advice=ANOTHER)
    return Seen("passes", f"{detail}; {rest}", measured)


def data_weight(objective: Objective, draws: int) -> DataWeight:
    """Measure `a` from the differences of the losses between batches; where they do not tell, from the gradients.

    If what the NLL leaves unexplained may be noise, more draws are taken: noise averages out, another likelihood does
    not.
    """
    found = _by_losses(objective, draws)
    if found.rest == "other noise":
        draws = MORE * draws
        found = _by_losses(objective, draws)
    exact = found.rest == "proportional" and found.misfit <= found.rounding
    if not exact and found.rest != "rounding":
        weights, misfit = weights_of_batches(objective, draws)
        if len(weights):
            mean = statistics.harmonic_mean(weights)
            return DataWeight(mean, misfit, "unlike batches", mean * misfit, found.rounding, weights)
    relative = found.error / (abs(found.weight) or 1.0)
    if found.rest == "proportional" and grows_with_rows(objective, found.weight, relative, draws):
        return replace(found, rest="other likelihood", grows=True)
    doubtful = found.rest == "other noise" or (found.rest == "proportional" and found.misfit > found.rounding)
    if doubtful and _gradients_tell_another(objective, draws):
        return replace(found, rest="other likelihood")
    return found


def _gradients_tell_another(objective: Objective, draws: int) -> bool:
    """Return whether the gradients without those of the NLL show another likelihood: the same rest in all draws.

    One gradient times a factor for each batch is a KL that is re-weighted over batches. If only one of loss and NLL is
    noisy, the NLL is that of the mean weights, and nothing is identifiable.
    """
    losses, nlls = _less_mean(looked_at(objective, draws))
    noisy = [norm(part - part.mean(0)) > NOISY * norm(part) for part in (losses, nlls)]
    if noisy[0] != noisy[1] or not nlls.any():
        return False
    left = losses - _weight_across_draws(losses, nlls) * nlls
    if not noisy[0]:
        rest, whole, is_sure = norm(left[0]) ** 2, norm(losses[0]) ** 2, True
    else:
        found = common(left)
        rest, whole, is_sure = found.value, common(losses).value, found.value > SURE * found.error
    values = np.square(np.linalg.svd(left.mean(0), compute_uv=False))
    beside_shares = float(values[1:].sum()) > ALIKE_SHARES * float(values.sum())
    return is_sure and rest > SYSTEMATIC**2 * whole and beside_shares


def _by_losses(objective: Objective, draws: int) -> DataWeight:
    batches = objective.batches
    pairs = [[(objective.loss(b, draw), objective.nll(b, draw)) for b in batches] for draw in range(draws)]
    table = np.array(pairs)  # [draws, batches, 2]
    smallest = ROUNDINGS * objective.epsilon * np.abs(table).max((0, 1))  # of the loss, of the NLL
    whole, table = table, table - table.mean(1, keepdims=True)
    losses, nlls = table[..., 0], table[..., 1]
    if float(np.abs(losses).max()) <= float(smallest[0]) / PROPORTIONAL:
        return _by_gradients(objective, draws)
    freedom = losses.size - len(losses) - 1  # a constant for each draw, and the weight
    weight, misfit, error = _proportion(losses, nlls, freedom)
    rest = _rest(losses, nlls, misfit, smallest)
    shared = _beside_shares(objective, whole[..., 0], whole[..., 1]) if rest.startswith("other") else None
    return shared or DataWeight(weight, misfit, rest, error, _rounding(losses, smallest, weight))


def _beside_shares(objective: Objective, losses: Array, nlls: Array) -> DataWeight | None:
    """Return the weight `a` if losses - a nlls [draws, batches] has rank one: K(draw) x share(batch).

    `a` and the shares are fitted in turn. `a` starts at the slope over draws, which a KL in closed form does not
    change. The gradients without the data's part must have the same shares: a term of the inputs alone has none.
    Return None if this does not hold, or if there is no noise: then every such matrix has rank one.
    """
    noise = nlls - nlls.mean(0)
    if norm(noise) <= PROPORTIONAL * norm(nlls - nlls.mean(1, keepdims=True)):
        return None
    weight = float(((losses - losses.mean(0)) * noise).sum() / np.square(noise).sum())
    for _ in range(STEPS):
        shares = np.linalg.svd(losses - weight * nlls, full_matrices=False)[2][0]
        one, other = (part - np.outer(part @ shares, shares) for part in (losses, nlls))
        weight, misfit, error = _proportion(one, other, max(one.size - len(losses) - len(shares), 1))
    found = DataWeight(weight, misfit, "shares", error)
    return found if misfit <= PROPORTIONAL and _shares_gradient(objective, weight, shares) else None


def _shares_gradient(objective: Objective, weight: float, shares: Array) -> bool:
    """Return whether the gradients of the batches, without the data's part, are one vector times the batch's share."""
    losses, nlls = tables(objective, objective.batches, 1)
    rows = losses[0] - weight * nlls[0]
    left = rows - np.outer(shares, shares @ rows)  # the shares have length 1
    return bool(rows.any()) and norm(left) <= ALIKE_SHARES * norm(rows)


def _proportion(losses: Array, nlls: Array, freedom: int) -> tuple[float, float, float]:
    """Fit losses = a nlls by least squares; return a, the share of the losses that is left, and a's standard error."""
    weight = float((losses * nlls).sum() / max(np.square(nlls).sum(), 1e-300))
    left = norm(losses - weight * nlls)
    error = left / math.sqrt(max(freedom, 1)) / max(norm(nlls), 1e-300)
    return weight, left / max(norm(losses), 1e-300), error  # without noise, losses may be equal


def _rounding(losses: Array, smallest: Array, weight: float) -> float:
    """Return the share of the losses [draws, batches] that rounding of the loss and of the NLL may leave."""
    return math.sqrt(losses.size) * float(smallest[0] + abs(weight) * smallest[1]) / max(norm(losses), 1e-300)


def _by_gradients(objective: Objective, draws: int) -> DataWeight:
    """Measure `a` from gradients, where a large constant such as an unscaled KL rounds the losses' differences away."""
    whole = tables(objective, objective.batches, draws)
    looked_at(objective, draws, whole)
    losses, nlls = _less_mean(whole)
    if not losses.any():
        return DataWeight(0.0, 0.0, "proportional", 0.0)
    weight, misfit, error = _proportion(losses, nlls, losses.size)
    return DataWeight(weight, misfit, "proportional" if misfit <= PROPORTIONAL else "rounding", error)


def _less_mean(tables: Sequence[Array]) -> list[Array]:
    """Return tables [draws, batches, n], less their mean over batches."""
    return [table - table.mean(1, keepdims=True) for table in tables]


def _rest(losses: Array, nlls: Array, misfit: float, smallest: Array) -> Rest:
    """Name what the losses [draws, batches] hold besides the NLL. Both have their mean over batches subtracted."""
    if misfit <= PROPORTIONAL:
        return "proportional"
    noise = [part - part.mean(0) for part in (losses, nlls)]  # from draw to draw
    noisy = [bool((np.abs(part) > size).any()) for part, size in zip(noise, smallest, strict=True)]
    if noisy[0] != noisy[1]:  # only one of the two is noisy: the NLL of the mean weights is not that of a draw
        return "other noise"
    if not any(noisy) or float((noise[0] * noise[1]).sum()) > ALIKE * norm(noise[0]) * norm(noise[1]):
        return "other likelihood"
    left = losses - _weight_across_draws(losses, nlls) * nlls
    rest = common(left)
    sure = rest.value > SURE * rest.error and rest.value > PROPORTIONAL**2 * common(losses).value
    return "other likelihood" if sure else "other noise"


def _weight_across_draws(losses: Array, nlls: Array) -> float:
    """Return the weight from products of different draws only, so that unlike noise of the two does not bias it."""
    both = (losses.sum(0) * nlls.sum(0)).sum() - (losses * nlls).sum()
    one = np.square(nlls.sum(0)).sum() - np.square(nlls).sum()
    return float(both / one) if float(one) > 0 else 0.0
