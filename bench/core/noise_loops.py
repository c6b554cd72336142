"""Random numbers in loops compiled by numba, and how loops over millions of numbers are compiled.

Numba's cache on disk compiles a function again when the function's own file changes, but not when the file of a
function that it calls changes. So the names of all loops in the cache contain a hash of the files of compiled functions
that the loop's own file names. The tests compare the random numbers with the plain PyTorch of `bench.core.noise`.

Shapes: B rows, n numbers a row. Arrays are C-contiguous float32 unless said otherwise. The loops are cut into blocks of
fixed size, so that no result depends on the number of threads.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-any-generics, no-warn-return-any
# (numba has no types, and its scalars are not Python's)
from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any

import numba
import numpy as np
import torch
from numba import float32, int32, prange, uint32, uint64

LANES = 64  # counters of a block of random numbers; a counter gives four words
BLOCK = 4 * LANES
SERIAL_BELOW = 2**14  # numbers of a loop; for fewer, waking a second thread costs more than the loop

# The compiler may add in any order and fuse products with additions, but must respect NaN and infinity.
FAST = {"reassoc", "contract", "arcp", "nsz"}


def inline(function: Callable[..., Any]) -> Any:
    """Compile a function into each loop that calls it."""
    return numba.njit(inline="always", error_model="numpy", fastmath=FAST)(function)


def inner(function: Callable[..., Any]) -> Any:
    """Compile the loop over one block as a separate function: with few arrays, LLVM can vectorise the loop."""
    return numba.njit(error_model="numpy", fastmath=FAST)(function)


def _cached(function: Callable[..., Any], **options: bool) -> Any:
    """Compile a function with a cache on disk: a temporary one if no other place can be written."""
    compiled = numba.njit(error_model="numpy", fastmath=FAST, **options)
    try:
        compiled(function).enable_caching()
    except RuntimeError:  # neither the function's folder nor the user's cache
        numba.config.CACHE_DIR = _temporary_cache().name
    made = compiled(function)
    made.enable_caching()
    return made


@cache
def _temporary_cache() -> TemporaryDirectory[str]:
    """Return a folder that is removed when this process ends; the processes that it forks use it too."""
    return TemporaryDirectory(prefix="bnn-bench-")


def loop(function: Callable[..., Any]) -> Any:
    """Compile a loop twice, for one thread and for several; the size of the first argument decides which one runs."""
    function.__qualname__ += _version(function)
    serial = _cached(function)
    copy = FunctionType(function.__code__, function.__globals__, function.__name__)
    copy.__qualname__ = function.__qualname__ + "_parallel"  # with one name, numba's cache would confuse the two
    parallel = _cached(copy, parallel=True)

    def call(*arguments: Any) -> None:
        threads = torch.get_num_threads()
        if threads == 1 or arguments[0].size < SERIAL_BELOW:
            serial(*arguments)
            return
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        parallel(*arguments)

    call.__doc__ = function.__doc__
    return call


def unlocked(function: Callable[..., Any]) -> Any:
    """Compile a loop for one thread that lets other threads of Python run beside it."""
    function.__qualname__ += _version(function)
    return _cached(function, nogil=True)


def _version(function: Callable[..., Any]) -> str:
    """Return a hash of this file and the files of the compiled functions that the function's file names."""
    called = (getattr(value, "py_func", None) for value in function.__globals__.values())
    files = {each.__code__.co_filename for each in called if each is not None}
    content = b"".join(Path(file).read_bytes() for file in sorted({__file__, *files}))
    return f"_{zlib.crc32(content):08x}"


@inline
def philox(c0, c1, c2, c3, k0, k1):
    """Return the four 32-bit words of Philox4x32-10 for a counter and a key (Salmon et al. 2011, section 5.1)."""
    for _ in range(10):
        p0 = uint64(0xD2511F53) * uint64(c0)
        p1 = uint64(0xCD9E8D57) * uint64(c2)
        c0 = uint32(uint32(p1 >> uint64(32)) ^ c1 ^ k0)
        c2 = uint32(uint32(p0 >> uint64(32)) ^ c3 ^ k1)
        c1, c3 = uint32(p1), uint32(p0)
        k0 = uint32(k0 + uint32(0x9E3779B9))
        k1 = uint32(k1 + uint32(0xBB67AE85))
    return c0, c1, c2, c3


