"""Write the output of a child process to a file. The end of it goes into the record of a cell that failed."""

from __future__ import annotations

import os

KEPT_BYTES = 16 << 10
STDOUT, STDERR = 1, 2
_kept: list[int] = []  # STDERR, once `keep` was called


def keep(descriptor: int) -> None:
    """Send standard output and error, also of processes started later, to a file open for reading and writing."""
    for stream in (STDOUT, STDERR):
        os.dup2(descriptor, stream)
    _kept.append(STDERR)


def printed() -> str:
    """Return the end of this process's output; '' if the output goes to the user."""
    return tail(STDERR) if _kept else ""


def tail(descriptor: int) -> str:
    """Return the last KEPT_BYTES of a file as text; do not move its position."""
    start = max(0, os.fstat(descriptor).st_size - KEPT_BYTES)
    return os.pread(descriptor, KEPT_BYTES, start).decode(errors="replace").strip()
