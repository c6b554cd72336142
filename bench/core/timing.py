"""Clocks: how long a call takes, by the median of repeats, with the device's queue empty on both sides."""

# mypy: allow-untyped-calls
# (PyTorch's CUDA events have no types)
from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import cache

import torch

from bench.core.products import matrix_products

RATE_SIZE, RATE_REPEATS, RATE_LIMIT_S = 1024, 8, 0.2


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def repeat_seconds(
    call: Callable[[], object], device: torch.device, repeats: int, limit_s: float, warm_up: int = 1
) -> list[float]:
    """Return the seconds of up to `repeats` calls, stopping early after `limit_s` seconds in all (at least one)."""
    for _ in range(warm_up):
        call()
    found: list[float] = []
    clock = _event_seconds if device.type == "cuda" else _clock_seconds
    while len(found) < repeats and (not found or sum(found) < limit_s):
        synchronise(device)
        found.append(clock(call, device))
    return found


def _clock_seconds(call: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    call()
    synchronise(device)
    return time.perf_counter() - start


def _event_seconds(call: Callable[[], object], device: torch.device) -> float:
    """Return the seconds between two marks in the device's queue, which the wait for the answer is no part of."""
    with torch.cuda.device(device):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
    return float(start.elapsed_time(end)) / 1000


@cache
def matmul_rate(device: torch.device, threads: int) -> float:
    """Return this machine's rate of plain float32 matrix products on so many threads: operations a second, 3 digits.

    The best of `RATE_REPEATS` products of 1024 x 1024 matrices, a tenth of a second in all: a yardstick that tells how
    fast a machine is, whatever its processor calls itself. Measured once in a process.
    """
    left, right = (torch.full((RATE_SIZE, RATE_SIZE), value, device=device) for value in (0.5, 0.25))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with matrix_products("float32", device):
            seconds = repeat_seconds(lambda: torch.mm(left, right), device, RATE_REPEATS, RATE_LIMIT_S)
    finally:
        torch.set_num_threads(before)
    return float(f"{2 * RATE_SIZE**3 / min(seconds):.3g}")


def summary(seconds: list[float]) -> dict[str, float]:
    """Return median, smallest and largest of the repeats, and their number."""
    return {
        "median": statistics.median(seconds),
        "min": min(seconds),
        "max": max(seconds),
        "n": float(len(seconds)),
    }


class Stopwatch:
    """Seconds of blocks of work on one device, its queue empty on both sides; CUDA's own events where there are any."""

    def __init__(self, device: torch.device, settle: Callable[[], None] = lambda: None) -> None:
        """Time work on `device`; `settle` waits for queues that PyTorch does not know."""
        self._device, self._settle = device, settle
        self._mark = 0.0
        self._event: torch.cuda.Event | None = None

    def start(self) -> None:
        """Wait for what is queued, then start (again)."""
        self._settle()
        synchronise(self._device)
        if self._device.type == "cuda":
            self._event = self._record()
        self._mark = time.perf_counter()

    def stop(self) -> float:
        """Wait for what is queued and return the seconds since the start."""
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
