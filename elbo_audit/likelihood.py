"""How often does the loss count the likelihood, and what else does it hold that depends on the data?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from elbo_audit.findings import Seen
from elbo_audit.least_squares import SURE, common
from elbo_audit.objective import ROUNDINGS, AuditedObjective, Batch

PROPORTIONAL = 0.02  # of the losses' range between batches: what the NLL may leave unexplained
ALIKE = 0.9  # least correlation over draws of two losses with the same noise; a mean of two draws and one of them: 0.7
ALIKE_SHARES = 0.05  # of the gradients: what one vector, times the share of each batch, may leave unexplained
STEPS = 30  # in which the weight and the shares of the batches are fitted in turn
MORE = 4  # times the draws, if noise may hide another likelihood
SYSTEMATIC = 0.005  # largest part of the gradients' differences that another likelihood may cause unnoticed
NOISY = 1e-5  # of the gradients: a smaller change from draw to draw is rounding
NUMBERS = 20_000  # elements of a gradient that are compared: a large network's draws would not fit into memory

Rest = Literal["proportional", "shares", "other noise", "other likelihood", "rounding"]
"""What a loss holds besides a NLL + constant. `proportional`: nothing. `shares`: a term that differs between batches by
a factor only, such as a KL that is re-weighted over batches. `other noise`: noise that averages out over draws. `other
likelihood`: a term that does not. `rounding`: the losses of the batches differ too little to tell."""


@dataclass(frozen=True)
class DataWeight:
    """The weight `a` of the NLL in the loss, and what the loss holds besides a NLL + constant."""

    weight: float
    misfit: float  # the part of the range of losses that the NLL does not explain
    rest: Rest
    error: float  # standard error of `weight`; if the likelihood is right, it comes from rounding
    rounding: float = 0.0  # the misfit that rounding may leave

    @property
    def usable(self) -> bool:
        """Return whether the likelihood can be subtracted from the loss."""
        return self.rest not in ("other noise", "rounding")


def judge(data: DataWeight | None) -> Seen:
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
        return Seen("fails", "the loss is the same for every batch: it holds no likelihood", measured)
    if data.weight < 0:
        more = "minimising it makes the data less likely (nll= is -log p, and the loss adds it)"
        return Seen("fails", f"{detail}: {more}", measured)
    if data.rest == "other likelihood":
        return Seen("fails", f"{detail}, but {rest}", measured)
    return Seen("passes", f"{detail}; {rest}", measured)


def data_weight(objective: AuditedObjective, draws: int) -> DataWeight:
    """Measure `a` from the differences of the losses between batches. The objective must have a NLL.

    If what the NLL leaves unexplained may be noise, more draws are taken: noise averages out, another likelihood does
    not. If the losses still do not tell, gradients are compared: a gradient holds many numbers, a loss one.
    """
    found = _by_losses(objective, draws)
    if found.rest == "other noise":
        draws = MORE * draws
        found = _by_losses(objective, draws)
    doubtful = found.rest == "other noise" or (found.rest == "proportional" and found.misfit > found.rounding)
    if doubtful and _gradients_tell_another(objective, draws):
        return replace(found, rest="other likelihood")
    return found


def _gradients_tell_another(objective: AuditedObjective, draws: int) -> bool:
    """Return whether the gradients show another likelihood than the NLL.

    What is left of the loss's gradients without those of the NLL must be the same in all draws; else it is noise. If it
    is one gradient times a factor for each batch, it is a KL that is re-weighted over batches. If only one of loss and
    NLL is noisy, the NLL is that of the mean weights, and nothing can be told.
    """
    n = sum(value.numel() for value in objective.parameters.values())
    looked_at = torch.randperm(n, generator=torch.Generator().manual_seed(0))[:NUMBERS]
    losses, nlls = (_gradients_less_mean(objective, f, draws, looked_at) for f in (objective.loss, objective.nll))
    noisy = [float((part - part.mean(0)).norm()) > NOISY * float(part.norm()) for part in (losses, nlls)]
    if noisy[0] != noisy[1] or not bool(nlls.any()):
        return False
    left = losses - _weight_across_draws(losses, nlls) * nlls
    if not noisy[0]:
        rest, whole, is_sure = float(left[0].square().sum()), float(losses[0].square().sum()), True
    else:
        found = common(left.flatten(1))
        rest, whole, is_sure = found.value, common(losses.flatten(1)).value, found.value > SURE * found.error
    values = torch.linalg.svdvals(left.mean(0)).square()
    beside_shares = float(values[1:].sum()) > ALIKE_SHARES * float(values.sum())
    return is_sure and rest > SYSTEMATIC**2 * whole and beside_shares


def _by_losses(objective: AuditedObjective, draws: int) -> DataWeight:
    pairs = [
        [(float(objective.loss(b, draw).detach()), float(objective.nll(b, draw).detach())) for b in objective.batches]
        for draw in range(draws)
    ]
    table = torch.tensor(pairs, dtype=torch.float64)  # [draws, batches, 2]
    digit = torch.finfo(objective.loss(objective.batches[0], 0).dtype).eps
    smallest = ROUNDINGS * digit * table.abs().amax((0, 1))  # of the loss, of the NLL
    whole, table = table, table - table.mean(dim=1, keepdim=True)
    losses, nlls = table.unbind(-1)
    if float(losses.abs().max()) <= float(smallest[0]) / PROPORTIONAL:
        return _by_gradients(objective, draws)
    freedom = losses.numel() - len(losses) - 1  # a constant for each draw, and the weight
    weight, misfit, error = _proportion(losses, nlls, freedom)
    rest = _rest(losses, nlls, misfit, smallest)
    shared = _beside_shares(objective, *whole.unbind(-1)) if rest.startswith("other") else None
    return shared or DataWeight(weight, misfit, rest, error, _rounding(losses, smallest, weight))


def _beside_shares(objective: AuditedObjective, losses: Tensor, nlls: Tensor) -> DataWeight | None:
    """Return the weight `a` if losses - a nlls [draws, batches] has rank one: K(draw) x share(batch).

    `a` and the shares are fitted in turn. `a` starts at the slope over draws, which a KL in closed form does not
    change. The gradients without the data's part must have the same shares: a term of the inputs alone has none.
    Return None if this does not hold, or if there is no noise: then every such matrix has rank one.
    """
    noise = nlls - nlls.mean(0)
    if float(noise.norm()) <= PROPORTIONAL * float((nlls - nlls.mean(1, keepdim=True)).norm()):
        return None
    weight = float(((losses - losses.mean(0)) * noise).sum() / noise.square().sum())
    for _ in range(STEPS):
        shares = torch.linalg.svd(losses - weight * nlls, full_matrices=False).Vh[0]
        one, other = (part - (part @ shares).outer(shares) for part in (losses, nlls))
        weight, misfit, error = _proportion(one, other, max(one.numel() - len(losses) - len(shares), 1))
    found = DataWeight(weight, misfit, "shares", error)
    return found if misfit <= PROPORTIONAL and _shares_gradient(objective, weight, shares) else None


def _shares_gradient(objective: AuditedObjective, weight: float, shares: Tensor) -> bool:
    """Return whether the gradients of the batches, without the data's part, are one vector times the batch's share."""
    rests = (objective.loss(batch, 0) - weight * objective.nll(batch, 0) for batch in objective.batches)
    rows = torch.stack([_flat_gradient(objective, rest) for rest in rests])
    left = rows - shares.outer(shares @ rows)  # the shares have length 1
    return bool(rows.any()) and float(left.norm()) <= ALIKE_SHARES * float(rows.norm())


def _proportion(losses: Tensor, nlls: Tensor, freedom: int) -> tuple[float, float, float]:
    """Fit losses = a nlls by least squares; return a, the share of the losses that is left, and a's standard error."""
    weight = float((losses * nlls).sum() / nlls.square().sum().clamp(min=1e-300))
    left = float((losses - weight * nlls).norm())
    error = left / math.sqrt(max(freedom, 1)) / float(nlls.norm().clamp(min=1e-300))
    return weight, left / float(losses.norm()), error


