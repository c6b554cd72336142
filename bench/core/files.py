"""Read and write whole files of bounded size, with errors that say what to do.

A results folder may come from somebody else. So code that works in a results folder passes it as `below`. Then no link
below it is followed and only plain files are opened: no file outside the folder is read, written, moved or removed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from bench.core.errors import DataCorrupt, StoreError
from bench.core.project import refuse_shipped
from bench.core.text import one_line

LONGEST = 300  # characters that an error quotes of what was found
CHUNK = 1 << 20  # bytes read at a time
PART_START, PART_END = ".bnn-bench-", ".part"  # of the name of a file that is being written
PART = re.compile(rf"{re.escape(PART_START)}[a-z0-9_]{{8}}{re.escape(PART_END)}")  # as `_write_in` makes them
_FOLDER = os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)  # O_PATH opens a folder that this user may not list
LEFTOVER_S = 600.0  # no write takes that long: a killed process left an older part


def corrupt(where: str, found: str, expected: str, remedy: str = "") -> DataCorrupt:
    """Make the error for bytes that are not the known ones."""
    shown = one_line(found, LONGEST)  # an error of zipfile can contain bytes of the file
    text = f"{where}: {shown}; expected {expected}" + (f"; to get it again: {remedy}" if remedy else "")
    return DataCorrupt(one_line(text))


def with_block(path: Path, begin: str, end: str, block: str) -> bytes:
    """Return a file's bytes with a new block between two marks, for `write_atomically`.

    Raises:
        StoreError: a mark is missing.
    """
    before, first, rest = path.read_text(encoding="utf-8").partition(begin)
    _, last, after = rest.partition(end)
    if not (first and last):
        raise StoreError(f"{path}: expected {begin!r}, then {end!r}; put the marks where the block belongs")
    return f"{before}{begin}{block}{end}{after}".encode()


def reason(error: OSError) -> str:
    """Return the system's text for an error, without the path and the number."""
    return error.strerror or str(error) or type(error).__name__


def is_there(path: Path) -> bool:
    """Return whether the path exists. A path that may not be looked at counts as existing; reading it then fails."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def opened_folder(folder: Path, below: Path | None = None, make: bool = False) -> Iterator[int]:
    """Open a folder and give its handle; with `make`, make it first.

    Args:
        folder: the folder.
        below: the folder itself or a parent of it. No link below this one is followed.
        make: whether to make missing folders.

    Raises:
        OSError: the folder does not exist, lies outside `below`, or the path to it has a link.
    """
    start = folder if below is None else below
    names = folder.relative_to(start).parts if folder.is_relative_to(start) else ("..",)
    if ".." in names:
        raise OSError(errno.EPERM, f"it lies outside {start}", str(folder))
    if make:
        _make_path(start)
    handle = os.open(start, _FOLDER)
    try:
        for name in names:
            if make:
                _make_folder(name, handle)
            inner = _open_folder_in(handle, name, folder)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def _make_path(folder: Path) -> None:
    """Make a folder and its missing parents, and sync every folder in which one was made."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        with opened_folder(one.parent) as parent:
            _sync_folder(parent)


def _make_folder(name: str, parent: int) -> None:
    """Make a folder unless it exists. Sync its parent: otherwise a power cut could remove the folder and its files."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
        _sync_folder(parent)


def _open_folder_in(handle: int, name: str, folder: Path) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            kind = "a symbolic link" if _is_link(name, handle) else "not a folder"
            raise OSError(error.errno, f"'{name}' on the way is {kind}", str(folder)) from error
        raise


def _is_link(name: str, handle: int) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode)
    return False


@contextlib.contextmanager
def opened_file(path: Path, below: Path | None = None, flags: int = os.O_RDONLY) -> Iterator[BinaryIO]:
    """Open a plain file. With `below`, follow no link, and refuse to write to a file with a second name (hard link).

    Raises:
        OSError: it cannot be opened, is a link, or is no plain file.
    """
    is_written = bool(flags & (os.O_WRONLY | os.O_RDWR))
    follow = os.O_NOFOLLOW if below is not None else 0
    with opened_folder(path.parent, below, make=bool(flags & os.O_CREAT)) as folder:
        try:
            # A pipe without a writer would block for ever.
            handle = os.open(path.name, flags | follow | os.O_NONBLOCK, 0o644, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP and _is_link(path.name, folder):
                raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from error
            raise
    try:
        _check_plain(os.fstat(handle), one_name=is_written and below is not None)
    except OSError:
        os.close(handle)
        raise
    with os.fdopen(handle, "ab" if is_written else "rb") as file:
        yield file


def _check_plain(status: os.stat_result, one_name: bool) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, "it is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if one_name and status.st_nlink > 1:
        raise OSError(errno.EMLINK, "it is also the file of another name (a hard link)")


def read_file(path: Path, limit: int, remedy: str = "", below: Path | None = None) -> bytes:
    """Return the bytes of a plain file of at most `limit` bytes; `below`: see `opened_folder`.

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
        below: see `opened_folder`.

    Raises:
        StoreError: the folder cannot be written, belongs to an installed package, or the disk is full.
    """
    refuse_shipped(path)
    try:
        with opened_folder(path.parent, below, make=True) as folder:
            _write_in(folder, path.name, content)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {reason(error)}; free space or choose another folder") from error


def _write_in(folder: int, name: str, content: bytes) -> None:
    part = f"{PART_START}{secrets.token_hex(4)}{PART_END}"
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(handle, 0o644)
            os.fsync(handle)
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        _sync_folder(folder)
    finally:
        with contextlib.suppress(OSError):  # after os.replace there is no part; `sweep` removes one that stays
            os.unlink(part, dir_fd=folder)


def _sync_folder(folder: int) -> None:
    """Write the folder's list of names to the disk: otherwise a power cut could bring the old file back."""
    try:
        handle = os.open(".", os.O_RDONLY, dir_fd=folder)
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
        with opened_folder(path.parent, below) as folder:
            os.unlink(path.name, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"cannot remove {path}: {reason(error)}; move it away") from error


def move(path: Path, target: Path, below: Path) -> None:
    """Rename a file and make the target's folder; raises OSError, also if there is a link on one of the two paths."""
    with (
        opened_folder(path.parent, below) as source,
        opened_folder(target.parent, below, make=True) as folder,
    ):
        os.rename(path.name, target.name, src_dir_fd=source, dst_dir_fd=folder)
        _sync_folder(folder)
        _sync_folder(source)


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
