"""The calibration that the kernels' times are divided by, and the stored ratios (baselines) to compare with.

A ratio to similar work in the same minute differs less between machines, and under load, than seconds do. It still
depends on caches and memory, so that a kernel fails only beyond `TOLERANCE` times its baseline.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from msgspec.structs import asdict

from bench.core import environment
from bench.core.files import write_atomically

BASELINES = Path(__file__).with_name("baselines.json")
TOLERANCE = 2.0
THREADS = 1  # of PyTorch: other load on the machine takes time from a second thread first
SIZE = 768  # of the square factors
ELEMENTS = 500_000  # of the vectors: about the weights of a network


class Calibration:
    """A matrix product and passes over vectors; each takes about half of the time."""

    def __init__(self) -> None:
        source = torch.Generator().manual_seed(0)
        self._left, self._right = (torch.randn(SIZE, SIZE, generator=source) for _ in range(2))
        self._values = torch.randn(ELEMENTS, generator=source)
        self._source = source
        self.seconds: list[float] = []  # of each call

    def __call__(self) -> None:
        """Do the work, and keep how long it took."""
        start = time.perf_counter()
        torch.mm(self._left, self._right)
        noise = torch.empty_like(self._values).normal_(generator=self._source)
        torch.addcmul(self._values, self._values.exp(), noise).square().sum()
        self.seconds.append(time.perf_counter() - start)


def ratio(kernel: Sequence[float], calibration: Sequence[float]) -> float:
    """Return the median ratio of the rounds; each calibration ran just before its kernel."""
    return statistics.median(mine / other for mine, other in zip(kernel, calibration, strict=True))


def verdict(name: str, found: float, stored: dict[str, float], tolerance: float = TOLERANCE) -> str:
    """Return what is wrong with a kernel's ratio, '' if nothing."""
    if name not in stored:
        return f"'{name}' has no baseline; renew them: python -m pytest benchmarks --renew-baselines"
    if found <= tolerance * stored[name]:
        return ""
    return (
        f"'{name}' takes {found:.3g} calibrations and took {stored[name]:.3g}: more than {tolerance:g} times as long. "
        "If that is meant, renew the baselines: python -m pytest benchmarks --renew-baselines"
    )


def read_baselines(path: Path = BASELINES) -> dict[str, float]:
    """Return the stored ratios by kernel; empty without a file."""
    return dict(json.loads(path.read_text())["ratios"]) if path.exists() else {}


def write_baselines(found: dict[str, float], path: Path = BASELINES) -> None:
    """Store ratios; stored ratios of other kernels stay."""
    ratios = {**read_baselines(path), **{name: float(f"{value:.3g}") for name, value in found.items()}}
    text = json.dumps(
        {
            "about": "seconds of a kernel over seconds of benchmarks/calibration.py, median of rounds",
            "made": {"at": environment.now(), **asdict(environment.describe(THREADS))},
            "ratios": ratios,
        },
        indent=1,
        sort_keys=True,
    )
    write_atomically(path, f"{text}\n".encode())
