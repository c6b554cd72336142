"""Reading and writing whole files within bounds, with errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from bench.core.errors import DataCorrupt, StoreError

LONGEST = 300  # characters of what was found
CHUNK = 1 << 20  # bytes read at a time
PART_START, PART_END = ".bnn-bench-", ".part"  # of the name of a file that is being written
PART = re.compile(rf"{re.escape(PART_START)}[a-z0-9_]{{8}}{re.escape(PART_END)}")  # mkstemp adds 8 characters
LEFTOVER_S = 600.0  # age from which a part is what a killed process left: no write takes that long


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


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file and make its folder. A reader sees the old bytes or the new ones, also after a power cut.

    Raises:
        StoreError: the folder cannot be written, or the disk is full.
    """
    part: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=PART_START, suffix=PART_END)
        part = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o644)  # mkstemp makes it readable by its owner only
        part.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {reason(error)}; free space or choose another folder") from error
    finally:
        if part is not None:
            with contextlib.suppress(OSError):  # `sweep` removes what cannot be removed here
                part.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Wait until the disk has the folder's list of names: before, a power cut can bring the old file back."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # a folder that one may write but not read
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network drives cannot sync a folder
            raise
    finally:
        os.close(handle)


def check_writable(folder: Path) -> None:
    """Make the folder if it is not there; raise StoreError if files cannot be written into it."""
    probe = folder / ".writable"
    write_atomically(probe, b"")
    probe.unlink(missing_ok=True)


def sweep(folders: Iterable[Path], age_s: float = LEFTOVER_S) -> int:
    """Remove the parts that killed writers left in or below some folders, and return their number.

    Only files with the names that `write_atomically` gives are looked at. Symbolic links are not followed.
    """
    removed = 0
    for folder in folders:
        for place, _, names in os.walk(folder) if not folder.is_symlink() else ():
            for path in (Path(place, name) for name in names if PART.fullmatch(name)):
                with contextlib.suppress(OSError):  # another process removes it too, or it is not ours to remove
                    status = path.lstat()
                    if stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > age_s:
                        path.unlink()
                        removed += 1
    return removed
