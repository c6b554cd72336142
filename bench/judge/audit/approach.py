"""The rules for an approach as a black box: what its fits and predictions show through the contract.

A few steps on made-up rows suffice. For the rules on KL and sigma, half of the inputs are blank in every training row.
No data reach the weights of a blank input, so their steps show where the KL pulls, and whether noise hides the pull. If
fits with two different N are equal, the KL is not scaled by N. How often the KL counts cannot be seen from outside:
`elbo_audit` measures it on the objective.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from bench.core.errors import BenchError, Unsupported
from bench.interface import Marginal
from bench.judge.audit.documents import declared
from bench.judge.audit.probe import FULL_ROWS, Probe
from bench.judge.audit.rules import Finding
from bench.judge.contract import ROWS, SAME, STEPS
from elbo_audit.errors import AuditError
from elbo_audit.findings import Seen
from elbo_audit.predictions import off_one, repeats

PULLED = 0.2  # least correlation of weights with their steps that shows a pull; a weaker one is lost in noise
SURE = 3.0  # standard errors
STILL = 0.05  # relative change of sigma over the planned training; below it, sigma counts as frozen


def audit_approach(name: str, recipe: str = "published") -> list[Finding]:
    """Apply every rule for approaches. A failure that the recipe declares is `known`."""
    probe = Probe(name, recipe)
    known = declared(probe.subject.manifest, probe.subject.recipe)
    found: list[Finding] = []
    for rule, check in _CHECKS.items():
        try:
            seen = (_why_no_sigma(probe) if rule in _OF_SIGMA else None) or check(probe)
        except (BenchError, AuditError) as error:
            seen = Seen("not measured", str(error))
        except Exception as error:  # noqa: BLE001 - the approach is another's; the contract checks say where it broke
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            seen = Seen("not measured", f"it raised {text}")
        if seen.outcome == "fails" and rule in known:
            seen = Seen("known", f"{seen.detail}; {known[rule]}", seen.measured)
        found.append(Finding(rule, f"{name} {recipe}", *seen))
    return found


def _normalised(probe: Probe) -> Seen:
    if not probe.subject.is_classifier:
        return Seen("not applicable", "it predicts no probabilities")
    off = off_one(probe.subject.predict(probe.posterior))
    detail = f"sums of probabilities are off 1 by {off:.1g}"
    return Seen("fails" if off > SAME else "passes", detail, {"largest": off})


def _same_twice(probe: Probe) -> Seen:
    if probe.posterior.n_draws == 1:
        network, what = probe.posterior, "the network, which has one draw,"
    elif probe.subject.declares("mean_network"):
        network, what = probe.posterior.mean_network(), "the mean network"
    else:
        return Seen("not applicable", "it is meant to draw at test, and has no mean network")
    seen = repeats(lambda: probe.subject.predict(network), deterministic=True)
    return Seen(seen.outcome, f"{what} predicts: {seen.detail}", seen.measured)


def _all_used(probe: Probe) -> Seen:
    if not probe.subject.declares("masked"):
        return Seen("not applicable", "it cannot be pruned, so that no layer can be taken away")
    marginals = probe.posterior.weights()
    whole = probe.subject.predict(probe.posterior)
    idle = []
    for name, marginal in marginals.items():
        something = bool(marginal.mean.any()) or (marginal.std is not None and bool(marginal.std.any()))
        keep = {n: torch.full_like(m.used, n != name) for n, m in marginals.items()}
        if something and torch.allclose(probe.subject.predict(probe.posterior.masked(keep)), whole, atol=SAME, rtol=0):
            idle.append(name)
    if idle:
        return Seen("fails", f"taking away {', '.join(idle)} changes no prediction", {"tensors": len(idle)})
    detail = f"taking away any of {len(marginals)} parameter tensors changes the predictions"
    return Seen("passes", detail, {"tensors": 0})


def _prunes_noise(probe: Probe) -> Seen:
    if not probe.subject.declares("masked"):
        return Seen("not applicable", "it cannot be pruned")
    marginals = probe.posterior.weights()
    nothing = {name: torch.zeros_like(m.used) for name, m in marginals.items()}
    empty = probe.posterior.masked(nothing)
    left = max((float(m.std.max()) for m in empty.weights().values() if m.std is not None), default=0.0)
    answers = probe.subject.predict(empty)
    spread = float((answers - answers[:1]).abs().max())
    detail = f"with every weight pruned sigma is {left:.3g} at most and draws differ by {spread:.3g}"
    return Seen("fails" if left > 0 or spread > SAME else "passes", detail, {"sigma": left, "spread": spread})


def _why_no_sigma(probe: Probe) -> Seen | None:
    """Return why the rules on KL and sigma do not apply to this approach; None if they do."""
    if not probe.subject.is_classifier:
        return Seen("not applicable", "made for images, whose inputs can be blank")
    return None if probe.has_sigma else Seen("not applicable", "no weight has a sigma")


def _kl_sign(probe: Probe) -> Seen:
    pull, size = _kl_pull(probe)
    if math.isnan(pull):
        return Seen("not applicable", "weights of blank inputs do not move, so no prior pulls them")
    detail = f"steps of blank inputs' weights correlate {pull:+.2f} with the weights"
    measured = {"correlation": pull, "step": size}
    if abs(pull) < PULLED:
        return Seen("not measured", f"{detail}: noise hides its direction", measured)
    return Seen("fails" if pull > 0 else "passes", detail, measured)


def _kl_drowned(probe: Probe) -> Seen:
    pull, size = _kl_pull(probe)
    if math.isnan(pull):
        return Seen("not applicable", "weights of blank inputs do not move, so no prior pulls them")
    drowned = abs(pull) < PULLED
    detail = (
        f"weights that only the KL reaches step by {size:.2g}, correlated {pull:+.2f} with the weights: "
        f"{'noise, as if log q treated its means as constants' if drowned else 'the prior shows'}"
    )
    return Seen("fails" if drowned else "passes", detail, {"correlation": pull, "step": size})


def _kl_pull(probe: Probe) -> tuple[float, float]:
    """Return the correlation of the blank inputs' weights with their steps, and the mean size of the steps."""
    before, after = (_of_inputs(weights, probe.blank) for weights in probe.trail(ROWS).last(2))
    step = after - before
    size = float(step.abs().mean())
    if size == 0 or before.std() == 0:
        return math.nan, size
    return float(torch.corrcoef(torch.stack([before.flatten(), step.flatten()]))[0, 1]), size


