"""How repeatable each approach is: the same seed again, blocks of other sizes, more threads, a GPU. Smoke-sized fits.

Every condition but "the same process" is a fit in a process of its own, compared with one on one thread of the
processor that predicts in blocks of 64 rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench.core import environment
from bench.core.errors import BenchError, Unsupported
from bench.core.text import Digits
from bench.data.splits import load_split, toy_split
from bench.interface import Categorical, Posterior, Split, Task
from bench.judge.contract import CheckContext
from bench.judge.results import origin_of
from bench.judge.samples import MissingValue
from bench.measure.measuring import draws_of
from bench.plan.manifests import ApproachManifest
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest
from bench.run.supervisor import process_context
from bench.show.table import Entry, Missing, Number, Table

SEED = 0
DRAWS = 4
BLOCKS = (1, 64, 10_000)
USUAL = 64
COMPARED = 256  # rows; one at a time, 10,000 would take minutes
MANY_THREADS = 2
CONDITIONS = ("the same process", "a new process", "blocks of 1 row", "blocks of 10,000", "2 threads", "GPU")
REPEATED = CONDITIONS[:2]  # nothing differs from the first fit but the time
TWO = Digits(significant=2)
CAPTION = (
    "The same seed is fitted again under each condition and compared with a fit on one thread, which predicts 256 rows "
    "in blocks of 64. Exact: all bits are equal. A number: the largest difference of stored weights, or of predicted "
    "probabilities over 4 draws (toys: of the predicted mean). Published recipe, profile smoke (one epoch of two "
    "steps). In a whole training, differences grow."
)
NOTHING_TO_COMPARE = Missing(
    MissingValue("-", "nothing to compare: no weights, one fit's own weights, or predictions from equal weights")
)
EXACT, FAILED = "exact", "failed"

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Answers:
    """What one process computed: `fits` are the arrays of the same seed's posteriors, one after the other."""

    fits: list[Arrays]
    predictions: dict[int, NDArray[Any]]  # by block size: log-probabilities or means [S, COMPARED, K]


def measure(name: str, data_dir: Path | None = None) -> list[list[Entry]]:
    """Return the rows of an approach's weights and predictions; they say why it cannot run, or failed."""
    entry = manifest(name)
    try:
        if reason := entry.missing_framework():
            raise Unsupported(reason)
        found = _conditions(entry, _apart(name, 1, "cpu", 2, BLOCKS, data_dir), data_dir)
    except Unsupported as error:
        found = [(Missing(MissingValue("skipped", str(error))),) * 2] * len(CONDITIONS)
    except Exception as error:  # noqa: BLE001 - an approach that fails must not take the others along
        found = [(_failed(error),) * 2] * len(CONDITIONS)
    weights, predictions = zip(*found, strict=True)
    return [[name, "weights", *weights], [name, "predictions", *predictions]]


def faults(rows: Iterable[Sequence[Entry]]) -> Iterator[str]:
    """Say which fits failed, and which gave something else where the same seed has to give the same bits."""
    for name, of, *entries in rows:
        for condition, entry in zip(CONDITIONS, entries, strict=True):
            if isinstance(entry, Missing) and entry.missing_value.code == FAILED:
                yield f"{name}, {of}, {condition}: {entry.missing_value.reason}"
            elif condition in REPEATED and isinstance(entry, Number):
                yield f"{name}, {of}, {condition}: not exact, the largest difference is {entry}"


def _failed(error: Exception) -> Missing:
    return Missing(MissingValue(FAILED, f"{type(error).__name__}: {error}".splitlines()[0]))


def table(rows: Sequence[Sequence[Entry]]) -> Table:
    """Return the table of the measured rows."""
    made = origin_of([environment.describe(1)])
    return Table("determinism", "What is repeatable", CAPTION, ("approach", "of", *CONDITIONS), rows, origin=made)


def _conditions(entry: ApproachManifest, usual: Answers, data_dir: Path | None) -> list[tuple[Entry, Entry]]:
    """Return the entries of weights and predictions for each of `CONDITIONS`."""
    (fit, again), predicted = usual.fits, usual.predictions[USUAL]

    def elsewhere(threads: int, device: str, reason: str = "") -> tuple[Entry, Entry]:
        if reason:
            return (Missing(MissingValue("n/a", reason)),) * 2
        try:
            other = _apart(entry.name, threads, device, 1, (USUAL,), data_dir)
        except Exception as error:  # noqa: BLE001 - the other conditions still tell something
            return (_failed(error),) * 2
        return compare(fit, other.fits[0]), _shown(predicted, other.predictions[USUAL], entry)

    no_cuda = "" if torch.cuda.is_available() else "no CUDA device here"
    return [
        (compare(fit, again), NOTHING_TO_COMPARE),
        elsewhere(1, "cpu"),
        *((NOTHING_TO_COMPARE, _shown(predicted, usual.predictions[size], entry)) for size in (1, 10_000)),
        elsewhere(MANY_THREADS, "cpu"),
        elsewhere(1, "cuda", entry.cpu_float32_only or no_cuda),
    ]


