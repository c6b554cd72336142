"""Counter-based random numbers: number i of row r of a stream is a function of (stream, r, i) and of nothing else.

So noise belongs to its row (or training step, or draw) whatever is asked for beside it, in whatever order, block or
number of threads. Words are those of Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
3"), key = the stream's 64 bits, counter = (place in the row, 0, row's 64 bits); normals are those of Box & Muller 1958.
On a CPU the compiled loops of `bench.core.compiled` run. On a GPU, without numba, and as their reference, the plain
PyTorch below runs, which gives the same words and the same normals up to rounding.

Shapes: B rows, n numbers a row. Words 4 l to 4 l + 3 of counter l lie `LANES` apart in blocks of 4 `LANES`.
"""

from __future__ import annotations

import functools
import importlib
import math
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

LANES = 64
_LOW = 0xFFFFFFFF


@functools.cache
def compiled_loops() -> ModuleType | None:
    """Return `bench.core.compiled`, or None where numba is missing (as it may be where a GPU does the work)."""
    try:
        return importlib.import_module("bench.core.compiled")
    except ImportError:
        return None


def fill_normals(out: Tensor, key: int, rows: Tensor) -> Tensor:
    """Fill `out`, float [B, n] and contiguous, with the standard normals of `rows`, int64 [B], of stream `key`.

    They are drawn in float32 whatever the type of `out`.
    """
    loops = compiled_loops()
    if loops is not None and out.is_cpu:
        single = out if out.dtype == torch.float32 else torch.empty(out.shape, dtype=torch.float32)
        loops.fill_normals(single.numpy(), rows.numpy(), np.int64(key))
        return out if single is out else out.copy_(single)
    return out.copy_(plain_normals(key, rows.to(out.device), out.shape[1]))


def fill_words(out: Tensor, key: int, rows: Tensor) -> Tensor:
    """Fill `out`, int64 [B, n] and contiguous, with 64 fair random bits an element."""
    loops = compiled_loops()
    if loops is not None and out.is_cpu:
        loops.fill_words(out.numpy().view(np.uint32), rows.numpy(), np.int64(key))
        return out
    halves = plain_words(key, rows.to(out.device), 2 * out.shape[1]).view(len(out), -1, 2)
    return out.copy_(halves[:, :, 0] | halves[:, :, 1] << 32)  # the lower half first, as in memory


def plain_words(key: int, rows: Tensor, n: int) -> Tensor:
    """Return the random words of the rows, int64 [B, n] in [0, 2^32), on the device of `rows`."""
    n_blocks = math.ceil(n / (4 * LANES))
    counters = torch.arange(n_blocks * LANES, device=rows.device).expand(len(rows), -1)
    high = (rows >> 32 & _LOW).unsqueeze(1).expand_as(counters)
    low = (rows & _LOW).unsqueeze(1).expand_as(counters)
    words = _philox(counters, torch.zeros_like(counters), low, high, key & _LOW, key >> 32 & _LOW)
    together = torch.stack([word.view(len(rows), n_blocks, LANES) for word in words], dim=2)
    return together.view(len(rows), -1)[:, :n]


def plain_normals(key: int, rows: Tensor, n: int) -> Tensor:
    """Return the standard normals of the rows, float32 [B, n], on the device of `rows`."""
    n_blocks = math.ceil(n / (4 * LANES))
    words = plain_words(key, rows, n_blocks * 4 * LANES).view(len(rows), n_blocks, 2, 2, LANES)
    uniform = (words[:, :, :, 0].float() + 0.5) * 2.0**-32
    radius = (-2 * uniform.log()).sqrt()
    angle = words[:, :, :, 1].double() * (2 * math.pi * 2.0**-32)
    pair = torch.stack([radius * angle.cos().float(), radius * angle.sin().float()], dim=3)
    return pair.view(len(rows), -1)[:, :n]


def _philox(c0: Tensor, c1: Tensor, c2: Tensor, c3: Tensor, k0: int, k1: int) -> tuple[Tensor, ...]:
    """Return the four words for each counter; int64 holds a product's 64 bits, whatever it takes the sign to be."""
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1 = (p1 >> 32 & _LOW) ^ c1 ^ k0, p1 & _LOW
        c2, c3 = (p0 >> 32 & _LOW) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = k0 + 0x9E3779B9 & _LOW, k1 + 0xBB67AE85 & _LOW
    return c0, c1, c2, c3
