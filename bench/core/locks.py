"""One lock for each fit, and a note that says which process holds it.

The operating system releases a lock when the process that holds it ends, for whatever reason. A child process ends with
the run that started it. So nobody works on a fit whose lock is free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bench.core import environment
from bench.core.errors import DataCorrupt, StoreError
from bench.core.files import is_there, opened_file, read_file, reason, refuse_shipped, remove, write_atomically

FOLDER = "locks"
LARGEST_NOTE = 1 << 16


class Holder(msgspec.Struct, frozen=True):
    """The process that holds a lock."""

    pid: int
    host: str
    since: str


class Busy(Exception):
    """Another process holds one of the locks."""


@contextlib.contextmanager
def lock(root: Path, key: str) -> Iterator[None]:
    """Hold the lock of a fit. Nothing is written into its file.

    Raises:
        Busy: another process holds it.
        StoreError: the file cannot be made or locked, or is a link.
    """
    path = _path(root, key)
    refuse_shipped(path)
    with contextlib.ExitStack() as held:
        try:
            file = held.enter_context(opened_file(path, root, os.O_RDWR | os.O_CREAT))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(key) from None
        except OSError as error:
            raise StoreError(f"cannot lock {path}: {reason(error)}; choose another --results") from error
        yield  # closing the file frees the lock


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
            held.enter_context(lock(root, key))
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
        with lock(root, key):
            return False
    except Busy:
        return True
    except StoreError:
        return False


def are_kept(root: Path) -> bool:
    """Return whether a lock that is held is refused to others; on some network disks it is not. Raises StoreError."""
    key = f"probe-{secrets.token_hex(4)}"
    try:
        with lock(root, key), contextlib.suppress(Busy), lock(root, key):
            return False
        return True
    finally:
        with contextlib.suppress(StoreError):  # that it cannot be locked is the error to report
            remove(_path(root, key), root)


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
