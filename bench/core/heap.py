"""Giving memory back while one process does a whole fit: garbage in cycles, and free memory that the C library holds.

Both grow within a fit by hundreds of MiB that nothing uses. Parameters that a framework has tied into cycles wait for
Python's next full collection, and the losses kept of every step lie between freed activations. Imports the standard
library alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time

EVERY_S = 2.0  # between epochs that are followed by tidying


class Tidier:
    """Tidies up between the parts of a fit, in a process that does one fit and ends."""

    def __init__(self) -> None:
        """Leave alone what is there already, such as imports.

        Collections stay fast, and pages that a fork server shares with this process stay shared.
        """
        gc.freeze()
        self._last = time.monotonic()

    def tidy_now_and_then(self) -> None:
        """Tidy up if the last time was EVERY_S ago."""
        if time.monotonic() - self._last >= EVERY_S:
            self.tidy()

    def tidy(self) -> None:
        """Collect garbage and give free memory back to the system."""
        tidy()
        self._last = time.monotonic()


def tidy() -> None:
    """Collect garbage and give free memory back to the system, where the C library can (glibc's malloc_trim)."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
