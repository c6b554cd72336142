"""Where the compiled loops of `bench.compiled` serve, and how tensors are handed to them."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from bench.noise import compiled_loops


def loops_for(value: Tensor) -> ModuleType | None:
    """Return the compiled loops if they serve tensors like `value` (float32 on a CPU), else None."""
    return compiled_loops() if value.is_cpu and value.dtype == torch.float32 else None


def flat_arrays(*values: Tensor) -> list[npt.NDArray[Any]]:
    """Return contiguous tensors as arrays [1, P] of the same memory."""
    return [value.detach().view(1, -1).numpy() for value in values]


def block_sums(n_weights: int, n_sums: int, loops: ModuleType) -> Tensor:
    """Return room for the sums of each block of a pass, float64 [1, blocks, n_sums]."""
    return torch.empty(1, math.ceil(n_weights / loops.STRIDE), n_sums, dtype=torch.float64)
