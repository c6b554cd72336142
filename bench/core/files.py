"""Reading and writing whole files within bounds, with errors that say what to do."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO

from bench.core.errors import ConfigError, DataCorrupt

LONGEST = 300  # characters of what was found
CHUNK = 1 << 20  # bytes read at a time


def corrupt(where: str, found: str, expected: str, remedy: str = "") -> DataCorrupt:
    """Make the error for bytes that are not the known ones."""
    shown = found if len(found) <= LONGEST else f"{found[:LONGEST]}..."  # a broken zip is quoted by its reader
    text = f"{where}: {shown}; expected {expected}" + (f"; to get it again: {remedy}" if remedy else "")
    return DataCorrupt(text.replace("\n", " "))


def reason(error: OSError) -> str:
    """Return the system's words for an error, without the path and the number."""
    return error.strerror or str(error) or type(error).__name__


def is_there(path: Path) -> bool:
    """Return False only if nothing has this path; what cannot be looked at is there, and fails when it is read."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def read_file(path: Path, limit: int, remedy: str = "") -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes.

    Raises:
        DataCorrupt: it is not a regular file, cannot be read, or is longer.
    """
    try:
        # A pipe would block for ever and a device never end.
        if not stat.S_ISREG(path.stat().st_mode):
            kind = "a folder" if path.is_dir() else "not a regular file"
            raise corrupt(str(path), f"it is {kind}", "a file", remedy)
        with path.open("rb") as file:
            data = _read(file, limit + 1)
    except OSError as error:
        raise corrupt(str(path), f"it cannot be read ({reason(error)})", "a readable file", remedy) from error
    if len(data) > limit:
        raise corrupt(str(path), f"more than {limit:,} bytes", f"at most {limit:,}", remedy)
    return data


def _read(file: BinaryIO, limit: int) -> bytes:
    """Return at most `limit` bytes; `file.read(limit)` would take memory for all of them at once."""
    data = bytearray()
    while len(data) < limit and (chunk := file.read(min(CHUNK, limit - len(data)))):
        data += chunk
    return bytes(data)


def write_file(path: Path, data: bytes) -> None:
    """Write a file and its folder, all or nothing: a reader sees the old bytes or the new ones.

    Raises:
        ConfigError: the folder cannot be written, or the disk is full.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # mkstemp makes it readable by its owner only
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({reason(error)}); free the space or choose another folder"
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
