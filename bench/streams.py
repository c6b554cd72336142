"""Named, seeded random streams: every random draw of the suite comes from one of these.

A stream's seed is a hash of the run's seed, the stream's name and its indices, so that streams do not
depend on each other or on the order of their use. PyTorch's CPU generator (mt19937) keeps the lowest 32
bits of a seed; that is enough to separate the streams of one run.
"""

from __future__ import annotations

import hashlib
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


def row_noise(
    seed: int, draw: int, rows: torch.Tensor, width: int, kind: Literal["normal", "uniform"]
) -> torch.Tensor:
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
    chunk_of_row = torch.div(rows, ROW_CHUNK, rounding_mode="floor")
    source = torch.Generator()
    block = torch.empty(ROW_CHUNK, width)
    for chunk in torch.unique(chunk_of_row).tolist():
        source.manual_seed(stream_seed(seed, "draw", draw, chunk))
        if kind == "normal":
            block.normal_(generator=source)
        else:
            block.uniform_(generator=source)
        where = (chunk_of_row == chunk).nonzero().squeeze(1)
        out[where] = block[rows[where] % ROW_CHUNK]
    return out
