"""How repeatable each approach is: the same seed again, blocks of other sizes, more threads, a GPU. Smoke-sized fits.

Every condition but "again" is a fit in a process of its own, compared with one on one thread of the processor that
predicts in blocks of 64 rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench.core import environment
from bench.core.errors import BenchError, Unsupported
from bench.core.records import Outcome
from bench.data.splits import load_split, toy_split
from bench.interface import Categorical, Posterior, Split, Task
from bench.judge.contract import CheckContext
from bench.measure.measuring import draws_of
from bench.plan.manifests import ApproachManifest
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest, source_files
from bench.run.supervisor import process_context
from tests.stress.repeatable import REPEATABILITY_SCHEMA, Condition, Repeatability

SEED = 0
DRAWS = 4
BLOCKS = (1, 64, 10_000)
USUAL = 64
COMPARED = 256  # rows; one at a time, 10,000 would take minutes
MANY_THREADS = 2
CONDITIONS = ("again", "process", "block-1", "block-10000", "threads-2", "cuda")

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Answers:
    """What one process computed: `fits` are the arrays of the same seed's posteriors, one after the other."""

    fits: list[Arrays]
    predictions: dict[int, NDArray[Any]]  # by block size: log-probabilities or means [S, COMPARED, K]


def measure(name: str, data_dir: Path | None = None) -> Repeatability:
    """Return what is repeatable of an approach; what cannot run, or crashes, is in it with the reason."""
    entry = manifest(name)
    made = msgspec.structs.replace(
        environment.describe(1),
        started=environment.now(),
        vector_instructions=torch.backends.cpu.get_cpu_capability(),
        source_sha256=environment.source_hash(source_files(name)),
    )
    conditions: dict[str, Any] = {}
    outcome: Outcome = "done"
    reason = entry.missing_framework() or ""
    try:
        if reason:
            raise Unsupported(reason)
        conditions = _conditions(entry, _apart(name, 1, "cpu", 2, BLOCKS, data_dir), data_dir)
    except Unsupported as error:
        outcome, reason = "skipped", str(error)
    except Exception as error:  # noqa: BLE001 - an approach that fails must not take the others along
        outcome, reason = "failed", f"{type(error).__name__}: {error}".splitlines()[0]
    return Repeatability(
        schema=REPEATABILITY_SCHEMA,
        approach=name,
        outcome=outcome,
        reason=reason,
        conditions=msgspec.convert(conditions, dict[str, Condition]),
        provenance=made,
    )


def _conditions(entry: ApproachManifest, usual: Answers, data_dir: Path | None) -> dict[str, Any]:
    (fit, again), predicted = usual.fits, usual.predictions[USUAL]
    found: dict[str, Any] = {"again": {"weights": compare(fit, again), "predictions": None}}
    for size in BLOCKS:
        if size != USUAL:
            shown = _shown(predicted, usual.predictions[size], entry)
            found[f"block-{size}"] = {"weights": None, "predictions": shown}
    elsewhere = {
        "process": (1, "cpu", ""),
        "threads-2": (MANY_THREADS, "cpu", ""),
        "cuda": (1, "cuda", entry.cpu_float32_only or ("" if torch.cuda.is_available() else "no CUDA device here")),
    }
    for condition, (threads, device, reason) in elsewhere.items():
        if reason:
            found[condition] = {"missing": reason}
            continue
        try:
            other = _apart(entry.name, threads, device, 1, (USUAL,), data_dir)
        except Exception as error:  # noqa: BLE001 - the other conditions still tell something
            found[condition] = {"missing": f"{type(error).__name__}: {error}".splitlines()[0]}
            continue
        found[condition] = {
            "weights": compare(fit, other.fits[0]),
            "predictions": _shown(predicted, other.predictions[USUAL], entry),
        }
    return {condition: found[condition] for condition in CONDITIONS}


def compare(left: Mapping[str, NDArray[Any]], right: Mapping[str, NDArray[Any]]) -> dict[str, Any] | None:
    """Return whether arrays of the same names are equal bit for bit, and the largest difference; None without any.

    Raises:
        BenchError: the names or shapes differ.
    """
    if not left and not right:
        return None
    same = left.keys() == right.keys() and all(left[name].shape == right[name].shape for name in left)
    if not same:
        raise BenchError("two fits of one approach have arrays of other names or shapes")
    pairs = [(left[name], right[name]) for name in left]
    return {
        "exact": all(a.tobytes() == b.tobytes() for a, b in pairs),
        "largest": max(_largest(a, b) for a, b in pairs),
    }


def _largest(left: NDArray[Any], right: NDArray[Any]) -> float:
    if left.size == 0:
        return 0.0
    return float(np.abs(left.astype(np.float64) - right.astype(np.float64)).max())


def _shown(left: NDArray[Any], right: NDArray[Any], entry: ApproachManifest) -> dict[str, Any]:
    """Compare predictions: equal bit for bit as they are, the difference that of probabilities where they are those."""
    exact = left.tobytes() == right.tobytes()
    if entry.task == "mnist":
        left, right = np.exp(left.astype(np.float64)), np.exp(right.astype(np.float64))
    return {"exact": exact, "largest": _largest(left, right)}


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
    os.environ["OMP_NUM_THREADS"] = str(threads)  # for a framework that is imported from here on
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
