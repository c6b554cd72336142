"""Named, seeded random streams, from which training and predicting draw all their random numbers.

A stream's seed is a hash of the run's seed, the stream's name and its indices. So streams do not depend on each other
or on the order in which they are used. PyTorch's CPU generator (mt19937) keeps only the lowest 32 bits of a seed; this
is enough to separate the streams of one run.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager

import torch

from bench.core.canonical import stream_seed as stream_seed
from bench.core.noise import fill_normals, fill_words

_BLOCK = 16  # of normals in PyTorch's generator on a CPU (`normal_fill` of its DistributionTemplates.h)


def own_noise() -> AbstractContextManager[None]:
    """Return a context that restores torch's generators, those of GPUs too, when it ends."""
    return torch.random.fork_rng(devices=range(torch.cuda.device_count()))


def generator(seed: int, name: str, *index: int) -> torch.Generator:
    """Return a fresh CPU generator at the start of stream `name`."""
    return torch.Generator().manual_seed(stream_seed(seed, name, *index))


def uniforms(n: int, half_width: float, source: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """Return n numbers of a CPU generator, uniform on (-half_width, half_width), [n].

    float64: those of float32 without rounding. PyTorch makes a float32 number from 24 random bits, exactly; how it
    rounds the product with the width depends on the processor.
    """
    if dtype == torch.float32:
        return torch.empty(n).uniform_(-half_width, half_width, generator=source)
    return (2 * half_width) * torch.rand(n, generator=source).to(dtype) - half_width


def normals(n: int, source: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """Return n standard normals of a CPU generator, [n].

    float64: those of float32 without rounding, from the same uniform numbers by PyTorch's own way (Box & Muller 1958):
    blocks of 16, the first 8 numbers of a block for radii and the others for angles; if n is no multiple of 16, the
    last 16 are drawn anew. Fewer than 16 normals are float64 in PyTorch too, before it rounds them.
    """
    if dtype == torch.float32 or n < _BLOCK:
        return torch.empty(n, dtype=dtype).normal_(generator=source)
    drawn = torch.rand(n, generator=source).to(dtype)
    n_whole = n - n % _BLOCK
    found = torch.cat([_box_muller(drawn[:n_whole]), drawn[n_whole:]])
    if n % _BLOCK:
        found[-_BLOCK:] = _box_muller(torch.rand(_BLOCK, generator=source).to(dtype))
    return found


def _box_muller(drawn: torch.Tensor) -> torch.Tensor:
    """Return standard normals from numbers uniform on [0, 1), [n] of blocks of `_BLOCK`."""
    first, second = drawn.view(-1, 2, _BLOCK // 2).unbind(1)
    radius, angle = (-2 * torch.log1p(-first)).sqrt(), 2 * math.pi * second
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1).flatten()


def row_noise(seed: int, draw: int, rows: torch.Tensor, width: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return standard normals for draw `draw`. The numbers of a row do not depend on the other rows of the call.

    Args:
        seed: run seed.
        draw: index of the posterior draw.
        rows: int64 [B], the images' indices in their data set.
        width: numbers per row.
        dtype: float32 or float64.

    Returns:
        [B, width] on the device of `rows`.
    """
    return fill_normals(rows.new_empty(len(rows), width, dtype=dtype), stream_seed(seed, "draw", draw), rows)


def row_bits(seed: int, draw: int, rows: torch.Tensor, words: int) -> torch.Tensor:
    """Return `words` times 64 fair random bits for each row, int64 [B, words]; the arguments are those of `row_noise`.

    A dropout mask with rate 1/2 needs one bit for a unit; a normal number costs 32 bits.
    """
    return fill_words(rows.new_empty(len(rows), words), stream_seed(seed, "draw", draw), rows)


def normals_(out: torch.Tensor, seed: int, name: str, *index: int) -> torch.Tensor:
    """Fill `out` (contiguous, any shape and device) with the standard normals of stream `name`."""
    fill_normals(out.view(1, -1), stream_seed(seed, name, *index), torch.zeros(1, dtype=torch.int64, device=out.device))
    return out


class StepNoise:
    """The noise of one epoch's training steps. Every call gives new numbers; a step may call more than once."""

    def __init__(self, stream: int) -> None:
        """Start at the first step of a stream, such as `Context.stream("noise", epoch)`."""
        self._stream = stream
        self._n_calls = 0

    def normals_(self, out: torch.Tensor) -> torch.Tensor:
        """Fill `out` (contiguous, any shape) with standard normals."""
        fill_normals(out.view(1, -1), self._stream, self._next_row(out.device))
        return out

    def words_(self, out: torch.Tensor) -> torch.Tensor:
        """Fill `out` (int64, contiguous, any shape) with 64 fair random bits an element."""
        fill_words(out.view(1, -1), self._stream, self._next_row(out.device))
        return out

    def take_step(self) -> tuple[int, int]:
        """Take the next call's numbers: return their stream and row, for a compiled loop that makes them itself."""
        self._n_calls += 1
        return self._stream, self._n_calls - 1

    def _next_row(self, device: torch.device) -> torch.Tensor:
        """Return the row of the next call, int64 [1]; made on the device, so that nothing is copied."""
        return torch.full((1,), self.take_step()[1], device=device)
