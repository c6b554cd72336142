"""End a process whose run has ended: a child process at work, or the fork server during its imports."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import threading
from collections.abc import Iterable
from typing import NoReturn

import psutil

GONE = 1  # exit code of a process whose run has ended
LOOK_EVERY_S = 0.5


def end_with(*processes: int) -> None:
    """End this process as soon as one of the given processes has ended.

    Give the run, which holds the lock of the fit, and the parent. The parent is another process if it is the fork
    server, or a script that the user gave as interpreter.
    """
    for number in set(processes):
        threading.Thread(target=_end_with, args=(number,), daemon=True, name="end with owner").start()


def _end_with(process: int) -> NoReturn:
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(process).wait()
    os._exit(GONE)


def import_for(run: int, names: Iterable[str]) -> None:
    """Import modules; end this process if its parent process `run` ends meanwhile.

    A timer checks the parent, not a thread: a fork server must have no threads when it forks.
    """

    def look(number: int, frame: object) -> None:
        del number, frame
        if os.getppid() != run:
            os._exit(GONE)

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_EVERY_S, LOOK_EVERY_S)
    try:
        for name in names:
            importlib.import_module(name)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
