"""Write the output of a child process to a file. If a trained run fails, its record gets the end of this output."""

from __future__ import annotations

import os

KEPT_BYTES = 16 << 10
STDOUT, STDERR = 1, 2
_kept: list[int] = []  # STDERR, once `keep` was called


def keep(descriptor: int) -> None:
    """Send standard output and error to a file, which is open for reading and writing; also of later subprocesses."""
    for stream in (STDOUT, STDERR):
        os.dup2(descriptor, stream)
    _kept.append(STDERR)


def printed() -> str:
    """Return the end of this process's output; '' if `keep` was not called, because the user sees the output."""
    return tail(STDERR) if _kept else ""


def tail(descriptor: int) -> str:
    """Return the last KEPT_BYTES of a file as text, without moving its position."""
    start = max(0, os.fstat(descriptor).st_size - KEPT_BYTES)
    return os.pread(descriptor, KEPT_BYTES, start).decode(errors="replace").strip()
