"""Ask a posterior for predictions, block by block. Blocks bound the memory; their size changes no number."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench.core import timing
from bench.core.errors import ContractViolation, StoreError
from bench.core.metric_table import N_CLASSES
from bench.core.reasons import Reason
from bench.core.streams import generator
from bench.core.text import one_line
from bench.core.timing import Stopwatch
from bench.interface import Approach, Categorical, Gaussian, Posterior, Split, Task
from bench.measure.metrics.draws import DrawSummary, concatenate, draw_hits, reduce_draws
from bench.measure.metrics.published import BATCH_SIZE

BLOCK_NUMBERS = 20_000_000  # most log-probabilities of a block: 80 MB, and twice that while the next block is made
ROW_NOISE_ROWS = 512  # most rows of a block if each row has its own noise: its numbers fit into the processor's cache
WEIGHT_NOISE_ROWS = 10_000  # most rows of any other block
LONGEST_REASON = 300  # characters; PyTorch lists every tensor that does not fit


EpochMetrics: TypeAlias = Mapping[str, "float | None"]
"""The numbers of one epoch by name: those that the fit reported, and those that the protocol measured after it."""


@dataclass
class Measurement:
    """The result of a protocol; a record has fields of the same names."""

    metrics: dict[str, float | None] = field(default_factory=dict)
    missing: dict[str, Reason] = field(default_factory=dict)
    arrays: dict[str, object] = field(default_factory=dict)
    scores: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    timings: dict[str, float | int] = field(default_factory=dict)

    def add(self, prefix: str, metrics: Mapping[str, float | None], missing: Mapping[str, Reason]) -> None:
        """Add metrics and reasons; put a prefix before their names, such as the name of a data set."""
        self.metrics.update({f"{prefix}/{name}": value for name, value in metrics.items()})
        self.missing.update({f"{prefix}/{name}": reason for name, reason in missing.items()})


@dataclass(frozen=True)
class Predicted:
    """The predictions for a data set, reduced over the draws."""

    summary: DrawSummary
    hits: NDArray[np.int64]  # [S], how many rows each draw classifies correctly
    seconds: float  # spent in the posterior's `predict`
    kept: NDArray[np.float16]  # [S, rows kept, K], log-probabilities of the first rows, for figures


def first_rows(split: Split, limit: int | None) -> Split:
    """Return the first `limit` rows of the split; all if `limit` is None."""
    if limit is None or len(split) <= limit:
        return split
    return split.select(torch.arange(limit))


def on_device(split: Split, device: torch.device, dtype: torch.dtype) -> Split:
    """Return the split with its inputs there, in this type. The rest stays: only this package reads it."""
    return dataclasses.replace(split, x=split.x.to(device, dtype))


def check_fit(found: object, approach: object) -> Posterior:
    """Return what an approach's `fit` returned; raises ContractViolation if it is not a posterior."""
    if not isinstance(found, Posterior):
        what = "None" if found is None else f"an object of type {type(found).__name__}"
        raise ContractViolation(f"{type(approach).__name__}.fit returned {what}; it must return a Posterior")
    return found


