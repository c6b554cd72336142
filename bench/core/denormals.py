"""Flush denormal numbers to zero: numbers below 1e-38 do not matter here, but slow every operation on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def without_denormals() -> Iterator[None]:
    """Flush denormal numbers to zero in a `with` block."""
    for kind in (np.float32, np.float64):
        np.finfo(kind)  # called first here: its first call tests for denormals, and warns if they are flushed
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
