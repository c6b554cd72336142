"""Move files that cannot be trusted to `quarantine/`, and note why. They are never used and never deleted."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path

from bench.core import environment
from bench.core.errors import StoreError
from bench.core.files import move, opened_file
from bench.core.files import reason as why
from bench.core.project import refuse_shipped
from bench.core.text import one_line

FOLDER = "quarantine"
REASONS = "reasons.txt"

_log = logging.getLogger("bench")  # Python's logging shows it on stderr by default


def set_aside(root: Path, path: Path, reason: str) -> Path | None:
    """Move a file to the quarantine of a results folder, and write down why. No file there is replaced.

    Returns:
        The new path, or None if another process has moved the file already.

    Raises:
        StoreError: the file cannot be moved. The caller must not overwrite it.
    """
    refuse_shipped(path)
    folder = root / FOLDER
    target = folder / f"{time.time_ns()}__{path.parent.name}__{path.name}"  # unique
    try:
        move(path, target, root)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot set aside {path}, which cannot be trusted: {why(error)}; move it away") from error
    _log.warning("warning: %s", one_line(f"{reason}; it is now {target}"))
    line = one_line(f"{environment.now()} {target.name}: {reason}")
    try:
        with opened_file(folder / REASONS, root, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
            file.write(f"{line}\n".encode(errors="backslashreplace"))
    except OSError as error:
        _log.warning("warning: %s", one_line(f"the reason was not written to {folder / REASONS}: {why(error)}"))
    return target


def count(root: Path) -> int:
    """Return how many files are in quarantine."""
    with contextlib.suppress(OSError):
        return sum(path.name != REASONS for path in (root / FOLDER).iterdir())
    return 0
