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
