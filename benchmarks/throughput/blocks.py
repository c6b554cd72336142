"""Blocks of work timed in turn: ours, the document's, ours, ...

Both run on the same machine in the same minute, so that load, heat and clock rate hardly change their ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch

from bench.core.timing import Stopwatch

WARM_UP = 1  # rounds that are not counted


@dataclass
class Side:
    """The blocks of one side."""

    work: float  # units of work in a block: steps, or draws x images
    seconds: list[float] = field(default_factory=list)  # of each block

    @property
    def rates(self) -> list[float]:
        """Return the units of work a second in each block."""
        return [self.work / seconds for seconds in self.seconds]


@dataclass
class Comparison:
    """Rounds of blocks: round i is the i-th block of each side."""

    ours: Side
    document: Side

    def without_first(self, rounds: int) -> Comparison:
        """Return the comparison without its first `rounds` rounds."""
        return Comparison(*(Side(side.work, side.seconds[rounds:]) for side in (self.ours, self.document)))


def time_block(watch: Stopwatch, call: Callable[[], object], times: int) -> float:
    """Return the seconds of `times` calls."""
    watch.start()
    for _ in range(times):
        call()
    return watch.stop()


def fitting(seconds: float, units: int, block_s: float, most: int | None = None) -> int:
    """Return how many units take about `block_s` seconds if `units` take `seconds`; at least 1, at most `most`."""
    count = max(1, round(block_s * units / max(seconds, 1e-9)))
    return count if most is None else min(count, most)


def by_default_on(device: torch.device) -> AbstractContextManager[object]:
    """Return the context in which a document's code makes its tensors on the device."""
    return nullcontext() if device.type == "cpu" else device


def cycle(n_rows: int, size: int) -> Iterator[slice]:
    """Yield the slices of full batches of `n_rows` rows, again and again."""
    while True:
        for start in range(0, max(1, n_rows - size + 1), size):
            yield slice(start, start + size)
