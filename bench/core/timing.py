"""Clocks. A call on a GPU is timed from an empty queue to an empty queue."""

# mypy: allow-untyped-calls
# (PyTorch's CUDA events have no types)
from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import torch

from bench.core.precision import computing_in

RATE_SIZE, RATE_REPEATS, RATE_LIMIT_S = 1024, 8, 0.2


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def repeat_seconds(call: Callable[[], object], device: torch.device, repeats: int, limit_s: float) -> list[float]:
    """Return the seconds of up to `repeats` calls; at least one, but none begins after `limit_s` timed seconds."""
    call()  # warms up
    found: list[float] = []
    watch = Stopwatch(device)
    while len(found) < repeats and (not found or sum(found) < limit_s):
        watch.start()
        call()
        found.append(watch.stop())
    return found


@cache
def matmul_rate(device: torch.device, threads: int) -> float:
    """Return this machine's rate of float32 matrix products with `threads` threads: operations a second, 3 digits.

    It is the rate of the fastest of `RATE_REPEATS` products of 1024 x 1024 matrices. This takes a tenth of a second. It
    tells how fast a machine is, which the name of its processor does not. A process measures it once.
    """
    left, right = (torch.full((RATE_SIZE, RATE_SIZE), value, device=device) for value in (0.5, 0.25))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with computing_in("float32", device):
            seconds = repeat_seconds(lambda: torch.mm(left, right), device, RATE_REPEATS, RATE_LIMIT_S)
    finally:
        torch.set_num_threads(before)
    return float(f"{2 * RATE_SIZE**3 / min(seconds):.3g}")


class Stopwatch:
    """Times work on one device, from an empty queue to an empty queue; on a GPU with CUDA's events."""

    def __init__(self, device: torch.device, settle: Callable[[], None] = lambda: None) -> None:
        """Time work on `device`; `settle` waits for work of another framework, which PyTorch does not know."""
        self._device, self._settle = device, settle
        self._mark = 0.0
        self._event: torch.cuda.Event | None = None

    def start(self) -> None:
        """Wait for queued work, then start (again)."""
        self._settle()
        synchronise(self._device)
        if self._device.type == "cuda":
            self._event = self._record()
        self._mark = time.perf_counter()

    def stop(self) -> float:
        """Wait for queued work and return the seconds since the start."""
        self._settle()
        if self._event is None:
            return time.perf_counter() - self._mark
        end = self._record()
        synchronise(self._device)
        return float(self._event.elapsed_time(end)) / 1000

    def _record(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event
