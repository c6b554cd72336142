"""In which numbers float32 matrices are multiplied: float32, or by choice bfloat16 or TF32 operands with float32 sums.

Only products of float32 matrices (and vectors) change: parameters, optimisers, sums, float64 work and all metrics stay
as they are. bfloat16 keeps 8 significant bits of an operand, TF32 11, float32 24.

cpu, bf16   oneDNN's products where the processor has them (x86: AVX-512), else operands rounded here, which gives the
            same numbers but for the order of the sums, and no speed.
cuda, tf32  tensor cores, from compute capability 8.0 on.
cuda, bf16  PyTorch has no such products of float32 matrices: operands rounded here.

Products of at most 16 x 16 x 16 multiplications, and dot products of at most that many terms, stay float32 on cpu:
oneDNN takes only larger ones (`checksize` in PyTorch's aten/src/ATen/native/mkldnn/Matmul.cpp).
"""

# mypy: allow-untyped-calls
# (PyTorch's dispatch modes have no types)
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

LARGEST_EXACT = 16**3  # multiplications of the largest product that stays float32
BY_FLOAT32, BY_ONEDNN, BY_ROUNDING, BY_TENSOR_CORES = "float32", "oneDNN bfloat16", "rounded operands", "TF32 cores"
_ONEDNN: Any = torch.backends.mkldnn  # its attributes are made at run time
_SETTING = {BY_FLOAT32: "highest", BY_ROUNDING: "highest", BY_ONEDNN: "medium", BY_TENSOR_CORES: "high"}


def products_by(precision: str, device: torch.device) -> str:
    """Return how products of this precision are made on the device of this machine: one of the four BY_... names."""
    if precision == "float32":
        return BY_FLOAT32
    if precision == "tf32":
        return BY_TENSOR_CORES
    return BY_ONEDNN if device.type == "cpu" and _onednn_has_bf16() else BY_ROUNDING


@contextmanager
def matrix_products(precision: str, device: torch.device) -> Iterator[None]:
    """Multiply float32 matrices in this precision inside the `with`; whatever happens there, the old state returns."""
    by = products_by(precision, device)
    setting = torch.get_float32_matmul_precision()
    backends = (_ONEDNN.matmul, torch.backends.cuda.matmul)
    states = [backend.fp32_precision for backend in backends]
    try:
        # PyTorch's older switch sets the newer ones of both devices with it; the newer ones alone leave it in a state
        # that torch.compile and others refuse to read.
        torch.set_float32_matmul_precision(_SETTING[by])
        with RoundedOperands() if by == BY_ROUNDING else nullcontext():
            yield
    finally:
        torch.set_float32_matmul_precision(setting)
        for backend, state in zip(backends, states, strict=True):
            backend.fp32_precision = state


@cache
def _onednn_has_bf16() -> bool:
    """Return whether the processor multiplies float32 matrices in bfloat16, seen from a product.

    1 + 2^-9 is 1 in bfloat16, so that a row of 64 of them times a column of ones is 64, and 64.125 in float32. This
    holds for every processor and library, where a list of instruction sets would have to be kept.
    """
    before = _ONEDNN.matmul.fp32_precision
    try:
        _ONEDNN.matmul.fp32_precision = "bf16"
        product = torch.full((64, 64), 1 + 2**-9) @ torch.ones(64, 64)
    finally:
        _ONEDNN.matmul.fp32_precision = before
    return bool((product == 64).all())


class RoundedOperands(TorchDispatchMode):
    """Rounds the operands of every large enough float32 product to bfloat16, and leaves the product to float32.

    A product of two bfloat16 numbers is exact in float32, so only the order of the sums differs from what a processor
    with bfloat16 products does. Works below autograd: backward passes are included.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call `func` with rounded operands if it is a product."""
        del types
        first = _FIRST_OPERAND.get(func.overloadpacket)
        if first is not None and _multiplications(*args[first : first + 2]) > LARGEST_EXACT:
            args = (*args[:first], *map(_rounded, args[first : first + 2]), *args[first + 2 :])
        return func(*args, **(kwargs or {}))


_ATEN = torch.ops.aten
_FIRST_OPERAND: dict[Callable[..., Any], int] = {  # product -> position of the first of its two factors
    **dict.fromkeys((_ATEN.mm, _ATEN.bmm, _ATEN.mv, _ATEN.dot), 0),
    **dict.fromkeys((_ATEN.addmm, _ATEN.addmm_, _ATEN.baddbmm, _ATEN.baddbmm_, _ATEN.addbmm, _ATEN.addbmm_), 1),
    **dict.fromkeys((_ATEN.addmv, _ATEN.addmv_), 1),
}


def _multiplications(left: Tensor, right: Tensor) -> int:
    return left.numel() * (right.shape[-1] if right.dim() > 1 else 1)


def _rounded(factor: Tensor) -> Tensor:
    return factor.bfloat16().float() if factor.dtype == torch.float32 else factor
