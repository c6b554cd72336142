"""Noise that can be repeated: torch's generators start at a seed of the draw, and get their old states back."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch


def own_noise() -> AbstractContextManager[None]:
    """Return a context that restores torch's generators, those of GPUs too, when it ends."""
    return torch.random.fork_rng(devices=range(torch.cuda.device_count()))


def seed_of(draw: int, stream: str = "audit") -> int:
    """Return the 63-bit seed of a draw from a named stream."""
    return int.from_bytes(hashlib.blake2b(f"{draw}/{stream}".encode(), digest_size=8).digest(), "little") >> 1


@contextlib.contextmanager
def noise_of(draw: int) -> Iterator[None]:
    """Start torch's generators at the seed of this draw, with gradients on; at the end put their old states back."""
    with own_noise(), torch.enable_grad():
        # torch.manual_seed does this too, but took a quarter of an audit's time
        torch.default_generator.manual_seed(seed_of(draw))
        if torch.cuda.is_available():
            torch.cuda.manual_seed_all(seed_of(draw))
        yield
