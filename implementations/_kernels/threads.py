"""Run short operations on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit PyTorch to one thread inside the `with`, and restore the number of threads after it.

    For vectors of a few hundred numbers, waking a second thread costs more than the operation; on a busy machine it
    costs a hundred times more. `sqrt` of 194 numbers already wakes one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
