"""Torch's noise, repeated: its generators start at a seed of the draw, and get their old states back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch

from elbo_audit.streams import seed_of


def own_noise() -> AbstractContextManager[None]:
    """Return a context that restores torch's generators, those of GPUs too, when it ends."""
    return torch.random.fork_rng(devices=range(torch.cuda.device_count()))


@contextlib.contextmanager
def noise_of(draw: int) -> Iterator[None]:
    """Start torch's generators at the seed of this draw, with gradients on; at the end put their old states back."""
    with own_noise(), torch.enable_grad():
        # torch.manual_seed does this too, but took a quarter of an audit's time
        torch.default_generator.manual_seed(seed_of(draw))
        if torch.cuda.is_available():
            torch.cuda.manual_seed_all(seed_of(draw))
        yield
