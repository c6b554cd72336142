"""The seeds of named random streams, for code that needs no PyTorch."""

from __future__ import annotations

import hashlib


def stream_seed(seed: int, name: str, *index: int) -> int:
    """Return the 63-bit seed of stream `name` with integer indices, for run seed `seed`."""
    text = "/".join([str(seed), name, *map(str, index)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1
