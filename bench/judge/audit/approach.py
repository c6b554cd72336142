"""The rules over an approach as a black box: what its fits and predictions give away through the contract.

A few steps on made-up rows suffice. Half of the inputs are blank in every training row: their weights see the KL alone,
so that they show where it pulls, and whether noise drowns it. Fits with another N that are equal show a KL that is not
scaled by it. How often the KL counts cannot be seen from outside: `bench.judge.audit.elbo` measures it on the
objective.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from bench.core.errors import BenchError, Unsupported
from bench.interface import Marginal
from bench.judge.audit.documents import declared
from bench.judge.audit.findings import Finding, Outcome
from bench.judge.audit.predictions import repeats
from bench.judge.audit.probe import FULL_ROWS, Probe
from bench.judge.contract import ROWS, SAME, STEPS, Subject

PULLED = 0.2  # correlation of a weight's step with the weight, below which the KL is lost in noise
STILL = 0.05  # relative change of sigma over the planned training, below which it stays where it started


def audit_approach(name: str, recipe: str = "published") -> list[Finding]:
    """Apply every rule that an approach can be put to; what its recipe is known to fail is marked so."""
    probe = Probe(name, recipe)
    known = declared(probe.subject.manifest, probe.subject.recipe)
    found: list[Finding] = []
    for rule, check in _CHECKS.items():
        try:
            outcome, detail, measured = check(probe)
        except BenchError as error:
            outcome, detail, measured = "not measured", str(error), {}
        except Exception as error:  # noqa: BLE001 - the approach is another's; the contract checks say where it broke
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            outcome, detail, measured = "not measured", f"it raised {text}", {}
        if outcome == "fails" and rule in known:
            outcome, detail = "known", f"{detail}; {known[rule]}"
        found.append(Finding(rule, probe.title, outcome, detail, measured))
    return found


_Answer = tuple[Outcome, str, dict[str, float]]


def _normalised(probe: Probe) -> _Answer:
    if not probe.is_classifier:
        return "not applicable", "it predicts no probabilities", {}
    off = float((probe.predict(probe.posterior).double().logsumexp(-1).exp() - 1).abs().max())
    return "fails" if off > SAME else "passes", f"sums of probabilities are off 1 by {off:.1g}", {"largest": off}


def _same_twice(probe: Probe) -> _Answer:
    if probe.posterior.n_draws == 1:
        network, what = probe.posterior, "the network, which has one draw,"
    elif probe.offers("mean_network"):
        network, what = probe.posterior.mean_network(), "the mean network"
    else:
        return "not applicable", "it is meant to draw at test, and has no mean network", {}
    finding = repeats(lambda: probe.predict(network), deterministic=True)
    return finding.outcome, f"{what} predicts: {finding.detail}", dict(finding.measured)


def _all_used(probe: Probe) -> _Answer:
    if not probe.offers("masked"):
        return "not applicable", "it cannot be pruned, so that no layer can be taken away", {}
    marginals = probe.posterior.weights()
    whole = probe.predict(probe.posterior)
    idle = []
    for name, marginal in marginals.items():
        something = bool(marginal.mean.any()) or (marginal.std is not None and bool(marginal.std.any()))
        keep = {n: torch.full_like(m.used, n != name) for n, m in marginals.items()}
        if something and torch.allclose(probe.predict(probe.posterior.masked(keep)), whole, atol=SAME, rtol=0):
            idle.append(name)
    if idle:
        return "fails", f"taking away {', '.join(idle)} changes no prediction", {"tensors": len(idle)}
    return "passes", f"taking away any of {len(marginals)} parameter tensors changes the predictions", {"tensors": 0}


def _prunes_noise(probe: Probe) -> _Answer:
    if not probe.offers("masked"):
        return "not applicable", "it cannot be pruned", {}
    marginals = probe.posterior.weights()
    nothing = {name: torch.zeros_like(m.used) for name, m in marginals.items()}
    empty = probe.posterior.masked(nothing)
    left = max((float(m.std.max()) for m in empty.weights().values() if m.std is not None), default=0.0)
    answers = probe.predict(empty)
    spread = float((answers - answers[:1]).abs().max())
    detail = f"with every weight pruned sigma is {left:.3g} at most and draws differ by {spread:.3g}"
    return "fails" if left > 0 or spread > SAME else "passes", detail, {"sigma": left, "spread": spread}


def _kl_pull(probe: Probe) -> tuple[float, float]:
    """Return the correlation of blank inputs' weights with their steps, and the steps' size."""
    before, after = (_of_inputs(weights, probe.blank) for weights in probe.small.weights[-2:])
    step = after.mean - before.mean
    size = float(step.abs().mean())
    if size == 0 or before.mean.std() == 0:
        return math.nan, size
    return float(torch.corrcoef(torch.stack([before.mean.flatten(), step.flatten()]))[0, 1]), size


def _of_inputs(weights: Mapping[str, Marginal], inputs: Tensor) -> Marginal:
    """Return the first layer's weights of some inputs; raises Unsupported where no tensor has one axis of inputs."""
    for marginal in weights.values():
        axes = [axis for axis, size in enumerate(marginal.mean.shape) if size == len(inputs)]
        if len(axes) == 1 and marginal.mean.dim() == 2:
            place = inputs.nonzero().flatten()
            std = None if marginal.std is None else marginal.std.index_select(axes[0], place)
            return Marginal(marginal.mean.index_select(axes[0], place), std, marginal.used)
    raise Unsupported(
        "no matrix of weights has one axis as long as an image: which weights see blank inputs is unknown"
    )


