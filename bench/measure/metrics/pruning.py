"""Prune a network: which weights are removed, which share of each layer is kept, and how many bytes that takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

import numpy as np
import torch
from torch import Tensor

from bench.core.errors import ConfigError
from bench.interface import Marginal
from bench.measure.metrics.arrays import BoolArray, FloatArray, as_float

FRACTIONS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.95, 0.98, 0.99, 1.0)  # 0, and all levels of the two runs of rabanser2017

_NUMBER_BYTES = 4  # float32
_INDEX_BYTES = 4  # uint32: position of a weight in its tensor


class PruningRow(TypedDict):
    """The size of a pruned network."""

    pruned_of_used: float  # share of the used weights that are pruned
    kept: int  # number of kept weights, used or not
    bytes: int  # see `sparse_bytes`
    layers: dict[str, float]  # share of each tensor's weights that is kept


def score_name(marginals: Mapping[str, Marginal]) -> Literal["|mu|/sigma", "|w|"]:
    """Return the name of the score: |mu|/sigma if every tensor has a sigma, else |w| for all tensors."""
    return "|w|" if any(marginal.std is None for marginal in marginals.values()) else "|mu|/sigma"


def pruning_scores(marginals: Mapping[str, Marginal]) -> dict[str, FloatArray]:
    """Return the signal-to-noise ratio |mu|/sigma of every weight (Graves 2011; Blundell et al. 2015), or |w|.

    If sigma is 0, the ratio is infinite. If the weight is 0, the ratio is 0.
    """
    magnitude = {name: np.abs(as_float(marginal.mean)) for name, marginal in marginals.items()}
    if score_name(marginals) == "|w|":
        return magnitude
    ratios: dict[str, FloatArray] = {}
    for name, marginal in marginals.items():
        assert marginal.std is not None
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = magnitude[name] / as_float(marginal.std)
        ratios[name] = np.where(magnitude[name] == 0, 0.0, ratio)
    return ratios


def prune(marginals: Mapping[str, Marginal], fraction: float, used_only: bool = False) -> dict[str, Tensor]:
    """Return for every tensor which weights are kept, bool on the CPU.

    Of n weights, int(n * fraction) are removed: those with the lowest scores, over all tensors together. If scores are
    equal, the earlier weight is removed first, in the order of the tensors and of their elements. With `used_only`, n
    counts only the weights that the prediction uses, and unused weights are kept.

    Raises:
        ConfigError: a fraction outside [0, 1], no weights, or a score that is NaN.
    """
    return prune_at(marginals, (fraction,), used_only)[fraction]


def prune_at(
    marginals: Mapping[str, Marginal], fractions: Sequence[float], used_only: bool = False
) -> dict[float, dict[str, Tensor]]:
    """Return the results of `prune` for several fractions. The weights are ranked only once."""
    for fraction in fractions:
        if not 0 <= fraction <= 1:
            raise ConfigError(f"pruning fraction {fraction} was given; allowed are numbers from 0 to 1, such as 0.95")
    if not marginals:
        raise ConfigError("a network without weights was given; there is nothing to prune: check its weights()")
    scores = np.concatenate([score.reshape(-1) for score in pruning_scores(marginals).values()])
    if np.isnan(scores).any():
        raise ConfigError("a weight or its sigma is NaN; a diverged network cannot be pruned")
    candidates = np.flatnonzero(_used(marginals)) if used_only else np.arange(len(scores))
    order = candidates[np.argsort(scores[candidates], kind="stable")]
    found = {}
    for fraction in fractions:
        keep = np.ones(len(scores), dtype=np.bool_)
        keep[order[: int(len(candidates) * fraction)]] = False
        found[fraction] = _unflatten(keep, marginals)
    return found


def pruning_row(marginals: Mapping[str, Marginal], keep: Mapping[str, Tensor], with_sigma: bool = True) -> PruningRow:
    """Describe a pruned network; `with_sigma` is False for the network of posterior means."""
    flat = np.concatenate([keep[name].cpu().numpy().reshape(-1) for name in marginals])
    used = _used(marginals)
    return {
        "pruned_of_used": float((~flat)[used].mean()) if used.any() else 0.0,
        "kept": int(flat.sum()),
        "bytes": sparse_bytes(marginals, keep, with_sigma),
        "layers": {name: float(keep[name].double().mean()) for name in marginals},
    }


def sparse_bytes(marginals: Mapping[str, Marginal], keep: Mapping[str, Tensor], with_sigma: bool = True) -> int:
    """Return the bytes of the pruned network, without headers.

    Each tensor takes the smaller of two forms. Sparse: every weight that is kept and used takes 4 bytes for its value,
    4 for its sigma (if it has one, and `with_sigma`) and 4 for its position in the tensor. Dense: every weight takes 4
    bytes for its value and 4 for its sigma. A tensor in which no used weight is kept takes nothing.
    """
    total = 0
    for name, marginal in marginals.items():
        n_kept = int((keep[name].cpu() & marginal.used.cpu()).sum())
        number = _NUMBER_BYTES * (2 if with_sigma and marginal.std is not None else 1)
        total += min(n_kept * (number + _INDEX_BYTES), marginal.mean.numel() * number)
    return total


def _used(marginals: Mapping[str, Marginal]) -> BoolArray:
    return np.concatenate([marginal.used.cpu().numpy().reshape(-1) for marginal in marginals.values()])


def _unflatten(keep: BoolArray, marginals: Mapping[str, Marginal]) -> dict[str, Tensor]:
    parts = torch.split(torch.from_numpy(keep), [marginal.mean.numel() for marginal in marginals.values()])
    return {
        name: part.reshape(marginal.mean.shape) for (name, marginal), part in zip(marginals.items(), parts, strict=True)
    }
