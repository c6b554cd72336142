"""The rules for predictions: which mean of the draws are they, do they sum to one, and do two calls agree?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from elbo_audit.errors import AuditError
from elbo_audit.findings import Finding, Seen
from elbo_audit.torch_objective import HALF, own_noise

CLOSE = 1e-3  # probability; reported numbers may be printed with three digits
CLOSE_NATS = 10 * CLOSE  # nats; the same for an entropy

MEAN, GEOMETRIC = "mean of probabilities", "exp of mean log-probabilities"
NORMALISED = f"normalised {GEOMETRIC}"


def averages(log_probs: Tensor) -> dict[str, Tensor]:
    """Return three averages [B, K] of the probabilities of draws [S, B, K]. The second need not sum to 1."""
    log_probs = log_probs.double()
    logs = log_probs.mean(0)
    return {
        MEAN: (log_probs.logsumexp(0) - math.log(len(log_probs))).exp(),
        GEOMETRIC: logs.exp(),
        NORMALISED: logs.softmax(-1),
    }


def entropies_by_average(log_probs: Tensor) -> dict[str, Tensor]:
    """Return -sum p log p [B], in nats, for each of the `averages` of draws [S, B, K]."""
    return {name: -torch.xlogy(p, p).sum(-1) for name, p in averages(log_probs).items()}


def off_one(log_probs: Tensor) -> float:
    """Return the largest distance from 1 of a sum of probabilities over the classes."""
    return float((log_probs.double().logsumexp(-1).exp() - 1).abs().max())


def audit_prediction(log_probs: Tensor, reported: Tensor) -> list[Finding]:
    """Say which mean of the draws `log_probs` [S, B, K] the reported probabilities [B, K] are.

    Raises:
        AuditError: the shapes do not fit, or a number is NaN.
    """
    _check_shapes(log_probs, reported, "prediction", "[B, K]")
    close = _tolerances(log_probs, reported)
    both = reported.double().sum(-1), log_probs.double().logsumexp(-1).exp()
    worst = [float(each.flatten()[(each - 1).abs().argmax()]) for each in both]
    detail = f"the sum farthest from 1 is {worst[0]:.5g} in the prediction and {worst[1]:.5g} in the draws"
    off = [abs(value - 1) for value in worst]
    sums = Seen("fails" if off[0] > close[0] or off[1] > close[1] else "passes", detail, {"largest": max(off)})
    near = max(close[0], _epsilon(log_probs))
    which = _which(averages(log_probs), reported, near, [GEOMETRIC, NORMALISED], "")
    return [
        Finding("unnormalised-probabilities", "prediction", *sums),
        Finding("log-average", "prediction", *which),
    ]


def _epsilon(given: Tensor) -> float:
    """Return the rounding of numbers: of bfloat16 or float16 if all of them are such numbers, else of their type."""
    halves = (kind for kind in HALF if torch.equal(given.to(kind).to(given.dtype), given))
    return torch.finfo(next(halves, given.dtype)).eps


def _tolerances(log_probs: Tensor, reported: Tensor) -> tuple[float, float]:
    """Return how far sums of K rounded probabilities, and of the exponentials of K rounded logs, may be from 1.

    Rounding moves a number by half of epsilon times itself at most: the sum of p by half of epsilon, that of exp(log p)
    by as much times sum p |log p|, which is log K at most. Both are doubled, for sums that are rounded too.
    """
    n_classes = log_probs.shape[-1]
    return max(CLOSE, _epsilon(reported)), max(CLOSE, _epsilon(log_probs) * math.log(n_classes))


def _which(known: Mapping[str, Tensor], reported: Tensor, close: float, wrong: Sequence[str], what: str) -> Seen:
    """Judge numbers by their largest difference from those of each average."""
    gaps = {name: float((value - reported.double()).abs().max()) for name, value in known.items()}
    nearest = min(gaps, key=lambda name: gaps[name])
    shown = ", ".join(f"{name} {gap:.2g}" for name, gap in gaps.items())
    if max(abs(gap - gaps[MEAN]) for gap in gaps.values()) < close:
        return Seen("not measured", f"the draws agree too well to tell ({shown})")
    if gaps[nearest] > close:
        return Seen("not measured", f"it is {what}none of the known means; largest differences: {shown}", gaps)
    detail = f"it is {what}the {nearest}; differences: {shown}"
    return Seen("fails" if nearest in wrong else "passes", detail, gaps)


def entropy_of(log_probs: Tensor, reported: Tensor) -> Finding:
    """Say whether entropies [B], nats, are of an average of the draws' probabilities [S, B, K] that sums to one.

    Raises:
        AuditError: the shapes do not fit, or a number is NaN.
    """
    _check_shapes(log_probs, reported, "entropies", "[B]")
    # Rounding moves -sum p log p by half of epsilon times sum p |log p| (1 + |log p|) at most; doubled, as above.
    rounding = max(_epsilon(log_probs), _epsilon(reported)) * (1 + math.log(log_probs.shape[-1])) ** 2
    near, what = max(CLOSE_NATS, rounding), "the entropy, in nats, of "
    which = _which(entropies_by_average(log_probs), reported, near, [GEOMETRIC], what)
    return Finding("unnormalised-entropy", "entropy", *which)


def repeats(predict: Callable[[], Tensor], deterministic: bool) -> Seen:
    """Call `predict()` with two seeds and compare: a network that is deterministic at test gives the same twice.

    Raises:
        AuditError: `predict()` returned no tensor, an empty one, or a NaN.
    """
    if not deterministic:
        return Seen("not applicable", "the network is meant to draw at test")
    answers = []
    for seed in (0, 1):
        with own_noise(), torch.no_grad():
            torch.manual_seed(seed)
            answers.append(_check("what predict() returned", predict()).double())
    one, two = answers
    gap = float(torch.where(one == two, 0.0, one - two).abs().max())  # -inf in both is no difference
    if gap > 1e-6 * float(one.nan_to_num(0, 0, 0).abs().max()):
        detail = f"two calls differ by up to {gap:.2g}, though the network is meant to be deterministic at test"
        return Seen("fails", detail, {"largest difference": gap})
    return Seen("passes", f"two calls differ by {gap:.2g} at most", {"largest difference": gap})


def _check_shapes(log_probs: Tensor, reported: Tensor, what: str, shape: str) -> None:
    """Raise AuditError unless the draws are [S, B, K] and the reported numbers have as many axes as `shape` says."""
    _check("draws", log_probs)
    _check(what, reported)
    n_axes = 1 + shape.count(",")
    if log_probs.dim() != 3 or reported.shape != log_probs.shape[1 : 1 + n_axes]:
        given = f"{tuple(log_probs.shape)} and {tuple(reported.shape)}"
        raise AuditError(f"draws and {what} of shapes {given} were given; give [S, B, K] and {shape}")


def _check(what: str, given: object) -> Tensor:
    """Return a tensor; raises AuditError for anything else, for an empty tensor, and for NaN."""
    if not isinstance(given, Tensor):
        raise AuditError(f"{what}: {type(given).__name__} was given; give a torch tensor (torch.from_numpy makes one)")
    if not given.numel() or bool(given.isnan().any()):
        problem = "NaN was" if given.numel() else "no numbers were"
        raise AuditError(f"{what}: {problem} given; give what a network says")
    return given
