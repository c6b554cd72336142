"""Choose the compiled loops where they apply, and convert tensors for them."""

from __future__ import annotations

import importlib
import math
from types import ModuleType
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from bench.core.noise import compiled_loops


def loops_for(value: Tensor, module: str = "weight_loops") -> ModuleType | None:
    """Return the compiled loops of a module beside this one.

    None if `value` is not float32 on a CPU, without numba, or inside `without_compiling` of `bench.core.noise`.
    """
    if not value.is_cpu or value.dtype != torch.float32 or compiled_loops() is None:
        return None
    return importlib.import_module(f"implementations._kernels.{module}")


def flat_arrays(*values: Tensor, n_networks: int = 1) -> list[npt.NDArray[Any]]:
    """Return contiguous tensors as arrays [E, P] of the same memory, E = n_networks."""
    return [value.detach().view(n_networks, -1).numpy() for value in values]


def block_sums(n_weights: int, n_sums: int, loops: ModuleType, n_networks: int = 1) -> Tensor:
    """Return an empty tensor for the sums of each block of a pass, float64 [E, blocks, n_sums]."""
    return torch.empty(n_networks, math.ceil(n_weights / loops.STRIDE), n_sums, dtype=torch.float64)
