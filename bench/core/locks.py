"""One lock for each fit, and a note that says which process holds it.

The operating system releases a lock when the process that holds it ends, for whatever reason. A child process ends with
the run that started it. So nobody works on a fit whose lock is free.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from bench.core import environment
from bench.core.errors import DataCorrupt, StoreError
from bench.core.files import is_there, opened_file, read_file, reason, remove, write_atomically
from bench.core.project import refuse_shipped

FOLDER = "locks"
LARGEST_NOTE = 1 << 16


class Holder(msgspec.Struct, frozen=True):
    """The process that holds a lock."""

    pid: int
    host: str
    since: str


class Busy(Exception):
    """Another process holds one of the locks."""


def lock(root: Path, key: str) -> FileLock:
    """Return the lock of a fit; raises StoreError if its file cannot be made, is a link, or has a second name."""
    path = _path(root, key)
    refuse_shipped(path)
    try:
        with opened_file(path, root, os.O_RDWR | os.O_CREAT):
            return FileLock(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {reason(error)}; choose another --results") from error


@contextlib.contextmanager
def hold(root: Path, keys: Sequence[str]) -> Iterator[None]:
    """Hold the locks of several fits, and write notes that this process holds them. If one is taken, hold none.

    Raises:
        Busy: another process holds one of the locks.
        StoreError: the folder cannot be written.
    """
    note = msgspec.json.encode(Holder(os.getpid(), socket.gethostname(), environment.now()))
    with contextlib.ExitStack() as held:
        for key in sorted(set(keys)):  # in one order, so that two runs cannot each wait for the other
            try:
                held.enter_context(lock(root, key).acquire(timeout=0))
            except Timeout:
                raise Busy(key) from None
            except OSError as error:
                raise StoreError(f"cannot lock {key[:16]} in {root / FOLDER}: {reason(error)}") from error
            path = _note(root, key)
            with contextlib.suppress(StoreError):  # only `status` reads it
                write_atomically(path, note, root)
                held.callback(remove, path, root)
        yield


def is_held(root: Path, key: str) -> bool:
    """Return whether a process works on a fit; False if this user may not look at the lock."""
    if not is_there(_path(root, key)):  # `lock` would make the file
        return False
    try:
        with lock(root, key).acquire(timeout=0):
            return False
    except Timeout:
        return True
    except (OSError, StoreError):
        return False


def holder(root: Path, key: str) -> Holder | None:
    """Return the process that holds the lock of a fit; None if it is not known."""
    try:
        return msgspec.json.decode(read_file(_note(root, key), LARGEST_NOTE, below=root), type=Holder)
    except (DataCorrupt, ValueError, RecursionError, msgspec.DecodeError):
        return None


def _path(root: Path, key: str) -> Path:
    return root / FOLDER / f"{key[:16]}.lock"


def _note(root: Path, key: str) -> Path:
    return root / FOLDER / f"{key[:16]}.json"