def compare(left: Mapping[str, NDArray[Any]], right: Mapping[str, NDArray[Any]]) -> Entry:
    """Return whether arrays of the same names are equal bit for bit, or the largest difference.

    Raises:
        BenchError: the names or shapes differ.
    """
    if not left and not right:
        return NOTHING_TO_COMPARE
    same = left.keys() == right.keys() and all(left[name].shape == right[name].shape for name in left)
    if not same:
        raise BenchError("two fits of one approach have arrays of other names or shapes")
    pairs = [(left[name], right[name]) for name in left]
    if all(a.tobytes() == b.tobytes() for a, b in pairs):
        return EXACT
    return Number(max(_largest(a, b) for a, b in pairs), TWO)


def _largest(left: NDArray[Any], right: NDArray[Any]) -> float:
    if left.size == 0:
        return 0.0
    return float(np.abs(left.astype(np.float64) - right.astype(np.float64)).max())


def _shown(left: NDArray[Any], right: NDArray[Any], entry: ApproachManifest) -> Entry:
    """Compare predictions: equal bit for bit as they are, the difference that of probabilities where they are those."""
    if left.tobytes() == right.tobytes():
        return EXACT
    if entry.task == "mnist":
        left, right = np.exp(left.astype(np.float64)), np.exp(right.astype(np.float64))
    return Number(_largest(left, right), TWO)


def _apart(name: str, threads: int, device: str, n_fits: int, blocks: Sequence[int], data_dir: Path | None) -> Answers:
    """Return the answers of a fresh process; raises BenchError if it crashes."""
    with ProcessPoolExecutor(1, mp_context=process_context()) as pool:
        try:
            return pool.submit(answers, name, threads, device, n_fits, blocks, data_dir).result()
        except BrokenProcessPool as error:
            raise BenchError("its process ended without a word") from error


def answers(
    name: str, threads: int, device: str, n_fits: int, blocks: Sequence[int], data_dir: Path | None = None
) -> Answers:
    """Fit the published recipe with the smoke budget and predict; changes the process's number of threads."""
    os.environ["MXNET_OMP_MAX_THREADS"] = str(threads)  # MXNet reads it when it is imported
    torch.set_num_threads(threads)
    entry = manifest(name)
    train, task, inputs = _rows(entry, data_dir)
    place = torch.device(device)
    approach = build(entry, resolve(entry, "published"), profile("smoke"))
    there = Split(train.name, train.x.to(place), train.y.to(place), train.rows)
    posteriors = []
    for _ in range(n_fits):
        context = CheckContext(SEED)
        context.device = place
        posteriors.append(approach.fit(there, task, context))
    predictions = {size: _predict(posteriors[0], inputs, size, place) for size in blocks}
    return Answers([_arrays(posterior) for posterior in posteriors], predictions)


def _rows(entry: ApproachManifest, data_dir: Path | None) -> tuple[Split, Task, Tensor]:
    if entry.task == "toy":
        train = toy_split()
        return train, Task("regression", 1, len(train), 1), torch.linspace(-4, 4, max(BLOCKS)).reshape(-1, 1)
    train = load_split(entry.recipes["published"].split, SEED, data_dir)
    inputs = load_split("test10k", SEED, data_dir).x
    return train, Task("classification", 10, len(train), train.x.shape[1]), inputs


def _predict(posterior: Posterior, x: Tensor, size: int, device: torch.device) -> NDArray[Any]:
    """Predict in blocks; of a block larger than what is compared, only the first rows are kept."""
    draws = draws_of(posterior, DRAWS)
    parts = []
    for start in range(0, COMPARED, size):
        stop = start + size if size > COMPARED else min(start + size, COMPARED)
        answer = posterior.predict(x[start:stop].to(device), draws, torch.arange(start, stop))
        values = answer.log_probs if isinstance(answer, Categorical) else answer.mean
        parts.append(values.detach().cpu().numpy())
    found: NDArray[Any] = np.concatenate(parts, axis=1)[:, :COMPARED]
    return found


def _arrays(posterior: Posterior) -> Arrays:
    return {name: value.detach().cpu().numpy().copy() for name, value in posterior.arrays().items()}