def _rounding(losses: Tensor, smallest: Tensor, weight: float) -> float:
    """Return the share of the losses [draws, batches] that rounding of the loss and of the NLL may leave."""
    return math.sqrt(losses.numel()) * float(smallest[0] + abs(weight) * smallest[1]) / float(losses.norm())


def _by_gradients(objective: AuditedObjective, draws: int) -> DataWeight:
    """Measure `a` where a large constant in the loss, such as an unscaled KL, rounds the losses' differences away.

    The difference of the gradients of two batches, under the same noise, does not depend on the constant.
    """
    losses, nlls = (_gradients_less_mean(objective, function, draws) for function in (objective.loss, objective.nll))
    if not bool(losses.any()):
        return DataWeight(0.0, 0.0, "proportional", 0.0)
    weight, misfit, error = _proportion(losses, nlls, losses.numel())
    return DataWeight(weight, misfit, "proportional" if misfit <= PROPORTIONAL else "rounding", error)


def _gradients_less_mean(
    objective: AuditedObjective, function: Callable[[Batch, int], Tensor], draws: int, looked_at: Tensor | None = None
) -> Tensor:
    """Return the gradients [draws, batches, n], less their mean over batches; by default of all elements."""
    found = []
    for draw in range(draws):
        rows = torch.stack([_flat_gradient(objective, function(batch, draw)) for batch in objective.batches])
        rows = rows - rows.mean(0)
        found.append(rows if looked_at is None else rows[:, looked_at])
    return torch.stack(found)


def _flat_gradient(objective: AuditedObjective, value: Tensor) -> Tensor:
    return torch.cat([part.flatten() for part in objective.gradient(value).values()])


def _rest(losses: Tensor, nlls: Tensor, misfit: float, smallest: Tensor) -> Rest:
    """Name what the losses [draws, batches] hold besides the NLL. Both have their mean over batches subtracted."""
    if misfit <= PROPORTIONAL:
        return "proportional"
    noise = [part - part.mean(0) for part in (losses, nlls)]  # from draw to draw
    noisy = [bool((part.abs() > size).any()) for part, size in zip(noise, smallest, strict=True)]
    if noisy[0] != noisy[1]:  # only one of the two is noisy: the NLL of the mean weights is not that of a draw
        return "other noise"
    if not any(noisy) or float((noise[0] * noise[1]).sum()) > ALIKE * float(noise[0].norm() * noise[1].norm()):
        return "other likelihood"
    left = losses - _weight_across_draws(losses, nlls) * nlls
    rest = common(left)
    sure = rest.value > SURE * rest.error and rest.value > PROPORTIONAL**2 * common(losses).value
    return "other likelihood" if sure else "other noise"


def _weight_across_draws(losses: Tensor, nlls: Tensor) -> float:
    """Return the weight from products of different draws only, so that unlike noise of the two does not bias it."""
    both = (losses.sum(0) * nlls.sum(0)).sum() - (losses * nlls).sum()
    one = nlls.sum(0).square().sum() - nlls.square().sum()
    return float(both / one) if float(one) > 0 else 0.0
