"""Choose the precision of float32 matrix products: float32, or bfloat16 or TF32 operands with float32 sums.

A fit in float64 (`dtype_of`) has no float32 products.

Only products of float32 matrices with matrices or vectors change. Parameters, optimisers, sums (a dot product of two
vectors is a sum), float64 work and all metrics stay as they are. bfloat16 keeps 8 significant bits of an operand,
TF32 11, float32 24.

cpu, bf16   Both operands of every product of more than 16 x 16 x 16 multiplications are rounded to bfloat16. If the
            processor has bfloat16 products (x86: AMX), oneDNN rounds, and is faster. But oneDNN leaves some thin
            products in float32, and it depends on the processor which ones. This module rounds the operands of these
            products itself. So processors differ only in speed and in the order of the sums.
cuda, tf32  Tensor cores, from compute capability 8.0 on.
cuda, bf16  PyTorch has no such products of float32 matrices: operands are rounded here.

Smaller products stay float32, because PyTorch never hands them to oneDNN (`checksize` in PyTorch's
aten/src/ATen/native/mkldnn/Matmul.cpp).
"""

# mypy: allow-untyped-calls
# (PyTorch's dispatch modes have no types)
from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Protocol

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

LARGEST_EXACT = 16**3  # multiplications of the largest product that stays float32
BY_FLOAT32, BY_FLOAT64 = "float32", "float64"
BY_ONEDNN, BY_ROUNDING, BY_TENSOR_CORES = "oneDNN bfloat16", "rounded operands", "TF32 cores"


class _Backend(Protocol):
    """The products of a library."""

    fp32_precision: str


_ONEDNN: _Backend = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]  # made at run time
_SETTING = {BY_ONEDNN: "medium", BY_TENSOR_CORES: "high"}  # the others: highest
_ABOVE_ONE = 1 + 2**-9  # a quarter of bfloat16's step above 1, so that it rounds to 1


def dtype_of(precision: str) -> torch.dtype:
    """Return the type of pixels, weights, noise and optimiser's state of a fit in this precision."""
    return torch.float64 if precision == BY_FLOAT64 else torch.float32


def products_by(precision: str, device: torch.device) -> str:
    """Return how products of this precision are made on the device: one of the BY_... names."""
    if precision in (BY_FLOAT32, BY_FLOAT64):
        return precision
    if precision == "tf32":
        return BY_TENSOR_CORES
    return BY_ONEDNN if device.type == "cpu" and _onednn_has_bf16() else BY_ROUNDING


@contextmanager
def matrix_products(precision: str, device: torch.device) -> Iterator[None]:
    """Multiply float32 matrices in this precision inside the `with`, and restore the old state after it."""
    by = products_by(precision, device)
    setting = torch.get_float32_matmul_precision()
    backends = (_ONEDNN, torch.backends.cuda.matmul)
    states = [backend.fp32_precision for backend in backends]
    modes = {BY_ROUNDING: RoundedOperands, BY_ONEDNN: OneDnnOrRounded}
    try:
        # PyTorch has one older setting, and a newer one for each device. Setting the older one also sets the newer
        # ones. If only the newer ones were set, torch.compile and others would refuse to read the older one.
        torch.set_float32_matmul_precision(_SETTING.get(by, "highest"))
        with modes.get(by, nullcontext)():
            yield
    finally:
        torch.set_float32_matmul_precision(setting)
        for backend, state in zip(backends, states, strict=True):
            backend.fp32_precision = state


@contextmanager
def _onednn_in(precision: str) -> Iterator[None]:
    """Let oneDNN multiply float32 numbers as `bf16`, or as they are (`ieee`)."""
    before = _ONEDNN.fp32_precision
    _ONEDNN.fp32_precision = precision
    try:
        yield
    finally:
        _ONEDNN.fp32_precision = before


@cache
def _onednn_has_bf16() -> bool:
    """Try a product: return whether oneDNN multiplies float32 matrices in bfloat16 on this processor."""
    return _onednn_rounds((64, 64), (64, 1), (64, 64), (64, 1), 1)


@cache
def _onednn_rounds(
    left_shape: tuple[int, ...],
    left_stride: tuple[int, ...],
    right_shape: tuple[int, ...],
    right_stride: tuple[int, ...],
    n_threads: int,
) -> bool:
    """Try a product: return whether oneDNN rounds both operands of a product of these shapes and strides.

    A row and a column of n numbers 1 + 2^-9 have the product n only if both are rounded to ones. A list of instruction
    sets and shapes would have to follow every new processor and version of oneDNN; the trial need not.
    """
    del n_threads  # oneDNN may choose another kernel for another number of threads
    left, right = _filled(left_shape, left_stride), _filled(right_shape, right_stride)
    with _onednn_in("bf16"):
        product = torch.matmul(left, right)
    return bool((product == left_shape[-1]).all())


def _filled(shape: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    n_numbers = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    return torch.full((n_numbers,), _ABOVE_ONE).as_strided(shape, stride)


class _Operator(Protocol):
    """An operator of PyTorch, as a dispatch mode gets it."""

    overloadpacket: object

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the operator."""


class RoundedOperands(TorchDispatchMode):
    """Rounds the operands of every float32 product above `LARGEST_EXACT` to bfloat16, and multiplies in float32.

    A product of two bfloat16 numbers is exact in float32, so only the order of the sums differs from what a processor
    with bfloat16 products does. Works below autograd: backward passes are included.
    """

    def __torch_dispatch__(
        self,
        func: _Operator,
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Call `func` with rounded operands if it is a product."""
        del types
        first = _FIRST_OPERAND.get(func.overloadpacket)
        if first is not None:
            left, right = args[first : first + 2]
            assert isinstance(left, Tensor)
            assert isinstance(right, Tensor)
            if self._must_round(left, right):
                args = (*args[:first], _rounded(left), _rounded(right), *args[first + 2 :])
        return func(*args, **(kwargs or {}))

    def _must_round(self, left: Tensor, right: Tensor) -> bool:
        return left.dtype == torch.float32 and _multiplications(left, right) > LARGEST_EXACT


class OneDnnOrRounded(RoundedOperands):
    """Rounds the operands of the products for which oneDNN does not, and keeps dot products of vectors in float32."""

    def __torch_dispatch__(
        self,
        func: _Operator,
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
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
_FIRST_OPERAND: dict[object, int] = {  # product -> position of the first of its two factors
    **dict.fromkeys((_ATEN.mm, _ATEN.bmm, _ATEN.mv), 0),
    **dict.fromkeys((_ATEN.addmm, _ATEN.addmm_, _ATEN.baddbmm, _ATEN.baddbmm_, _ATEN.addbmm, _ATEN.addbmm_), 1),
    **dict.fromkeys((_ATEN.addmv, _ATEN.addmv_), 1),
}


def _multiplications(left: Tensor, right: Tensor) -> int:
    return left.numel() * (right.shape[-1] if right.dim() > 1 else 1)


def _rounded(factor: Tensor) -> Tensor:
    return factor.bfloat16().float()
