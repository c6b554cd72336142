"""Named, seeded random streams: every random draw of the suite comes from one of these.

A stream's seed is a hash of the run's seed, the stream's name and its indices, so that streams do not
depend on each other or on the order of their use. PyTorch's CPU generator (mt19937) keeps the lowest 32
bits of a seed; that is enough to separate the streams of one run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Literal

import torch

ROW_CHUNK = 16  # rows that share one generator: amortises its seeding, keeps noise independent of block size


def stream_seed(seed: int, name: str, *index: int) -> int:
    """Return the 63-bit seed of stream `name` with integer indices, for run seed `seed`."""
    text = "/".join([str(seed), name, *map(str, index)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def generator(seed: int, name: str, *index: int) -> torch.Generator:
    """Return a fresh CPU generator at the start of stream `name`."""
    return torch.Generator().manual_seed(stream_seed(seed, name, *index))


def row_noise(seed: int, draw: int, rows: torch.Tensor, width: int, kind: Literal["normal", "uniform"]) -> torch.Tensor:
    """Noise for draw `draw` that belongs to each row alone, whatever block the row is asked for in.

    Args:
        seed: run seed.
        draw: index of the posterior draw.
        rows: int64 [B], the images' indices in their data set.
        width: numbers per row.
        kind: standard normal, or uniform on [0, 1).

    Returns:
        float32 [B, width] on the CPU.
    """
    out = torch.empty(len(rows), width)
    if kind == "normal":
        _fill_by_row(seed, draw, rows, out, lambda block, source: block.normal_(generator=source))
    else:
        _fill_by_row(seed, draw, rows, out, lambda block, source: block.uniform_(generator=source))
    return out


def row_bits(seed: int, draw: int, rows: torch.Tensor, words: int) -> torch.Tensor:
    """Like `row_noise`, but `words` times 64 fair random bits per row: int64 [B, words] on the CPU.

    For what needs bits rather than numbers (a dropout mask with rate 1/2 needs one): a float32 costs 32 of them.
    """
    out = torch.empty(len(rows), words, dtype=torch.int64)
    _fill_by_row(seed, draw, rows, out, random_words_)
    return out


def random_words_(words: torch.Tensor, source: torch.Generator) -> torch.Tensor:
    """Fill the int64 tensor with 64 fair random bits an element, in place."""
    # without limits PyTorch draws from [0, 2^63): the highest bit would always be zero
    return words.random_(-(2**63), None, generator=source)


def _fill_by_row(
    seed: int,
    draw: int,
    rows: torch.Tensor,
    out: torch.Tensor,
    fill: Callable[[torch.Tensor, torch.Generator], object],
) -> None:
    """Write into out[i] the numbers that `fill` gives to row rows[i]; ROW_CHUNK neighbours share a generator."""
    source = torch.Generator()
    block = torch.empty(ROW_CHUNK, out.shape[1], dtype=out.dtype)
    rows = rows.cpu()
    order = torch.argsort(rows)
    chunks, counts = torch.unique_consecutive(rows[order].div(ROW_CHUNK, rounding_mode="floor"), return_counts=True)
    is_consecutive = bool((rows.diff() == 1).all())
    start = 0
    for chunk, count in zip(chunks.tolist(), counts.tolist(), strict=True):
        source.manual_seed(stream_seed(seed, "draw", draw, chunk))
        if is_consecutive and count == ROW_CHUNK:  # the usual block of a data set: no copy
            fill(out[start : start + count], source)
        else:
            fill(block, source)
            where = order[start : start + count]
            out[where] = block[rows[where] % ROW_CHUNK]
        start += count
