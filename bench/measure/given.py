"""Measure a model by its predictions alone: it was trained elsewhere, and its posterior is not here.

The protocols `common` and `shift` get the predictions in the place of the images, and a posterior that returns them. So
every number is computed by the code that measures a trained run. Shapes: S draws, n images of a set, K classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench.core.canonical import digest
from bench.core.errors import ConfigError, DataMissing
from bench.core.metric_table import N_CLASSES
from bench.core.row_scores import LONGEST
from bench.core.text import one_line
from bench.data.splits import split_hash
from bench.interface import Categorical, Noise, Posterior, Split
from bench.measure.measuring import Measurement
from bench.measure.metrics.shifts import MOST_ROWS
from bench.measure.protocols import Common
from bench.measure.shifted import CASES, SIDE, Shift, spread_rows
from bench.plan.manifests import ApproachManifest, RecipeSpec
from bench.plan.recipes import Profile

NORMALISED = 1e-3  # largest allowed difference between 1 and the sum of a row's probabilities
SAME_IMAGE = 0.01  # largest difference that rounding makes between one draw's answers to an image; bfloat16 has .004
PROBABILITIES = f"probabilities [n, {N_CLASSES}], or [S, n, {N_CLASSES}] of S draws"
Floats = NDArray[np.float32 | np.float64]
MOVED = "moved"  # the set of the digits that are turned and moved
_ENTRY = ApproachManifest(
    name="given", title="", class_name="", task="mnist", noise="weights", recipes={"published": RecipeSpec("")}
)


def images(budget: Profile, seed: int, data_dir: Path | None) -> dict[str, Split]:
    """Return all images that the protocols measure, by set, without an optional set that is not there.

    Raises DataMissing or DataCorrupt if the digits are not there, or a set is not intact.
    """
    common, shift = Common(_ENTRY, seed, budget, data_dir), Shift(_ENTRY, seed, budget, data_dir)
    found = {common.learnt.inside: common.split("test10k")}
    for name in common.learnt.outside:
        try:
            found[name] = common.ood(name)
        except DataMissing:  # `Common` gives the reason
            continue
    return {**found, MOVED: shift.moved(spread_rows(shift.split("test10k"), MOST_ROWS))}


def pixels(split: Split) -> NDArray[np.float32]:
    """Return the images of a set, float32 [n, 28, 28]."""
    return np.asarray(split.x.numpy()).reshape(-1, SIDE, SIDE)


def images_hash(found: Mapping[str, Split]) -> str:
    """Return the SHA-256 over the rows of every set, their order and their pixels."""
    return digest({name: split_hash(split) for name, split in found.items()})


def as_array(name: str, given: object, wanted: str = PROBABILITIES) -> Floats:
    """Return the predictions for set `name`, of any framework, as float32 or float64; raises ConfigError.

    `wanted` says in the error what to give.
    """
    try:
        found = np.asarray(given.detach().cpu() if isinstance(given, Tensor) else given)
        return found.astype(np.float64 if found.dtype.itemsize > 4 else np.float32, casting="same_kind")
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a list of tensors that require grad
        why = f"are no array of numbers ({one_line(str(error), 200)})"
        raise ConfigError(f"predictions for {name} {why}; give {wanted}") from error


def log_probabilities(name: str, found: Floats, n: int) -> Tensor:
    """Return log-probabilities [S, n, K], nats, of probabilities [n, K] or [S, n, K] for set `name`, or of their logs.

    Raises ConfigError for another shape, NaN, a negative probability, or a row that does not sum to 1.
    """
    probs = found[None] if found.ndim == 2 else found
    if probs.ndim != 3 or probs.shape[1:] != (n, N_CLASSES) or not 1 <= len(probs) <= LONGEST["draws"]:
        raise ConfigError(
            f"predictions for {name} have shape {list(found.shape)}; allowed are [{n}, {N_CLASSES}], or "
            f"[S, {n}, {N_CLASSES}] of 1 to {LONGEST['draws']} draws; give the probabilities of the digits 0 to 9"
        )
    if (probs <= 0).all():  # log-probabilities: a row of probabilities has a positive one
        log_sums = np.log(np.exp(probs).sum(2, keepdims=True, dtype=np.float64).clip(1e-300))
        if (np.abs(log_sums) <= NORMALISED).all():
            return torch.from_numpy((probs - log_sums).astype(found.dtype))
    sums = probs.sum(2, keepdims=True, dtype=np.float64)
    wrong = ~((np.abs(sums[..., 0] - 1) <= NORMALISED) & (probs >= 0).all(2))  # NaN fails both
    if wrong.any():
        draw, row = np.argwhere(wrong)[0]
        raise ConfigError(
            f"predictions for {name}, draw {draw}, image {row}: {np.array2string(probs[draw, row], precision=3)}; "
            f"allowed are probabilities, none negative or NaN, whose sum is 1 within {NORMALISED:g}; apply a softmax"
        )
    with np.errstate(divide="ignore"):  # a model may call a digit impossible
        return torch.from_numpy(np.log(probs / sums).astype(found.dtype))


def measured(
    log_probs: Mapping[str, Tensor], budget: Profile, seed: int, data_dir: Path | None
) -> dict[str, Measurement]:
    """Return what each protocol measures, by its name, from log-probabilities [S, n, K] for every set of `images`.

    Raises ConfigError if the sets have different numbers of draws.
    """
    n_draws = len(log_probs[MOVED])
    if any(len(one) != n_draws for one in log_probs.values()):
        listed = ", ".join(f"{name} {len(one)}" for name, one in log_probs.items())
        raise ConfigError(f"the sets have different numbers of draws: {listed}; give the same number for each set")
    model, budget = PredictionsAlone(n_draws, noise_of(log_probs[MOVED])), dataclasses.replace(budget, draws=n_draws)
    protocols = _Common(_ENTRY, seed, budget, data_dir), _Shift(_ENTRY, seed, budget, data_dir)
    for protocol in protocols:
        protocol.log_probs = log_probs
    common, shift = (protocol.final(model, []) for protocol in protocols)
    return {"common": common, "shift": shift}


def noise_of(moved: Tensor) -> Noise:
    """Return what is random in a draw, from the log-probabilities [S, n, K] of the set `MOVED`.

    It has each digit twice, turned by 0 degrees and moved by 0 pixels. "row": a draw answers the two differently, so it
    is no network of its own. Masks that a batch shares are seen where the two are in different batches.
    """
    cases = moved.reshape(len(moved), len(CASES), -1, N_CLASSES).exp()
    turned, shifted = (cases[:, place] for place, (_, step) in enumerate(CASES) if step == 0)
    if (turned - shifted).abs().max() > SAME_IMAGE:
        return "row"
    return "none" if len(moved) == 1 else "weights"


class PredictionsAlone(Posterior):
    """A posterior for which a row of x has the log-probabilities of all draws, [S K]."""

    def __init__(self, n_draws: int, noise: Noise) -> None:
        self.n_draws: int = n_draws
        self.noise = noise

    def predict(self, x: Tensor, draws: range, rows: Tensor) -> Categorical:
        """See `Posterior.predict`."""
        del rows
        return Categorical(x.view(len(x), self.n_draws, N_CLASSES)[:, draws.start : draws.stop].transpose(0, 1))

    def arrays(self) -> Mapping[str, Tensor]:
        """Return nothing: it is not stored."""
        return {}


class _Common(Common):
    log_probs: Mapping[str, Tensor]

    def split(self, name: str) -> Split:
        return _answered(super().split(name), self.log_probs[self.learnt.inside])

    def ood(self, name: str) -> Split:
        return _answered(super().ood(name), self.log_probs[name])


class _Shift(Shift):
    log_probs: Mapping[str, Tensor]

    def moved(self, split: Split) -> Split:
        return _answered(super().moved(split), self.log_probs[MOVED])


def _answered(split: Split, log_probs: Tensor) -> Split:
    """Return the split with log-probabilities [S, n, K] in the place of the pixels, as [n, S K]."""
    return dataclasses.replace(split, x=log_probs.transpose(0, 1).flatten(1))
