"""Clocks: how long a call takes, by the median of repeats, with the device's queue empty on both sides."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch


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
    while len(found) < repeats and (not found or sum(found) < limit_s):
        synchronise(device)
        start = time.perf_counter()
        call()
        synchronise(device)
        found.append(time.perf_counter() - start)
    return found


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
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event
