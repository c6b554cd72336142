"""The lengths of fits: has the objective stopped rising? It was decided before the first fit that it judges.

The ELBO of an epoch is -(data term + KL), nats. The last 100 epochs are two blocks of 50, and each of these is five
blocks of ten. The ELBO is flat if the means of the two blocks differ

- by less than `TIMES` standard errors, made from the means of ten epochs: s sqrt(1/5 + 1/5), where s^2 is their
  variance inside the two blocks, with 4 + 4 degrees of freedom; and
- by less than `SHARE` of the KL of the last epoch.

An ELBO that only scatters passes the first in 92 % of cases (P(|t| < 2), 8 degrees of freedom). A straight slope fails
it: with 1 nat an epoch the blocks differ by 50 nats, and the standard error is 10.

Reads the numbers of shorter fits of Blundell et al. 2015 from the records of longer fits.

The number of epochs ends the loop of these fits and changes nothing else (`implementations/_seeds.py`). So a fit of 150
epochs equals the first 150 epochs of a fit of 600 with the same seed, whose record has the errors after each epoch.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec import structs

from bench.core.records import Record, Timings
from bench.judge.results import Results
from bench.measure.metrics.epochs import last_epoch
from bench.plan.recipes import profile
from bench.plan.registry import manifests

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


def records_of(results: Results, approach: str, recipe: str, protocol: str) -> list[Record]:
    """Return the records of a trained run. For seeds without a record, finished longer fits give one."""
    found = results.trained_run(approach, recipe, protocol)
    seeds = {record.seed for record in found}
    return [*found, *(one for one in from_longer(results, approach, recipe, protocol) if one.seed not in seeds)]


def siblings(results: Results, approach: str, recipe: str, protocol: str) -> list[str]:
    """Return the other recipes of an approach that a protocol measured; of those with the same fits, only one."""

    def fits(name: str) -> str:
        return longer_recipe(approach, name, protocol)[0] or name

    names = {fits(name): name for name in results.measured_recipes(approach, protocol)}
    return [name for base, name in names.items() if base != fits(recipe)]


def from_longer(results: Results, approach: str, recipe: str, protocol: str) -> Iterator[Record]:
    """Yield for each finished longer fit the record that a fit of this recipe would have, without draws and times."""
    longer, epochs = longer_recipe(approach, recipe, protocol)
    for record in results.trained_run(approach, longer, protocol) if longer else ():
        length = min(epochs, profile(record.profile).epochs or epochs)
        first = record.epochs[:length]
        if record.outcome == "done" and len(first) == length:
            errors = last_epoch([epoch.metrics for epoch in first])
            yield structs.replace(record, recipe=recipe, epochs=first, metrics=errors, missing={}, timings=Timings())


def longer_recipe(approach: str, recipe: str, protocol: str) -> tuple[str, int]:
    """Return the recipe without its changes of the number of epochs, and that number; ("", 0) without such a change."""
    entry = manifests().get(approach)
    if entry is None or entry.group != "paper" or protocol != "published":
        return "", 0
    epochs = {name: one.values["epochs"] for name, one in entry.variants.items() if [*one.values] == ["epochs"]}
    parts = recipe.split("+")
    asked = [epochs[part] for part in parts if part in epochs]
    return ("+".join(part for part in parts if part not in epochs), int(asked[-1])) if asked else ("", 0)
