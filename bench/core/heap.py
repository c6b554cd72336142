"""Free unused memory during a fit: garbage in reference cycles, and free memory that the C library holds.

Without this, a fit holds hundreds of MiB that it does not use. Python frees parameters in reference cycles only at its
next full collection. The C library cannot return freed activations while the loss of a step lies between them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc


def tidy() -> None:
    """Collect garbage and, with glibc (malloc_trim), give free memory back to the system."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