@inline
def log32(x):
    """Return the natural logarithm of a positive normal float32, to 2e-7 relative (Cephes logf, Moshier 1992)."""
    bits = np.float32(x).view(np.int32)
    mantissa = np.int32((bits & int32(0x7FFFFF)) | int32(0x3F000000)).view(np.float32)  # in [1/2, 1)
    is_low = mantissa < float32(math.sqrt(0.5))
    exponent = float32((bits >> int32(23)) - int32(126)) - (float32(1) if is_low else float32(0))
    m = mantissa + (mantissa if is_low else float32(0)) - float32(1)
    y = float32(7.0376836292e-2)
    y = y * m - float32(1.1514610310e-1)
    y = y * m + float32(1.1676998740e-1)
    y = y * m - float32(1.2420140846e-1)
    y = y * m + float32(1.4249322787e-1)
    y = y * m - float32(1.6668057665e-1)
    y = y * m + float32(2.0000714765e-1)
    y = y * m - float32(2.4999993993e-1)
    y = y * m + float32(3.3333331174e-1)
    square = m * m
    y = y * m * square - float32(0.5) * square
    return m + (y + exponent * float32(-2.12194440e-4)) + exponent * float32(0.693359375)


@inline
def normal_pair(a, b):
    """Return two independent standard normals from two 32-bit words (Box & Muller 1958); none is beyond 6.8."""
    uniform = (float32(a) + float32(0.5)) * float32(2.0**-32)
    radius = np.sqrt(float32(-2) * log32(uniform))
    # The angle 2 pi b / 2^32 is a multiple of pi/2 (its quadrant) plus a rest in [-pi/4, pi/4).
    quadrant = uint32(uint32(b + uint32(0x20000000)) >> uint32(30))
    angle = float32(int32(uint32(b - uint32(quadrant << uint32(30))))) * float32(2 * math.pi * 2.0**-32)
    z = angle * angle
    sine = ((float32(-1.9515295891e-4) * z + float32(8.3321608736e-3)) * z - float32(1.6666654611e-1)) * z
    sine = sine * angle + angle
    cosine = (float32(2.443315711809948e-5) * z - float32(1.388731625493765e-3)) * z + float32(4.166664568298827e-2)
    cosine = cosine * z * z - float32(0.5) * z + float32(1)
    is_odd = (quadrant & uint32(1)) != uint32(0)
    is_left = (quadrant == uint32(1)) | (quadrant == uint32(2))
    is_low = (quadrant & uint32(2)) != uint32(0)
    x = sine if is_odd else cosine
    y = cosine if is_odd else sine
    return radius * (-x if is_left else x), radius * (-y if is_low else y)


@inline
def _word_block(out, block, low, high, k0, k1):
    for lane in range(LANES):
        counter = uint32(block * LANES + lane)
        a, b, c, d = philox(counter, uint32(0), low, high, k0, k1)
        out[lane] = a
        out[LANES + lane] = b
        out[2 * LANES + lane] = c
        out[3 * LANES + lane] = d


@inline
def normal_block(out, block, low, high, k0, k1):
    """Fill out [BLOCK] with block number `block` of a row's standard normals."""
    for lane in range(LANES):
        counter = uint32(block * LANES + lane)
        a, b, c, d = philox(counter, uint32(0), low, high, k0, k1)
        x, y = normal_pair(a, b)
        out[lane] = x
        out[LANES + lane] = y
        x, y = normal_pair(c, d)
        out[2 * LANES + lane] = x
        out[3 * LANES + lane] = y


def _fill_words(out, rows, key):
    """Fill uint32 out [B, n] with the words of rows int64 [B] of the stream `key` (int64)."""
    n = out.shape[1]
    n_blocks = (n + BLOCK - 1) // BLOCK
    k0, k1 = uint32(key), uint32(uint64(key) >> uint64(32))
    for task in prange(len(rows) * n_blocks):
        row, block = task // n_blocks, task % n_blocks
        low, high = uint32(rows[row]), uint32(uint64(rows[row]) >> uint64(32))
        start = block * BLOCK
        if start + BLOCK <= n:
            _word_block(out[row, start : start + BLOCK], block, low, high, k0, k1)
        else:
            rest = np.empty(BLOCK, np.uint32)
            _word_block(rest, block, low, high, k0, k1)
            out[row, start:] = rest[: n - start]


def _fill_normals(out, rows, key):
    """Fill out [B, n] with the standard normals of rows int64 [B] of the stream `key` (int64)."""
    n = out.shape[1]
    n_blocks = (n + BLOCK - 1) // BLOCK
    k0, k1 = uint32(key), uint32(uint64(key) >> uint64(32))
    for task in prange(len(rows) * n_blocks):
        row, block = task // n_blocks, task % n_blocks
        low, high = uint32(rows[row]), uint32(uint64(rows[row]) >> uint64(32))
        start = block * BLOCK
        if start + BLOCK <= n:
            normal_block(out[row, start : start + BLOCK], block, low, high, k0, k1)
        else:
            rest = np.empty(BLOCK, np.float32)
            normal_block(rest, block, low, high, k0, k1)
            out[row, start:] = rest[: n - start]


fill_words = loop(_fill_words)
fill_normals = loop(_fill_normals)
