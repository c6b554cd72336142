"""What a worker prints: kept in a file, whose end becomes part of the record of a cell that failed."""

from __future__ import annotations

import os

KEPT_BYTES = 16 << 10
STDOUT, STDERR = 1, 2
_kept: list[int] = []  # STDERR, once this process keeps what it prints


def keep(descriptor: int) -> None:
    """Send standard output and error of this process, and of all that it starts, to a file open for both ways."""
    for stream in (STDOUT, STDERR):
        os.dup2(descriptor, stream)
    _kept.append(STDERR)


def printed() -> str:
    """Return the end of what this process has printed, '' where it goes to the user."""
    return tail(STDERR) if _kept else ""


def tail(descriptor: int) -> str:
    """Return the last KEPT_BYTES of a file as text, whatever its place of reading."""
    start = max(0, os.fstat(descriptor).st_size - KEPT_BYTES)
    return os.pread(descriptor, KEPT_BYTES, start).decode(errors="replace").strip()
