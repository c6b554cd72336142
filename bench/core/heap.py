"""Free unused memory during a fit: garbage in reference cycles, and free memory that the C library holds.

Without this, a fit holds hundreds of MiB that it does not use. Python frees parameters in reference cycles only at its
next full collection. The C library cannot return freed activations while the loss of a step lies between them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time

EVERY_S = 2.0  # least time between two calls of `tidy` after epochs


class Tidier:
    """Frees unused memory between the parts of a fit, in a process that does one fit and ends."""

    def __init__(self) -> None:
        """Exclude all existing objects, such as imported modules, from garbage collection.

        So collections stay fast, and the memory pages that a fork server shares with this process stay shared.
        """
        gc.freeze()
        self._last = time.monotonic()

    def tidy_now_and_then(self) -> None:
        """Call `tidy` if the last call was at least EVERY_S ago."""
        if time.monotonic() - self._last >= EVERY_S:
            self.tidy()

    def tidy(self) -> None:
        """Collect garbage and give free memory back to the system."""
        tidy()
        self._last = time.monotonic()


def tidy() -> None:
    """Collect garbage and, with glibc (malloc_trim), give free memory back to the system."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
