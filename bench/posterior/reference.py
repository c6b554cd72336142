"""A reference posterior: what two independent sets of four chains predict, whether it is accepted, and its floor.

A reference is two files in RESULTS/posterior: TASK.npz, the predictions of each chain, and TASK.json, a sealed line
with the diagnostics and the hash of the predictions. Acceptance follows from the files whenever they are read, and is
stored nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from statistics import fmean

import msgspec
import numpy as np

from bench.core.canonical import read_sealed, seal
from bench.core.errors import ConfigError, StoreError
from bench.core.files import is_there, reason, write_atomically
from bench.core.project import OWN, RESULTS
from bench.core.records import Provenance
from bench.core.row_scores import Scores
from bench.core.score_files import BROKEN, packed, read_arrays, scores_hash
from bench.core.text import one_line
from bench.posterior.distance import Floats, agreement, log_mean, total_variation, wasserstein
from bench.posterior.tasks import DIGITS, TEST, Task

FOLDER = "posterior"  # of a results folder
SCHEMA = 1
LARGEST = 64 << 20  # bytes of a reference's arrays, unpacked; they have 2 MB
N_CHAINS = 4  # of a set
FIRST, SECOND, EVERY = range(N_CHAINS), range(N_CHAINS, 2 * N_CHAINS), range(2 * N_CHAINS)
LEVELS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
"""The levels of the quantiles that are kept of R-hat and of the effective sample size."""
ALL = "all"  # all sets of rows together
LARGEST_RHAT = 1e9  # a larger one is written so: JSON has no infinity
QUANTILES, DENSITIES, ENERGIES = "quantiles", "log densities", "energies"
TOTAL_VARIATION, AGREEMENT = "total variation", "agreement"
WASSERSTEIN, LOG_LIKELIHOOD, JOINT = "Wasserstein-1", "log-likelihood", "joint log-loss"

MOST_RHAT, LEAST_ESS, ACCEPTED, MOST_FLOOR = 1.05, 400.0, (0.65, 0.9), 0.02
"""What accepts a reference, see `refusals`."""

Distances = dict[str, float]  # by metric


class ChainSet(msgspec.Struct, frozen=True):
    """What is kept of the run of one set of chains."""

    seed: int
    acceptance: list[float]  # of each chain, the mean probability after the warm-up
    step: float  # of a leapfrog, in units of the prior's standard deviation
    gradients: int  # of one chain, see `Chains.leapfrogs`
    divergences: int  # of all chains after the warm-up
    rhat: dict[str, list[float]]  # split R-hat of what is predicted, quantiles at LEVELS, by set of rows and for ALL
    ess: dict[str, list[float]]  # its effective sample size, likewise


class About(msgspec.Struct, frozen=True):
    """All of a reference but its predictions."""

    schema: int
    task: str
    definition: str  # of the task when it was made
    arrays: str  # `scores_hash` of the predictions
    chain_sets: tuple[ChainSet, ChainSet]
    joint_log_loss: float  # of all draws, nats for ten labels
    made: Provenance


@dataclass(frozen=True)
class Reference:
    """A reference and its predictions.

    The first axis of its arrays is the chain: 0 to 3 are the first set's. Classification: for each set of rows,
    probabilities float16 [8, B, K]. Regression: QUANTILES float32 [8, B, 200] and DENSITIES float32 [8, B] of the test
    targets, in the target's unit. Both: ENERGIES float32 [8, draws], nats.
    """

    about: About
    arrays: Scores

    @property
    def sets(self) -> list[str]:
        """Return the names of the sets of rows of a classification; none for a regression."""
        return [name for name in self.arrays if name not in (ENERGIES, QUANTILES, DENSITIES)]

    def predictive(self, name: str, chains: Sequence[int] = EVERY) -> Floats:
        """Return the mean of some chains' probabilities for a set of rows, [B, K], each row with the sum 1."""
        found: Floats = self._array(name, chains).mean(axis=0)
        return np.asarray(found / found.sum(axis=-1, keepdims=True))  # float16 moves a sum by up to 5e-4

    def quantiles(self, chains: Sequence[int] = EVERY) -> Floats:
        """Return the quantiles of some chains as one equally weighted sample, [B, 200 x chains]."""
        return np.concatenate(list(self._array(QUANTILES, chains)), axis=1)

    def log_likelihood(self, chains: Sequence[int] = EVERY) -> float:
        """Return the mean log density of the test targets under the mixture of some chains, nats."""
        return float(log_mean(self._array(DENSITIES, chains)).mean())

    @property
    def energies(self) -> Floats:
        """Return the energies of the draws, nats, [8, draws]."""
        return self._array(ENERGIES, EVERY)

    @property
    def main(self) -> tuple[str, str]:
        """Return the set of rows and the metric by which the reference is judged."""
        return (DIGITS, TOTAL_VARIATION) if self.sets else (TEST, WASSERSTEIN)

    def _array(self, name: str, chains: Sequence[int]) -> Floats:
        return np.asarray(self.arrays[name][list(chains)], dtype=np.float64)

    @cached_property
    def floor(self) -> dict[str, Distances]:
        """Return the distances between the two sets of chains, by set of rows.

        The difference of two log-likelihoods may be small by chance: it is the mean over all ways to make two sets of
        four of the eight chains. The joint log-loss has no floor: it is not kept by chain.
        """
        found = apart(self, FIRST, self, SECOND)
        if not self.sets:
            ways = [(half, [one for one in EVERY if one not in half]) for half in combinations(EVERY, N_CHAINS)]
            moved = [abs(self.log_likelihood(one) - self.log_likelihood(other)) for one, other in ways]
            found[TEST][LOG_LIKELIHOOD] = fmean(moved)
        return found

    def spread(self) -> dict[str, Distances]:
        """Return how far a chain is from the seven others, in the mean over the eight chains, by set of rows."""
        each = [apart(self, [one], self, [chain for chain in EVERY if chain != one]) for one in EVERY]
        return {
            name: {metric: fmean(found[name][metric] for found in each) for metric in metrics}
            for name, metrics in each[0].items()
        }


