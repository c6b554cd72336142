"""Which mistake explains the measured weights of the KL, and what should the user do?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from elbo_audit.weighing import TensorWeight, is_missing

NEAR = 0.1  # largest relative distance from the weight that a known mistake gives
NEARER = 0.02  # the same for a mean over tensors or layers of one size, which could fit a weight by chance


class Setting(NamedTuple):
    """What the weight of the KL in an epoch depends on."""

    n_train: int
    batch_size: int
    data_weight: float  # of the batch's summed NLL in the loss: 1 for a sum, 1 / B for a mean over rows

    @property
    def n_batches(self) -> float:
        """Return N / B."""
        return self.n_train / self.batch_size

    @property
    def is_mean(self) -> bool:
        """Return whether the loss is a mean over the rows."""
        return self.batch_size > 1 and _near(self.data_weight * self.batch_size, 1.0)


def advice(tensors: Sequence[TensorWeight], common: float | None, setting: Setting) -> str:
    """Say which mistake makes these weights, and what to do.

    Args:
        tensors: the groups whose weights are known.
        common: the weight that all of them have; None if they differ.
        setting: rows and batches of an epoch.
    """
    if common is not None:
        return _of_one_weight(common, tensors, setting)
    absent = [tensor.name for tensor in tensors if is_missing(tensor.per_epoch)]
    if absent:
        return f"the KL of {', '.join(absent)} is missing: add it to the loss"
    for part, sizes in _sizes(tensors).items():
        sums = [abs(tensor.per_epoch.value) * n for tensor, n in zip(tensors, sizes, strict=True)]
        if len(set(sizes)) > 1 and all(_near(value, sums[0]) for value in sums):
            text = f"each weight is in inverse proportion to a size: the KL is a mean over each {part}; sum it"
            after = _of_one_weight(sums[0], (), setting) if not _near(sums[0], 1.0) else ""
            return f"{text}{'; after that: ' + after if after else ''}"
    odd = [tensor for tensor in tensors if not _near(tensor.per_epoch.value, 1.0)]
    if 2 * len(odd) <= len(tensors):
        shown = " and of ".join(f"{tensor.name} by {1 / tensor.per_epoch.value:.3g}" for tensor in odd)
        return f"multiply the KL of {shown}: the others count once"
    return "let every tensor's KL count alike: multiply each by one number, the same for all"


def _sizes(tensors: Sequence[TensorWeight]) -> dict[str, list[int]]:
    """Return the number of weights in each tensor, and in the layer of each tensor: a mean divides by one of them.

    Tensors belong to one layer if their names are the same up to the last dot. With kl= a tensor may be a mean or a
    scale alone, so that the weights of a layer cannot be counted, and only the tensors' sizes are returned.
    """
    sizes = {"tensor": [tensor.n for tensor in tensors]}
    if all(tensor.precision is not None for tensor in tensors):
        layers = [tensor.name.split(",")[0].rpartition(".")[0] for tensor in tensors]
        of = Counter[str]()
        for layer, tensor in zip(layers, tensors, strict=True):
            of[layer] += tensor.n
        sizes["layer (weights and bias together)"] = [of[layer] for layer in layers]
    return sizes


def _of_one_weight(weight: float, tensors: Sequence[TensorWeight], setting: Setting) -> str:
    """Say which mistake makes the weight that all tensors have in common."""
    n_weights = sum(tensor.n for tensor in tensors)
    for value, text in _mistakes(n_weights, setting):
        if _near(weight, value):
            return text
    for part, sizes in _sizes(tensors).items():
        for value, right in _divided(setting):
            if max(sizes, default=n_weights) < n_weights and all(
                _near(abs(tensor.per_epoch.value) * n, value, NEARER) for tensor, n in zip(tensors, sizes, strict=True)
            ):
                return f"the KL is a mean over each {part}: sum it, and weigh it by {right}"
    rows = setting.n_train / weight
    return (
        f"multiply the KL by {1 / weight:.3g}: it is weighed as if there were {rows:.3g} training rows; if a warm-up "
        "or a temperature is meant, audit with its last value"
    )


def _mistakes(n_weights: int, setting: Setting) -> list[tuple[float, str]]:
    """Return the weight that each known mistake gives, and the advice. The first that fits is named."""
    n, batch, steps = setting.n_train, setting.batch_size, setting.n_batches
    per_size = [
        (value / n_weights, f"the KL is divided by the {n_weights:,} weights: sum it, and weigh it by {right}")
        for value, right in _divided(setting)
        if n_weights > 1
    ]
    if setting.is_mean:
        by_n = f"the loss is a mean over rows, so divide by N = {n:,}"
        return [
            (float(n), f"N is forgotten: the loss is a mean over rows, so divide the KL by N = {n:,}"),
            (steps, f"the KL is divided by the batch size: {by_n}"),
            (float(batch), f"the KL is divided by the number of batches: {by_n}"),
            (1 / steps, f"the KL is divided by N and by the number of batches: divide by N = {n:,} alone"),
            (1 / batch, f"the KL is divided by N and by the batch size: divide by N = {n:,} alone"),
            *per_size,
        ]
    by_steps = f"divide by the number of batches, {steps:.6g}"
    return [
        (steps, f"every batch pays the whole KL: divide it by the number of batches, {steps:.6g}"),
        (1 / batch, f"the KL is divided by N, but the loss is a sum: {by_steps}"),
        (1 / steps, "the KL is divided by the number of batches twice: divide once"),
        (steps / batch, f"the KL is divided by the batch size: the loss is a sum, so {by_steps}"),
        *per_size,
    ]


def _divided(setting: Setting) -> list[tuple[float, str]]:
    """Return ways to weigh a KL that is divided by a number of weights, as (weight, advice).

    The weight is that of an epoch, times this number of weights. The advice is how to weigh the KL once it is summed.
    """
    return [
        (1.0, "what you do"),
        (setting.n_batches, "1 / M"),
        (float(setting.n_train), "1 / N"),
        (float(setting.batch_size), "1 / N"),
    ]


def _near(value: float, other: float, near: float = NEAR) -> bool:
    return other > 0 and abs(math.log(max(value, 1e-300) / other)) < near