def posterior_of(approach: Approach, tensors: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
    """Return the posterior that an approach makes of stored tensors; raises StoreError if they do not fit it."""
    try:
        return approach.rebuild(tensors, task, seed)
    except (LookupError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        reason = one_line(str(error), LONGEST_REASON)
        raise StoreError(f"the stored posterior does not fit {type(approach).__name__}: {reason}") from error


def check_answer(answer: Tensor, wanted: tuple[int, ...], output: str, who: str) -> None:
    """Raise ContractViolation unless a prediction has the wanted shape, [S, B, K] or [S, B, D], and no gradient."""
    shape = tuple(answer.shape)
    if len(shape) != len(wanted):
        raise ContractViolation(f"{who}.predict returned shape {shape}; it must return [draws, rows, {output}]")
    for name, n_found, n_wanted in zip(("draws", "rows", output), shape, wanted, strict=True):
        if n_found != n_wanted:
            raise ContractViolation(f"{who}.predict returned {n_found} {name}; it must return {n_wanted}")
    if answer.requires_grad:
        raise ContractViolation(f"{who}.predict returned a tensor that requires grad; predict under torch.no_grad()")


def categorical(posterior: Posterior, x: Tensor, draws: range, rows: Tensor) -> Tensor:
    """Return the log-probabilities [S, B, K] that a posterior predicts, on its device; check their type and shape."""
    answer, who = posterior.predict(x, draws, rows), type(posterior).__name__
    if not isinstance(answer, Categorical):
        raise ContractViolation(f"{who}.predict returned {type(answer).__name__}; it must return Categorical")
    check_answer(answer.log_probs, (len(draws), len(x), N_CLASSES), "classes", who)
    return answer.log_probs


def gaussian(posterior: Posterior, x: Tensor, draws: range, rows: Tensor) -> Gaussian:
    """Return the Gaussians that a regression posterior predicts, on the CPU; check their type and shape."""
    answer = posterior.predict(x, draws, rows)
    if not isinstance(answer, Gaussian):
        raise ContractViolation(f"{type(posterior).__name__}.predict must return Gaussian for a regression task")
    for part in (answer.mean, answer.variance):
        check_answer(part, (len(draws), len(x), 1), "outputs", type(posterior).__name__)
    return Gaussian(answer.mean.cpu(), answer.variance.cpu())


def draws_of(posterior: Posterior, wanted: int, first: int = 0) -> range:
    """Return the indices of `wanted` draws from `first` on. If the number of draws is fixed, they begin at 0."""
    if posterior.n_draws is not None:
        return range(min(wanted, posterior.n_draws))
    return range(first, first + wanted)


def block_rows(posterior: Posterior, n_draws: int) -> int:
    """Return the largest number of rows of a block with `n_draws` draws."""
    most = ROW_NOISE_ROWS if posterior.noise == "row" else WEIGHT_NOISE_ROWS
    return max(1, min(most, BLOCK_NUMBERS // max(1, n_draws * N_CLASSES)))


def predict_split(
    posterior: Posterior, split: Split, draws: range, keep: int = 0, device: torch.device | None = None
) -> Predicted:
    """Predict all rows of a split with all draws, block by block, and reduce each block over its draws."""
    size = block_rows(posterior, len(draws))
    parts: list[DrawSummary] = []
    hits = np.zeros(len(draws), dtype=np.int64)
    seconds, kept = 0.0, np.zeros((len(draws), 0, N_CLASSES), dtype=np.float16)
    for start in range(0, len(split), size):
        stop = min(start + size, len(split))
        x = split.x[start:stop]
        watch = Stopwatch(x.device if device is None else device)
        watch.start()
        inputs = x if device is None else x.to(device)
        log_probs = categorical(posterior, inputs, draws, split.rows[start:stop])
        timing.synchronise(log_probs.device)  # a posterior may answer on another device
        seconds += watch.stop()
        parts.append(reduce_draws(log_probs))
        labels = split.y[start:stop]
        if bool((labels >= 0).all()):
            hits += draw_hits(log_probs, labels)
        if start == 0 and keep:
            kept = log_probs[:, :keep].to(torch.float16).cpu().numpy()
    return Predicted(concatenate(parts), hits, seconds, kept)


def shuffled_batches(split: Split, seed: int, *index: int) -> list[Split]:
    """Return the split in random order in batches of 128, like a DataLoader that shuffles."""
    order = torch.randperm(len(split), generator=generator(seed, "test-order", *index))
    return [split.select(part) for part in torch.split(order, BATCH_SIZE)]


def last_epoch(epochs: Sequence[EpochMetrics]) -> dict[str, float | None]:
    """Return the numbers of the last epoch: a document that prints every epoch reports these as its result."""
    return dict(epochs[-1]) if epochs else {}