def _of_inputs(weights: Mapping[str, Marginal], inputs: Tensor) -> Tensor:
    """Return the means of the weights of some inputs; raises Unsupported if the first layer cannot be told."""
    for marginal in weights.values():
        axes = [axis for axis, size in enumerate(marginal.mean.shape) if size == len(inputs)]
        if len(axes) == 1 and marginal.mean.dim() == 2:
            return marginal.mean.index_select(axes[0], inputs.nonzero().flatten())
    raise Unsupported(
        "no matrix of weights has one axis as long as an image: which weights see blank inputs is unknown"
    )


def _kl_scale(probe: Probe) -> Seen:
    one, other = probe.trail(ROWS).arrays, probe.trail(FULL_ROWS).arrays
    difference = max(float((one[name].double() - other[name].double()).abs().max()) for name in one)
    if difference == 0:
        detail = f"fits with N = {ROWS} and N = {FULL_ROWS:,} are the same to the bit: the KL does not know N"
        return Seen("fails", detail, {"difference": difference})
    # A KL that counts twice, or with the wrong sign, makes the fit depend on N just as well.
    detail = f"fits that differ in N alone differ by up to {difference:.2g}; how often the KL counts needs elbo_audit"
    return Seen("not measured", detail, {"difference": difference})


def _sigma_moves(probe: Probe) -> Seen:
    trail = probe.trail(FULL_ROWS, epochs=3)  # the moves of two epochs tell drift from noise
    stds = torch.stack([_stds(weights) for weights in trail.last(3)])
    moving = stds.min(0).values > 0  # a sigma of zero has no logarithm
    if not moving.any():
        return Seen("fails", "every sigma is zero in training", {"relative change": 0.0})
    one, two, three = stds[:, moving].log()
    product = (two - one) * (three - two)  # its mean is the squared drift: the noise of the epochs is independent
    drift = float(product.mean())
    sure = drift > SURE * float(product.std()) / math.sqrt(product.numel())
    steps = probe.planned_steps
    if steps is None:
        return Seen("not measured", "how many steps are planned is unknown: give the approach a field batch_size")
    epochs = steps / STEPS  # in the probe's short epochs
    walk = float((two - one).abs().mean()) * math.sqrt(epochs)  # how far noise alone gets
    reach = max(walk, math.sqrt(drift) * epochs if sure else 0.0)
    far = f"{reach:.2g}" if reach < 1 else "more than 1"  # beyond 1, the first steps say nothing
    detail = f"at the pace of its first steps log sigma changes by {far} in the planned {steps:,}"
    return Seen("fails" if reach < STILL else "passes", detail, {"relative change": reach})


def _stds(weights: Mapping[str, Marginal]) -> Tensor:
    return torch.cat([m.std.double().flatten() for m in weights.values() if m.std is not None])


_OF_SIGMA = ("kl-scale", "kl-sign", "detached-gradient", "sigma-frozen")
_CHECKS: dict[str, Callable[[Probe], Seen]] = {
    "kl-scale": _kl_scale,
    "kl-sign": _kl_sign,
    "detached-gradient": _kl_drowned,
    "sigma-frozen": _sigma_moves,
    "unused-layer": _all_used,
    "pruned-noise": _prunes_noise,
    "dropout-at-test": _same_twice,
    "unnormalised-probabilities": _normalised,
}
