"""Giving memory back while one process does a whole fit: garbage in cycles, and free memory that the C library holds.

Both grow within a fit by hundreds of MiB that nothing uses: parameters that a framework has tied into cycles wait for
Python's next full collection, and the losses kept of every step lie between freed activations. Imports the standard
library alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
from collections.abc import Callable
from typing import Any

Event = dict[str, Any]  # what a worker tells: a kind, and what belongs to it
Send = Callable[[Event], None]

EVERY_S = 2.0  # between epochs that are followed by tidying


def tidying(send: Send) -> Send:
    """Return `send` that tidies up after it has told of an epoch's end, or that measuring begins.

    Neither is in the seconds of an epoch, though the first is in a fit's whole time. What is there already, a server's
    imports, is never looked at again, so that a collection is fast and pages shared with that server stay shared: for
    processes that do one fit and end.
    """
    gc.freeze()
    last = time.monotonic()

    def tell(event: Event) -> None:
        nonlocal last
        send(event)
        now = time.monotonic()
        if event["kind"] == "measure" or (event["kind"] == "epoch" and now - last >= EVERY_S):
            tidy()
            last = now

    return tell


def tidy() -> None:
    """Collect garbage and give free memory back to the system, where the C library can (glibc's malloc_trim)."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