def apart(first: Reference, its: Sequence[int], second: Reference, others: Sequence[int]) -> dict[str, Distances]:
    """Return the distances between chains of two references, by set of rows; of agreement, what 1 exceeds it by."""
    if first.sets:
        near = {name: between(first.predictive(name, its), second.predictive(name, others)) for name in first.sets}
        return {name: {**found, AGREEMENT: 1 - found[AGREEMENT]} for name, found in near.items()}
    moved = wasserstein(first.quantiles(its), second.quantiles(others))
    return {TEST: {WASSERSTEIN: moved, LOG_LIKELIHOOD: abs(first.log_likelihood(its) - second.log_likelihood(others))}}


def between(first: Floats, second: Floats) -> Distances:
    """Return total variation and agreement of two predictives [B, K]."""
    return {TOTAL_VARIATION: total_variation(first, second), AGREEMENT: agreement(first, second)}


def refusals(reference: Reference) -> list[str]:
    """Return the conditions that a reference does not meet, each with its number; if there are none, it is accepted.

    Each set of chains must meet the first three by itself: split R-hat below 1.05 for 99.9 % of what is predicted, a
    median effective sample size above 400, and in every chain a mean acceptance of .65 to .9.
    """
    found = []
    for number, one in enumerate(reference.about.chain_sets, start=1):
        this = f"chain set {number}"
        rhat, ess = one.rhat[ALL][LEVELS.index(0.999)], one.ess[ALL][LEVELS.index(0.5)]
        if not rhat < MOST_RHAT:
            found.append(f"{this}: 99.9 % of the split R-hats lie below {rhat:.3f}, not below {MOST_RHAT}")
        if not ess > LEAST_ESS:
            found.append(f"{this}: the median effective sample size is {ess:.0f}, not above {LEAST_ESS:.0f}")
        outside = [part for part in one.acceptance if not ACCEPTED[0] <= part <= ACCEPTED[1]]
        if outside:
            found.append(f"{this}: a chain accepts {outside[0]:.2f}, not {ACCEPTED[0]} to {ACCEPTED[1]}")
    floor = reference.floor.get(DIGITS, {}).get(TOTAL_VARIATION, 0.0)
    if not floor <= MOST_FLOOR:
        found.append(f"floor: the chain sets differ by a total variation of {floor:.4f} on digits, above {MOST_FLOOR}")
    return found


def write(folder: Path, name: str, reference: Reference) -> None:
    """Write a reference into RESULTS/posterior; the predictions first, so that a kill leaves no diagnostics without."""
    write_atomically(folder / f"{name}.npz", packed(reference.arrays), folder)
    write_atomically(folder / f"{name}.json", seal(reference.about), folder)


def folder_of(file: str, results: Path | None = None) -> Path:
    """Return the folder that has a file of the references: of `results` (None: ./results), or if it lacks it, ours."""
    own, shipped = (root / FOLDER for root in (results or OWN, RESULTS))
    return shipped if is_there(shipped / file) and not is_there(own / file) else own


def find(name: str, task: Task, results: Path | None = None) -> Reference:
    """Return a task's reference, from where `folder_of` finds it.

    Raises:
        ConfigError: there is none.
        StoreError: see `read`.
    """
    folder = folder_of(f"{name}.json", results)
    if (found := read(folder, name, task)) is None:
        raise ConfigError(f"task '{name}' has no reference in {folder}; make it: python -m bench posterior {name}")
    return found


def read(folder: Path, name: str, task: Task) -> Reference | None:
    """Return a task's reference, or None if the folder has none.

    Raises:
        StoreError: it is damaged, or was made by another definition of the task.
    """
    path, again = folder / f"{name}.json", f"make it again: python -m bench posterior {name}"
    if not is_there(path):
        return None
    about = read_sealed(path, About, "reference", SCHEMA, again, folder)
    if (about.task, about.definition) != (name, task.definition):
        raise StoreError(f"reference {path} is of another definition of task '{name}' than today's; {again}")
    try:
        arrays = read_arrays(path.with_suffix(".npz"), "", folder, LARGEST)
    except BROKEN as error:
        raise StoreError(
            f"the predictions of reference {path} cannot be read ({one_line(reason(error))}); {again}"
        ) from error
    if scores_hash(arrays) != about.arrays:
        raise StoreError(f"the predictions of reference {path} are not those it names (their hash differs); {again}")
    return Reference(about, arrays)
