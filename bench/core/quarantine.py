"""Files that cannot be trusted: named, moved to `quarantine/` with the reason, never used and never deleted."""

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

_log = logging.getLogger("bench")  # shown on stderr, unless the program that uses this package says otherwise


def set_aside(root: Path, path: Path, reason: str) -> Path | None:
    """Move a file to the quarantine of a results folder, keeping every earlier one, and write down why.

    Returns:
        Where it is now, or None if another process has moved it already.

    Raises:
        StoreError: it cannot be moved; whoever would write in its place must not.
    """
    refuse_shipped(path)
    folder = root / FOLDER
    target = folder / f"{time.time_ns()}__{path.parent.name}__{path.name}"  # no two at the same time and place
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
