"""Run short operations on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep PyTorch to one thread inside, then give back as many as there were.

    For vectors of a few hundred numbers waking a second thread costs more than the operation, and on a machine with
    other work to do a hundred times more (`sqrt` of 194 numbers already wakes one).
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
