"""What all examples share: a network of MNIST's sizes, batches of made-up rows, and a seed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn

from elbo_audit.streams import seed_of

SIZES = (784, 400, 400, 10)


@contextlib.contextmanager
def seeded() -> Iterator[None]:
    """Seed torch and make double precision the default, so that rounding hides no KL. Undo both at the end."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed_of(0, "audit/libraries"))
            yield
    finally:
        torch.set_default_dtype(before)


def batches(size: int, n_in: int | None = None) -> list[tuple[Tensor, Tensor]]:
    """Return three batches of made-up images [size, n_in] in 0..1, with digits [size]; by default 784 inputs."""
    n_in = n_in or SIZES[0]
    source = torch.Generator().manual_seed(seed_of(0, "audit/libraries/rows"))
    images = [torch.rand(size, n_in, generator=source, dtype=torch.float64) for _ in range(3)]
    return [(x, torch.randint(SIZES[-1], (size,), generator=source)) for x in images]


def network(layer: Callable[[int, int], nn.Module]) -> nn.Sequential:
    """Return the network 784-400-400-10 with ReLU, made of a library's layers."""
    first, second, third = (layer(n_in, n_out) for n_in, n_out in pairwise(SIZES))
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third)
