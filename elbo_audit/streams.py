"""Seeds of named streams, and the audit's own random numbers. The noise of a loss gets a seed for each draw."""

from __future__ import annotations

import hashlib

import numpy as np

SHORT = 31  # bits of a seed that every framework takes


def seed_of(draw: int, stream: str = "audit", bits: int = 63) -> int:
    """Return the seed of a draw from a named stream, below 2 to the power of `bits`."""
    digest = hashlib.blake2b(f"{draw}/{stream}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> (64 - bits)


def generator(stream: str) -> np.random.Generator:
    """Return a generator at the start of a named stream, such as of the steps by which parameters are moved."""
    return np.random.default_rng(seed_of(0, f"audit/{stream}"))
