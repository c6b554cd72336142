"""Make a reference from two sets of four chains, or check it with one chain more."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench.core import environment
from bench.core.errors import ConfigError, StoreError
from bench.core.locks import Busy, lock
from bench.core.row_scores import Scores
from bench.core.score_files import scores_hash
from bench.interface import Split
from bench.posterior.distance import (
    Floats,
    effective_size,
    joint_log_loss,
    mixture_log_density,
    mixture_quantiles,
    normal_log_density,
    split_r_hat,
)
from bench.posterior.gradient import Target
from bench.posterior.hmc import Chains, sample
from bench.posterior.network import Network
from bench.posterior.reference import (
    ALL,
    DENSITIES,
    ENERGIES,
    LARGEST_RHAT,
    LEVELS,
    N_CHAINS,
    QUANTILES,
    SCHEMA,
    About,
    ChainSet,
    Reference,
    write,
)
from bench.posterior.tasks import DIGITS, TEST, Task, TaskData, load

SEEDS = (0, 1)  # of the two sets of chains
UNFINISHED = "unfinished"  # folder of the draws until the reference is written
ROWS = 100  # whose predictions by all draws are in memory at a time: 64 MB of 8,000 draws

_Classified = tuple[NDArray[np.float16], Floats, Floats, Floats]
"""Of some rows: means [C, B, K], R-hat and ESS [B K], and log-likelihoods of the labels [C n, B]; without a label, of
the first class."""

Tell = Callable[[str, int, int], None]
"""Is told what is done, how many iterations are done, and of how many."""


@dataclass(frozen=True)
class Predicted:
    """What a set of chains predicts."""

    arrays: dict[str, NDArray[np.generic]]  # as in `Reference`, of these chains alone
    rhat: dict[str, Floats]  # of each predicted number, by set of rows
    ess: dict[str, Floats]
    log_likelihoods: Floats  # of the test labels by draw, [S, B], nats


def make(name: str, task: Task, folder: Path, data_dir: Path | None, tell: Tell) -> Reference:
    """Make a task's reference and write it; what an ended call has drawn is used.

    Args:
        name: of the task.
        task: its definition.
        folder: gets the reference; the draws are in a folder below it until then.
        data_dir: folder with the data sets, looked at first.
        tell: is told how far it is.

    Raises:
        DataMissing, DataCorrupt, MissingFramework: see `tasks.load`.
        StoreError: the folder cannot be written, or another process makes the reference there.
    """
    data = load(task, data_dir)
    with _draws(folder, name, task) as work:
        both = [_chain_set(task, data, seed, work, tell) for seed in SEEDS]
        predicted = [one for _, one in both]
        arrays = {key: np.concatenate([one.arrays[key] for one in predicted]) for key in predicted[0].arrays}
        about = About(
            schema=SCHEMA,
            task=name,
            definition=task.definition,
            arrays=scores_hash(arrays),
            chain_sets=(both[0][0], both[1][0]),
            joint_log_loss=joint_log_loss(np.concatenate([one.log_likelihoods for one in predicted])),
            made=msgspec.structs.replace(environment.describe(torch.get_num_threads()), measured=environment.now()),
        )
        reference = Reference(about, arrays)
        write(folder, name, reference)
    return reference


def one_more_chain(name: str, task: Task, seed: int, folder: Path, data_dir: Path | None, tell: Tell) -> Scores:
    """Return what one chain predicts that no reference has; an ended call is continued, as by `make`.

    Raises:
        ConfigError: the seed is one of the reference's.
        StoreError: see `make`.
    """
    if seed in SEEDS:
        raise ConfigError(
            f"seed {seed} is that of a chain of the reference; give another one, such as {max(SEEDS) + 1}"
        )
    data = load(task, data_dir)
    with _draws(folder, f"check-{name}-{seed}", task) as work:
        return predict(task.network(data.train.x.shape[1]), _drawn(task, data, 1, seed, work, tell).draws, data).arrays


@contextlib.contextmanager
def _draws(folder: Path, name: str, task: Task) -> Iterator[Path]:
    """Give the folder of the draws, which no other process has now; remove it unless an error or a kill comes."""
    work = folder / UNFINISHED / f"{name}-{task.definition[:8]}"
    try:
        with lock(work, "draws"):
            yield work
            shutil.rmtree(work, ignore_errors=True)
    except Busy:
        raise StoreError(f"another process draws in {work}; let it end, or choose another --results") from None
    with contextlib.suppress(OSError):  # another task's draws are there
        work.parent.rmdir()


def _drawn(task: Task, data: TaskData, chains: int, seed: int, work: Path, tell: Tell) -> Chains:
    target = Target(task.network(data.train.x.shape[1]), data.train.x, data.train.y)
    return sample(
        target,
        chains=chains,
        draws=task.draws,
        warmup=task.warmup,
        seed=seed,
        folder=work / f"seed-{seed}",
        progress=lambda done, every: tell(f"chains of seed {seed}", done, every),
    )


def _chain_set(task: Task, data: TaskData, seed: int, work: Path, tell: Tell) -> tuple[ChainSet, Predicted]:
    """Draw a set of chains and return what is kept; the draws, up to 1 GB, leave the memory before the next set."""
    chains = _drawn(task, data, N_CHAINS, seed, work, tell)
    tell(f"predictions of seed {seed}", 0, 1)
    predicted = predict(task.network(data.train.x.shape[1]), chains.draws, data)
    tell(f"predictions of seed {seed}", 1, 1)
    predicted.arrays[ENERGIES] = chains.energies.float().numpy()
    kept = ChainSet(
        seed=seed,
        acceptance=chains.acceptance.tolist(),
        step=chains.step,
        gradients=chains.leapfrogs,
        divergences=int(chains.divergences.sum()),
        rhat=_quantiles({name: np.minimum(one, LARGEST_RHAT) for name, one in predicted.rhat.items()}),
        ess=_quantiles(predicted.ess),
    )
    return kept, predicted


def _quantiles(values: dict[str, Floats]) -> dict[str, list[float]]:
    """Return the quantiles at LEVELS of each set of rows, and of all."""
    every = {**values, ALL: np.concatenate(list(values.values()))}
    return {name: np.quantile(one, LEVELS).tolist() for name, one in every.items()}


def predict(network: Network, draws: Tensor, data: TaskData) -> Predicted:
    """Return what chains predict for the rows of a task; draws float32 [C, n, P]."""
    if network.kind == "regression":
        return _regress(network, draws, data)
    found = {name: _classify(network, draws, split) for name, split in data.sets.items()}
    return Predicted(
        {name: means for name, (means, *_) in found.items()},
        {name: rhat for name, (_, rhat, *_) in found.items()},
        {name: ess for name, (*_, ess, _) in found.items()},
        found[DIGITS][-1],
    )


def _classify(network: Network, draws: Tensor, split: Split) -> _Classified:
    labels, blocks = split.y.clamp(min=0), torch.split(torch.arange(len(split)), ROWS)
    parts = [_classify_block(network, draws, split.x[rows], labels[rows]) for rows in blocks]
    means, rhat, ess, chosen = zip(*parts, strict=True)
    return np.concatenate(means, 1), np.concatenate(rhat), np.concatenate(ess), np.concatenate(chosen, 1)


def _classify_block(network: Network, draws: Tensor, x: Tensor, labels: Tensor) -> _Classified:
    logs = torch.stack([_log_probs(network, chain, x) for chain in draws])  # [C, n, B, K]
    probs, chosen = logs.exp(), logs[:, :, torch.arange(len(x)), labels]
    values = probs.flatten(2)
    return (
        probs.mean(1).half().numpy(),
        split_r_hat(values).numpy(),
        effective_size(values).numpy(),
        chosen.flatten(0, 1).numpy(),
    )


def _log_probs(network: Network, z: Tensor, x: Tensor) -> Tensor:
    """Return log-probabilities float64 [n, B, K]: in float32, a probability that is always 0 would have no R-hat."""
    found = network.predict(z, x)
    assert isinstance(found, Tensor)
    return found.double()


def _regress(network: Network, draws: Tensor, data: TaskData) -> Predicted:
    test, parts = data.sets[TEST], []
    for chain in draws:
        mean, sd = network.predict(chain, test.x)
        parts.append((data.centre + data.unit * mean.double().numpy(), data.unit * sd.double().numpy()[:, None]))
    y = data.targets()
    values = torch.from_numpy(np.stack([np.concatenate(part, axis=1) for part in parts]))  # [C, n, B + 1]
    arrays: dict[str, NDArray[np.generic]] = {
        QUANTILES: np.stack([mixture_quantiles(*part) for part in parts]).astype(np.float32),
        DENSITIES: np.stack([mixture_log_density(*part, y) for part in parts]).astype(np.float32),
    }
    every = np.concatenate([normal_log_density(*part, y) for part in parts])
    return Predicted(arrays, {TEST: split_r_hat(values).numpy()}, {TEST: effective_size(values).numpy()}, every)
