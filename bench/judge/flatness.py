"""Whether the objective of a fit has stopped rising: decided before the first fit that it judges.

The ELBO of an epoch is -(data term + KL), nats. The last 100 epochs are two blocks of 50, and each of these is five
blocks of ten. The ELBO is flat if the means of the two blocks differ

- by less than `TIMES` standard errors, made from the means of ten epochs: s sqrt(1/5 + 1/5), where s^2 is their
  variance inside the two blocks, with 4 + 4 degrees of freedom; and
- by less than `SHARE` of the KL of the last epoch.

An ELBO that only scatters passes the first in 92 % of cases (P(|t| < 2), 8 degrees of freedom). A straight slope fails
it: with 1 nat an epoch the blocks differ by 50 nats, and the standard error is 10.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.core.records import Record

BLOCK, PART = 50, 10  # epochs
TIMES, SHARE = 2.0, 0.005


@dataclass(frozen=True)
class Flatness:
    """The last 100 epochs of a fit, nats."""

    change: float  # of the mean ELBO, from the last block but one to the last block
    error: float  # standard error of the change
    data: float  # data term of the last epoch: negative log-likelihood of all training rows
    kl: float  # of the last epoch

    @property
    def is_flat(self) -> bool:
        """Return whether the change is less than both bounds."""
        return abs(self.change) < TIMES * self.error and abs(self.change) < SHARE * self.kl


def flatness(data: Sequence[float], kl: Sequence[float]) -> Flatness | None:
    """Judge a fit by its data term and KL after each epoch, nats; None with fewer than 100 epochs."""
    elbo = [-(one + other) for one, other in zip(data, kl, strict=True)][-2 * BLOCK :]
    if len(elbo) < 2 * BLOCK:
        return None
    parts = [statistics.fmean(elbo[start : start + PART]) for start in range(0, 2 * BLOCK, PART)]
    half = BLOCK // PART
    before, after = parts[:half], parts[half:]
    variance = (statistics.variance(before) + statistics.variance(after)) / 2
    change = statistics.fmean(after) - statistics.fmean(before)
    return Flatness(change, math.sqrt(2 * variance / half), data[-1], kl[-1])


def terms_of(record: Record, n_train: int) -> tuple[list[float], list[float]] | None:
    """Return the data term and the KL after each epoch, nats; None if an epoch lacks one.

    A record has the data term as "train_nll", nats a row, and the KL as "kl", or else as "complexity", of one draw.
    `n_train`: number of training rows.
    """
    data, kl = [], []
    for epoch in record.epochs:
        named = {key.rpartition("/")[2]: value for key, value in epoch.metrics.items()}
        nll, divergence = named.get("train_nll"), named.get("kl", named.get("complexity"))
        if nll is None or divergence is None:
            return None
        data.append(n_train * nll)
        kl.append(divergence)
    return data, kl
