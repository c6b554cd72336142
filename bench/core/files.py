"""Read and write whole files of bounded size, with errors that say what to do.

A results folder is data that may come from somebody else. So code that works in one passes it as `below`. Then no link
below it is followed, and only plain files are opened. No file is changed in place: a new one gets the old one's name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from bench.core.errors import DataCorrupt, StoreError
from bench.core.project import IS_CLONE, TOP
from bench.core.text import one_line

LONGEST = 300  # characters that an error quotes of what was found
CHUNK = 1 << 20  # bytes read at a time
PART_START, PART_END = ".bnn-bench-", ".part"  # of the name of a file that is being written
PART = re.compile(rf"{re.escape(PART_START)}[a-z0-9_]{{8}}{re.escape(PART_END)}")  # as `_write_in` makes them
LEFTOVER_S = 600.0  # no write takes that long: a killed process left an older part


def corrupt(where: str, found: str, expected: str, remedy: str = "") -> DataCorrupt:
    """Make the error for bytes that are not the known ones."""
    shown = one_line(found, LONGEST)  # an error of zipfile can contain bytes of the file
    text = f"{where}: {shown}; expected {expected}" + (f"; to get it again: {remedy}" if remedy else "")
    return DataCorrupt(one_line(text))


def reason(error: Exception) -> str:
    """Return an error's text; the system's has no number and no path, which the caller names."""
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


def is_there(path: Path) -> bool:
    """Return whether the path exists; True on permission errors, so that the later read reports them."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def opened_file(path: Path, below: Path | None = None, flags: int = os.O_RDONLY) -> BinaryIO:
    """Open a plain file. Every file of a results folder is opened here.

    Args:
        path: the file.
        below: the results folder; no link below it is followed. None: the user named the file, and links are followed.
        flags: of `os.open`; `os.O_CREAT` also makes the file's folder.

    Raises:
        OSError: it cannot be opened, is no plain file, or lies outside `below` or behind a link.
    """
    _check_way(path.parent, below, make=bool(flags & os.O_CREAT))
    try:
        # A pipe without a writer would block for ever.
        handle = os.open(path, flags | os.O_NONBLOCK | (0 if below is None else os.O_NOFOLLOW), 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP and below is not None:
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from error
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file", str(path))
    return os.fdopen(handle, "wb" if flags & (os.O_WRONLY | os.O_RDWR) else "rb")


def _check_way(folder: Path, below: Path | None, make: bool = False) -> None:
    """Raise OSError unless `folder` is `below` or lies below it without a link on the way; make what is missing."""
    place = folder if below is None else below
    names = folder.relative_to(place).parts if folder.is_relative_to(place) else ("..",)
    if ".." in names:
        raise OSError(errno.EPERM, f"it lies outside {place}", str(folder))
    if make:
        for one in reversed([one for one in (place, *place.parents) if not one.exists()]):
            _make_folder(one)
    for name in names:
        place = place / name
        if make:
            _make_folder(place)
        mode = place.lstat().st_mode
        if not stat.S_ISDIR(mode):
            kind = "a symbolic link" if stat.S_ISLNK(mode) else "not a folder"
            raise OSError(errno.ENOTDIR, f"'{name}' on the way is {kind}", str(folder))


def _make_folder(folder: Path) -> None:
    """Make a folder unless it exists. Sync its parent: otherwise a power cut could remove the folder and its files."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        _sync_folder(folder.parent)


def read_file(path: Path, limit: int, remedy: str = "", below: Path | None = None) -> bytes:
    """Return the bytes of a plain file of at most `limit` bytes; `below`: see `opened_file`.

    Raises:
        DataCorrupt: it is not a plain file, cannot be read, or is longer.
    """
    try:
        with opened_file(path, below) as file:
            data = _read(file, limit + 1)
    except OSError as error:
        raise corrupt(str(path), f"it cannot be read ({reason(error)})", "a readable file", remedy) from error
    if len(data) > limit:
        raise corrupt(str(path), f"more than {limit:,} bytes", f"at most {limit:,}", remedy)
    return data


def _read(file: BinaryIO, limit: int) -> bytes:
    """Return at most `limit` bytes; `file.read(limit)` would allocate `limit` bytes even for a short file."""
    data = bytearray()
    while len(data) < limit and (chunk := file.read(min(CHUNK, limit - len(data)))):
        data += chunk
    return bytes(data)


def write_atomically(path: Path, content: bytes, below: Path | None = None) -> None:
    """Write a file and make its folder. A reader sees all old bytes or all new ones, also after a power cut.

    Args:
        path: the file. A link of this name is replaced, not followed.
        content: its bytes.
        below: see `opened_file`.

    Raises:
        StoreError: the folder cannot be written, belongs to an installed package, or the disk is full.
    """
    refuse_shipped(path)
    part = path.with_name(f"{PART_START}{secrets.token_hex(4)}{PART_END}")
    try:
        with opened_file(part, below, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {reason(error)}; free space or choose another folder") from error
    finally:
        with contextlib.suppress(OSError):  # after os.replace there is no part; `sweep` removes one that stays
            part.unlink()


def _sync_folder(folder: Path) -> None:
    """Write the folder's list of names to the disk: otherwise a power cut could bring the old file back."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # this user may write in the folder but not read it
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network drives cannot sync a folder
            raise
    finally:
        os.close(handle)


def remove(path: Path, below: Path) -> None:
    """Remove a file, if it exists; a link of this name is removed, not the file that it points to.

    No link on the way to the file is followed.

    Raises:
        StoreError: it cannot be removed.
    """
    try:
        _check_way(path.parent, below)
        path.unlink(missing_ok=True)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"cannot remove {path}: {reason(error)}; move it away") from error


def names_in(folder: Path, below: Path) -> list[str]:
    """Return the names in a folder, sorted; none if it does not exist; raises OSError if it cannot be listed."""
    try:
        _check_way(folder, below)
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def check_writable(folder: Path, below: Path | None = None) -> None:
    """Make the folder if it does not exist; raise StoreError if files cannot be written into it."""
    probe = folder / ".writable"
    write_atomically(probe, b"", below)
    remove(probe, below or folder)


def sweep(folders: Iterable[Path]) -> None:
    """Remove the half-written files that killed writers left in or below some folders.

    These have the names that `write_atomically` gives, and are older than `LEFTOVER_S`. Links are not followed.
    """
    for folder in folders:
        for place, _, names in os.walk(folder) if not folder.is_symlink() else ():
            for path in (Path(place, name) for name in names if PART.fullmatch(name)):
                with contextlib.suppress(OSError):  # another process removed it, or this user may not remove it
                    status = path.lstat()
                    if stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > LEFTOVER_S:
                        path.unlink()


def refuse_shipped(path: Path) -> None:
    """Raise StoreError for a path inside an installed package, whose files all users share; a clone may be changed."""
    if not IS_CLONE and path.resolve().is_relative_to(TOP):
        raise StoreError(
            f"{path} belongs to the installed package, whose files are only read; name a folder of your own "
            "(--results, --data-dir, --output or --to)"
        )