def _needs_sigma(probe: Probe) -> str:
    if not probe.is_classifier:
        return "made for images, whose inputs can be blank"
    return "" if probe.has_sigma else "no weight has a sigma"


def _kl_sign(probe: Probe) -> _Answer:
    if reason := _needs_sigma(probe):
        return "not applicable", reason, {}
    pull, size = _kl_pull(probe)
    if math.isnan(pull):
        return "not applicable", "weights of blank inputs do not move: nothing pulls them to a prior", {}
    detail = f"steps of blank inputs' weights correlate {pull:+.2f} with the weights"
    if abs(pull) < PULLED:
        return "not measured", f"{detail}: its direction is lost in noise", {"correlation": pull, "step": size}
    return "fails" if pull > 0 else "passes", detail, {"correlation": pull, "step": size}


def _kl_drowned(probe: Probe) -> _Answer:
    if reason := _needs_sigma(probe):
        return "not applicable", reason, {}
    pull, size = _kl_pull(probe)
    if math.isnan(pull):
        return "not applicable", "weights of blank inputs do not move: nothing pulls them to a prior", {}
    detail = (
        f"weights that only the KL reaches step by {size:.2g}, correlated {pull:+.2f} with the weights: "
        f"{'noise, as where log q takes its means as constants' if abs(pull) < PULLED else 'the prior shows'}"
    )
    return "fails" if abs(pull) < PULLED else "passes", detail, {"correlation": pull, "step": size}


def _kl_scale(probe: Probe) -> _Answer:
    if reason := _needs_sigma(probe):
        return "not applicable", reason, {}
    one, other = probe.small.arrays, probe.large.arrays
    gap = max(float((one[name].double() - other[name].double()).abs().max()) for name in one)
    if gap == 0:
        detail = f"fits with N = {ROWS} and N = {FULL_ROWS:,} are the same to the bit: the KL does not know N"
        return "fails", detail, {"difference": gap}
    # Twice the KL, or its wrong sign, makes the fit depend on N just as well.
    detail = (
        f"fits that differ in N alone differ by up to {gap:.2g}; how often the KL counts needs bench.judge.audit.elbo"
    )
    return "not measured", detail, {"difference": gap}


def _sigma_moves(probe: Probe) -> _Answer:
    if reason := _needs_sigma(probe):
        return "not applicable", reason, {}
    whole = Subject(probe.subject.name, probe.subject.recipe.name).approach(1_000_000)
    steps = whole.epochs * math.ceil(FULL_ROWS / getattr(whole, "batch_size", 128))
    before, after = probe.large.weights[-2:]
    pairs = [(marginal.std, after[name].std) for name, marginal in before.items()]
    drifts = [(end / start).log().double() for start, end in pairs if start is not None and end is not None]
    reach = abs(float(torch.cat([drift.flatten() for drift in drifts]).mean())) / STEPS * steps
    far = f"{reach:.2g}" if reach < 1 else "more than 1"  # beyond that the first steps' pace says nothing
    detail = f"at the pace of its first steps log sigma changes by {far} in the planned {steps:,}"
    return "fails" if reach < STILL else "passes", detail, {"relative change": reach}


_CHECKS: dict[str, Callable[[Probe], _Answer]] = {
    "kl-scale": _kl_scale,
    "kl-sign": _kl_sign,
    "detached-gradient": _kl_drowned,
    "sigma-frozen": _sigma_moves,
    "unused-layer": _all_used,
    "pruned-noise": _prunes_noise,
    "dropout-at-test": _same_twice,
    "unnormalised-probabilities": _normalised,
}
