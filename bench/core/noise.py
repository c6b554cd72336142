"""Counter-based random numbers: number i of row r of a stream is a function of (stream, r, i) and of nothing else.

So the noise of a row (or training step, or draw) does not depend on the order, the blocks, the number of threads or the
other rows of a call. The random words (32 bits each) come from Philox4x32-10 (Salmon et al. 2011, "Parallel random
numbers: as easy as 1, 2, 3"). Its key is the stream's 64 bits; its counter is (place in the row, 0, row's 64 bits). The
normals follow Box & Muller 1958.

On a CPU, the compiled loops of `bench.core.noise_loops` run. On a GPU, `torch.compile` makes one kernel of the plain
PyTorch below. Where there is no numba or no kernel, the plain PyTorch itself runs; it is the reference of the other
two. All three give the same words, and the same normals up to rounding.

Shapes: B rows, n numbers a row. A row is cut into blocks of 4 `LANES` words. The four words of a counter lie `LANES`
apart in a block.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

LANES = 64  # the same as in `bench.core.noise_loops`: the cache of its loops would not notice a change made here
_LOW = 0xFFFFFFFF
Fill = Callable[[Tensor, Tensor, Tensor, int], Tensor]
"""(rows [B], halves of the key [] each, number of blocks) -> numbers of the rows [B, 4 LANES n_blocks]."""


_compiling = ContextVar("_compiling", default=True)  # whether compiled loops may run; see `without_compiling`


def compiled_loops() -> ModuleType | None:
    """Return the module of compiled loops; None without numba, or inside `without_compiling`."""
    return _imported() if _compiling.get() else None


@contextlib.contextmanager
def without_compiling() -> Iterator[None]:
    """Run plain PyTorch on one thread in a `with` block: the same numbers up to rounding.

    For short work: numba compiles the loops once on each machine, and this takes longer than the work itself.
    """
    before, threads = _compiling.set(False), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _compiling.reset(before)
        torch.set_num_threads(threads)


@functools.cache
def _imported() -> ModuleType | None:
    try:
        return importlib.import_module("bench.core.noise_loops")
    except ImportError:
        return None


def fill_normals(out: Tensor, key: int, rows: Tensor) -> Tensor:
    """Fill `out`, float [B, n] and contiguous, with the standard normals of `rows`, int64 [B], of stream `key`.

    float64: the same random words give the same normals without the rounding of float32, in plain PyTorch.
    """
    n = out.shape[1]
    if out.dtype == torch.float64:
        return out.copy_(plain_normals(key, rows.to(out.device), n, torch.float64))
    loops = compiled_loops()
    if loops is not None and out.is_cpu:
        loops.fill_normals(out.numpy(), rows.numpy(), np.int64(key))
        return out
    normals = _fastest(normals_of_blocks, out.device.type)
    return out.copy_(normals(*arguments(key, rows.to(out.device), n))[:, :n])


def fill_words(out: Tensor, key: int, rows: Tensor) -> Tensor:
    """Fill `out`, int64 [B, n] and contiguous, with 64 fair random bits an element."""
    loops = compiled_loops()
    if loops is not None and out.is_cpu:
        loops.fill_words(out.numpy().view(np.uint32), rows.numpy(), np.int64(key))
        return out
    words = _fastest(words_of_blocks, out.device.type)
    n = 2 * out.shape[1]
    halves = words(*arguments(key, rows.to(out.device), n))[:, :n].view(len(out), -1, 2)
    return out.copy_(halves[:, :, 0] | halves[:, :, 1] << 32)  # the lower half comes first, as in memory


def plain_words(key: int, rows: Tensor, n: int) -> Tensor:
    """Return the random words of the rows, int64 [B, n] in [0, 2^32), on the device of `rows`."""
    return words_of_blocks(*arguments(key, rows, n))[:, :n]


def plain_normals(key: int, rows: Tensor, n: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the standard normals of the rows, [B, n] in float32 or float64, on the device of `rows`."""
    return normals_of_blocks(*arguments(key, rows, n), dtype)[:, :n]


@functools.cache
def _fastest(plain: Fill, device_type: str) -> Fill:
    """Return `words_of_blocks` or `normals_of_blocks`; on a GPU as one kernel, if PyTorch can compile it."""
    return (device_type == "cuda" and fused(plain, torch.device("cuda"))) or plain


def fused(plain: Fill, device: torch.device) -> Fill | None:
    """Compile `words_of_blocks` or `normals_of_blocks` to one kernel of the device; None if that fails.

    The kernel takes any number of rows and blocks. The key is a tensor, because PyTorch compiles again for each new
    integer.
    """
    kernel: Fill = torch.compile(plain, dynamic=True)
    try:
        kernel(*arguments(1, torch.arange(2, device=device), 8 * LANES))
    except Exception as error:  # noqa: BLE001 - PyTorch's compilers raise errors of many types, and plain noise is right
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        warnings.warn(f"no kernel for noise on {device}, so that it takes longer: {why}", RuntimeWarning, stacklevel=2)
        return None
    return kernel


def arguments(key: int, rows: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor, int]:
    """Return the arguments of a `Fill` for n numbers a row; made on the device of `rows`, so that nothing is copied."""
    low, high = (torch.full((), half, dtype=torch.int64, device=rows.device) for half in (key & _LOW, key >> 32 & _LOW))
    return rows, low, high, math.ceil(n / (4 * LANES))


def words_of_blocks(rows: Tensor, key_low: Tensor, key_high: Tensor, n_blocks: int) -> Tensor:
    """Return the words of whole blocks, int64 [B, 4 LANES n_blocks]."""
    counters = torch.arange(n_blocks * LANES, device=rows.device).expand(len(rows), -1)
    high = (rows >> 32 & _LOW).unsqueeze(1).expand_as(counters)
    low = (rows & _LOW).unsqueeze(1).expand_as(counters)
    words = _philox(counters, torch.zeros_like(counters), low, high, key_low, key_high)
    together = torch.stack([word.view(len(rows), n_blocks, LANES) for word in words], dim=2)
    return together.view(len(rows), -1)


def normals_of_blocks(
    rows: Tensor, key_low: Tensor, key_high: Tensor, n_blocks: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return the standard normals of whole blocks, [B, 4 LANES n_blocks] in float32 or float64."""
    words = words_of_blocks(rows, key_low, key_high, n_blocks).view(len(rows), n_blocks, 2, 2, LANES)
    uniform = (words[:, :, :, 0].to(dtype) + 0.5) * 2.0**-32
    radius = (-2 * uniform.log()).sqrt()
    angle = words[:, :, :, 1].double() * (2 * math.pi * 2.0**-32)
    pair = torch.stack([radius * angle.cos().to(dtype), radius * angle.sin().to(dtype)], dim=3)
    return pair.view(len(rows), -1)


def _philox(c0: Tensor, c1: Tensor, c2: Tensor, c3: Tensor, k0: Tensor, k1: Tensor) -> tuple[Tensor, ...]:
    """Return the four words of each counter. int64 keeps all 64 bits of a product, so its sign does not matter."""
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1 = (p1 >> 32 & _LOW) ^ c1 ^ k0, p1 & _LOW
        c2, c3 = (p0 >> 32 & _LOW) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = k0 + 0x9E3779B9 & _LOW, k1 + 0xBB67AE85 & _LOW
    return c0, c1, c2, c3
