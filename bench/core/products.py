"""In which numbers float32 matrices are multiplied: float32, or by choice bfloat16 or TF32 operands with float32 sums.

Only products of float32 matrices with matrices or vectors change. Parameters, optimisers, sums (a dot product of two
vectors is a sum), float64 work and all metrics stay as they are. bfloat16 keeps 8 significant bits of an operand,
TF32 11, float32 24.

cpu, bf16   Both operands of every product of more than 16 x 16 x 16 multiplications are rounded to bfloat16, on every
            processor. oneDNN does this, and is faster, where the processor has such products (x86: AMX); it leaves thin
            products in float32, which ones depends on the processor. A product that oneDNN would leave is rounded
            here. So processors differ in the order of the sums and in speed only.
cuda, tf32  Tensor cores, from compute capability 8.0 on.
cuda, bf16  PyTorch has no such products of float32 matrices: operands are rounded here.

Smaller products stay float32, because PyTorch never hands them to oneDNN (`checksize` in PyTorch's
aten/src/ATen/native/mkldnn/Matmul.cpp).
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
_ABOVE_ONE = 1 + 2**-9  # a quarter of bfloat16's step above 1, so that it rounds to 1


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
    modes = {BY_ROUNDING: RoundedOperands, BY_ONEDNN: OneDnnOrRounded}
    try:
        # PyTorch's older switch sets the newer ones of both devices with it; the newer ones alone leave it in a state
        # that torch.compile and others refuse to read.
        torch.set_float32_matmul_precision(_SETTING[by])
        with modes.get(by, nullcontext)():
            yield
    finally:
        torch.set_float32_matmul_precision(setting)
        for backend, state in zip(backends, states, strict=True):
            backend.fp32_precision = state


@contextmanager
def _onednn_in(precision: str) -> Iterator[None]:
    """Let oneDNN multiply float32 numbers as `bf16`, or as they are (`ieee`)."""
    before = _ONEDNN.matmul.fp32_precision
    _ONEDNN.matmul.fp32_precision = precision
    try:
        yield
    finally:
        _ONEDNN.matmul.fp32_precision = before


@cache
def _onednn_has_bf16() -> bool:
    """Return whether the processor multiplies float32 matrices in bfloat16, seen from a product."""
    return _onednn_rounds((64, 64), (64, 1), (64, 64), (64, 1), 1)


@cache
def _onednn_rounds(
    left_shape: tuple[int, ...],
    left_stride: tuple[int, ...],
    right_shape: tuple[int, ...],
    right_stride: tuple[int, ...],
    n_threads: int,
) -> bool:
    """Return whether oneDNN rounds both operands of a product of these shapes and strides, seen from one.

    A row and a column of n numbers 1 + 2^-9 have the product n only if both are rounded to ones. Seeing it holds for
    every processor and library, where a list of instruction sets and shapes would have to be kept.
    """
    del n_threads  # oneDNN may choose another kernel for another number of threads
    left, right = _filled(left_shape, left_stride), _filled(right_shape, right_stride)
    with _onednn_in("bf16"):
        product = torch.matmul(left, right)
    return bool((product == left_shape[-1]).all())


def _filled(shape: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    n_numbers = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    return torch.full((n_numbers,), _ABOVE_ONE).as_strided(shape, stride)


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
        if first is not None and self._must_round(*args[first : first + 2]):
            args = (*args[:first], *map(_rounded, args[first : first + 2]), *args[first + 2 :])
        return func(*args, **(kwargs or {}))

    def _must_round(self, left: Tensor, right: Tensor) -> bool:
        return left.dtype == torch.float32 and _multiplications(left, right) > LARGEST_EXACT


class OneDnnOrRounded(RoundedOperands):
    """Leaves a product to oneDNN where it rounds both operands, rounds them itself where not, and keeps sums exact."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call `func` in its precision."""
        if func.overloadpacket in _SUMS:
            with _onednn_in("ieee"):
                return func(*args, **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _must_round(self, left: Tensor, right: Tensor) -> bool:
        return super()._must_round(left, right) and not _onednn_rounds(
            tuple(left.shape), left.stride(), tuple(right.shape), right.stride(), torch.get_num_threads()
        )


_ATEN = torch.ops.aten
_SUMS = (_ATEN.dot, _ATEN.vdot)
_FIRST_OPERAND: dict[Callable[..., Any], int] = {  # product -> position of the first of its two factors
    **dict.fromkeys((_ATEN.mm, _ATEN.bmm, _ATEN.mv), 0),
    **dict.fromkeys((_ATEN.addmm, _ATEN.addmm_, _ATEN.baddbmm, _ATEN.baddbmm_, _ATEN.addbmm, _ATEN.addbmm_), 1),
    **dict.fromkeys((_ATEN.addmv, _ATEN.addmv_), 1),
}


def _multiplications(left: Tensor, right: Tensor) -> int:
    return left.numel() * (right.shape[-1] if right.dim() > 1 else 1)


def _rounded(factor: Tensor) -> Tensor:
    return factor.bfloat16().float()
