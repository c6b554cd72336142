"""Which mean of the draws a reported prediction is, and whether two calls agree."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from bench.core.errors import ConfigError
from bench.judge.audit.findings import Finding, Outcome
from bench.judge.audit.objective import own_noise

CLOSE = 1e-3  # probability; reported numbers may be half precision


def averages(log_probs: Tensor) -> dict[str, Tensor]:
    """Return the means of draws [S, B, K] that are in use, as probabilities [B, K] (the second need not sum to 1)."""
    log_probs = log_probs.double()
    logs = log_probs.mean(0)
    return {
        "mean of probabilities": (log_probs.logsumexp(0) - math.log(len(log_probs))).exp(),
        "exp of mean log-probabilities": logs.exp(),
        "normalised exp of mean log-probabilities": logs.softmax(-1),
    }


def audit_prediction(log_probs: Tensor, reported: Tensor, subject: str = "prediction") -> list[Finding]:
    """Say which mean of the draws `log_probs` [S, B, K] the reported probabilities [B, K] are.

    Raises:
        ConfigError: the shapes do not fit, or there are numbers that are none.
    """
    _check("draws", log_probs)
    _check("prediction", reported)
    if log_probs.dim() != 3 or reported.shape != log_probs.shape[1:]:
        given = f"{tuple(log_probs.shape)} and {tuple(reported.shape)}"
        raise ConfigError(f"draws and prediction of shapes {given} were given; give [S, B, K] and [B, K]")
    reported = reported.double()
    off = float((reported.sum(-1) - 1).abs().max())
    draws_off = float((log_probs.double().logsumexp(-1).exp() - 1).abs().max())
    found = [
        Finding(
            "unnormalised-probabilities",
            subject,
            "fails" if max(off, draws_off) > CLOSE else "passes",
            f"sums are off 1 by {off:.2g} in the prediction and {draws_off:.2g} in the draws",
            {"largest": max(off, draws_off)},
        )
    ]
    gaps = {name: float((value - reported).abs().max()) for name, value in averages(log_probs).items()}
    nearest = min(gaps, key=lambda name: gaps[name])
    right = gaps["mean of probabilities"]
    apart = max(abs(gap - right) for gap in gaps.values())
    shown = ", ".join(f"{name} {gap:.2g}" for name, gap in gaps.items())
    if apart < CLOSE:
        found.append(Finding("log-average", subject, "not measured", f"the draws agree too well to tell ({shown})"))
    elif gaps[nearest] > CLOSE:
        detail = f"it is none of the known means; largest differences: {shown}"
        found.append(Finding("log-average", subject, "not measured", detail, gaps))
    else:
        outcome: Outcome = "passes" if nearest == "mean of probabilities" else "fails"
        found.append(Finding("log-average", subject, outcome, f"it is the {nearest}; differences: {shown}", gaps))
    return found


def entropy_of(log_probs: Tensor, reported: Tensor, subject: str = "entropy") -> Finding:
    """Say whether entropies [B], nats, are those of the mean of the draws' probabilities [S, B, K].

    Those of any mean that sums to one pass: the rule is on normalisation.

    Raises:
        ConfigError: the shapes do not fit, or there are numbers that are none.
    """
    _check("draws", log_probs)
    _check("entropies", reported)
    if log_probs.dim() != 3 or reported.shape != log_probs.shape[1:2]:
        given = f"{tuple(log_probs.shape)} and {tuple(reported.shape)}"
        raise ConfigError(f"draws and entropies of shapes {given} were given; give [S, B, K] and [B]")
    gaps = {name: float((_entropy(p) - reported.double()).abs().max()) for name, p in averages(log_probs).items()}
    nearest = min(gaps, key=lambda name: gaps[name])
    shown = ", ".join(f"of the {name} {gap:.2g}" for name, gap in gaps.items())
    if max(gaps.values()) - min(gaps.values()) < 10 * CLOSE:
        return Finding("unnormalised-entropy", subject, "not measured", f"the draws agree too well to tell ({shown})")
    if gaps[nearest] > 10 * CLOSE:  # half precision, again
        detail = f"it is that of none of the known means, or not in nats; largest differences: {shown}"
        return Finding("unnormalised-entropy", subject, "not measured", detail, gaps)
    outcome: Outcome = "fails" if nearest == "exp of mean log-probabilities" else "passes"
    return Finding("unnormalised-entropy", subject, outcome, f"it is that of the {nearest}; differences: {shown}", gaps)


def _entropy(probs: Tensor) -> Tensor:
    return -torch.xlogy(probs, probs).sum(-1)


def _check(what: str, given: object) -> Tensor:
    """Return a tensor; raises ConfigError for anything else, one without numbers, or one with some that are none."""
    if not isinstance(given, Tensor):
        raise ConfigError(f"{what}: {type(given).__name__} was given; give a torch tensor (torch.from_numpy makes one)")
    if not given.numel() or bool(given.isnan().any()):
        raise ConfigError(
            f"{what}: {'NaN was' if given.numel() else 'no numbers were'} given; give what a network says"
        )
    return given


def repeats(predict: Callable[[], Tensor], deterministic: bool, subject: str = "predictions") -> Finding:
    """Call `predict()` twice, from different seeds: a network that is deterministic at test gives the same twice.

    Raises:
        ConfigError: `predict()` returned no tensor, an empty one, or numbers that are none.
    """
    rule = "dropout-at-test"
    if not deterministic:
        return Finding(rule, subject, "not applicable", "the network is meant to draw at test")
    answers = []
    for seed in (0, 1):
        with own_noise(), torch.no_grad():
            torch.manual_seed(seed)
            answers.append(_check("what predict() returned", predict()).double())
    one, two = answers
    gap = float(torch.where(one == two, 0.0, one - two).abs().max())  # log 0 in both is no difference
    if gap > 1e-6 * float(one.nan_to_num(0, 0, 0).abs().max()):
        detail = f"two calls differ by up to {gap:.2g}, though the network is meant to be deterministic at test"
        return Finding(rule, subject, "fails", detail, {"largest difference": gap})
    return Finding(rule, subject, "passes", f"two calls differ by {gap:.2g} at most", {"largest difference": gap})
