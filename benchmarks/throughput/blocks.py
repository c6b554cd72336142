"""Blocks of work timed in turn: ours, the document's, a matrix product, ours, ...

All three run on the same machine in the same minute, so that load, heat and clock rate hardly change their ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import torch

from bench.core.precision import computing_in
from bench.core.timing import Stopwatch

WARM_UP = 1  # rounds that are not counted
PRODUCT_SIZE = {"cpu": 2048, "cuda": 8192}  # rows and columns of the factors; large enough to reach the full rate


@dataclass
class Side:
    """The blocks of one side."""

    work: float  # units of work in a block: steps, or draws x images
    seconds: list[float] = field(default_factory=list)  # of each block


@dataclass
class Comparison:
    """Rounds of blocks: round i is the i-th block of each side."""

    ours: Side
    document: Side
    product: Side  # the matrix product, in the precision of ours; its unit is a floating-point operation

    def without_first(self, rounds: int) -> Comparison:
        """Return the comparison without its first `rounds` rounds."""
        sides = (self.ours, self.document, self.product)
        return Comparison(*(Side(side.work, side.seconds[rounds:]) for side in sides))


class MatrixProduct:
    """The calibration: one large product of float32 matrices, multiplied in the precision that is set around it."""

    def __init__(self, device: torch.device, threads: int | None = None, size: int | None = None) -> None:
        """Make the factors. A product uses `threads`, also if a framework has changed PyTorch's number of threads."""
        self.threads = torch.get_num_threads() if threads is None else threads
        self.size = PRODUCT_SIZE[device.type] if size is None else size
        source = torch.Generator().manual_seed(0)
        self._left, self._right = (torch.randn(self.size, self.size, generator=source).to(device) for _ in range(2))
        self._out = torch.empty_like(self._left)

    @property
    def flops(self) -> float:
        """Return the operations of one product."""
        return 2.0 * self.size**3

    def __call__(self) -> None:
        """Multiply."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        torch.mm(self._left, self._right, out=self._out)
        torch.set_num_threads(before)


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


@contextmanager
def as_documented(device: torch.device) -> Iterator[None]:
    """Run a document's code inside the `with`: products in float32, and new tensors on the device by default."""
    with computing_in("float32", device), nullcontext() if device.type == "cpu" else device:
        yield


def cycle(n_rows: int, size: int) -> Iterator[slice]:
    """Yield the slices of full batches of `n_rows` rows, again and again."""
    while True:
        for start in range(0, max(1, n_rows - size + 1), size):
            yield slice(start, start + size)
