"""Which mistake explains the KL's weights? Advice that fits the pattern of the tensors' weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from bench.judge.audit.elbo.weighing import TensorWeight, is_missing

NEAR = 0.1  # largest relative distance from the weight that a known mistake gives


class Setting(NamedTuple):
    """What an epoch is."""

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
        common: the weight of all of them, None where they differ.
        setting: what an epoch is.
    """
    if common is not None:
        return _of_one_weight(common, sum(tensor.n for tensor in tensors), setting)
    absent = [tensor.name for tensor in tensors if is_missing(tensor.per_epoch)]
    if absent:
        return f"the KL of {', '.join(absent)} is missing: add it to the loss"
    sums = [abs(tensor.per_epoch.value) * tensor.n for tensor in tensors]
    if len({tensor.n for tensor in tensors}) > 1 and all(_near(value, sums[0]) for value in sums):
        text = "each weight is in inverse proportion to the tensor's size: the KL is a mean over each tensor; sum it"
        after = _of_one_weight(sums[0], 0, setting) if not _near(sums[0], 1.0) else ""
        return f"{text}{'; after that: ' + after if after else ''}"
    return "let every tensor's KL count alike: multiply each by one number, the same for all"


def _of_one_weight(weight: float, n_weights: int, setting: Setting) -> str:
    """Say which mistake makes the weight that all tensors have in common."""
    for value, text in _mistakes(n_weights, setting):
        if _near(weight, value):
            return text
    rows = setting.n_train / weight
    return (
        f"multiply the KL by {1 / weight:.3g}: it is weighed as if there were {rows:.3g} training rows; if a warm-up "
        "or a temperature is meant, audit with its last value"
    )


def _mistakes(n_weights: int, setting: Setting) -> list[tuple[float, str]]:
    """Return what known mistakes make of the weight; the first that fits is named."""
    n, batch, steps = setting.n_train, setting.batch_size, setting.n_batches
    per_size = [
        (
            value / n_weights,
            f"the KL is divided by the {n_weights:,} weights: sum it, and weigh it by {right}",
        )
        for value, right in [(1.0, "what you do"), (steps, "1 / M"), (float(n), "1 / N"), (float(batch), "1 / N")]
        if n_weights > 1
    ]
    if setting.is_mean:
        return [
            (float(n), f"N is forgotten: the loss is a mean over rows, so divide the KL by N = {n:,}"),
            (steps, f"the KL is divided by the batch size: the loss is a mean over rows, so divide by N = {n:,}"),
            (
                float(batch),
                f"the KL is divided by the number of batches: the loss is a mean over rows, so divide by N = {n:,}",
            ),
            (1 / steps, f"the KL is divided by N and by the number of batches: divide by N = {n:,} alone"),
            (1 / batch, f"the KL is divided by N and by the batch size: divide by N = {n:,} alone"),
            *per_size,
        ]
    return [
        (steps, f"every batch pays the whole KL: divide it by the number of batches, {steps:.6g}"),
        (
            1 / batch,
            f"the KL is divided by N, but the loss is a sum: divide by the number of batches, {steps:.6g}",
        ),
        (1 / steps, "the KL is divided by the number of batches twice: divide once"),
        (
            steps / batch,
            f"the KL is divided by the batch size: the loss is a sum, so divide by the number of batches, {steps:.6g}",
        ),
        *per_size,
    ]


def _near(value: float, other: float) -> bool:
    return other > 0 and abs(math.log(max(value, 1e-300) / other)) < NEAR
