"""Choose the compiled loops of `bench.core.compiled` where they apply, and convert tensors for them."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from bench.core.noise import compiled_loops


def loops_for(value: Tensor, module: str = "compiled") -> ModuleType | None:
    """Return the compiled loops of a module of `bench.core`.

    None if `value` is not float32 on a CPU, or without numba.
    """
    return compiled_loops(module) if value.is_cpu and value.dtype == torch.float32 else None


def flat_arrays(*values: Tensor, n_networks: int = 1) -> list[npt.NDArray[Any]]:
    """Return contiguous tensors as arrays [E, P] of the same memory, E = n_networks."""
    return [value.detach().view(n_networks, -1).numpy() for value in values]


def block_sums(n_weights: int, n_sums: int, loops: ModuleType, n_networks: int = 1) -> Tensor:
    """Return an empty tensor for the sums of each block of a pass, float64 [E, blocks, n_sums]."""
    return torch.empty(n_networks, math.ceil(n_weights / loops.STRIDE), n_sums, dtype=torch.float64)
