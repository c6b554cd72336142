"""The imports that all child processes need. Only the fork server imports this module, before its first child process.

The imports take seconds. Python's own fork server would notice the end of its run only after them. A timer looks for
it, not a thread: a fork server must have no threads when it forks.
"""

from __future__ import annotations

import importlib
import os
import signal

GONE = 1
LOOK_EVERY_S = 0.5

# The server imports torch, so that its children start fast. It never computes with torch, so that they start clean.
# torch.optim imports torch._dynamo at its first use, which takes as long as the rest of torch.
MODULES = ("bench.run.process", "numba", "torch._dynamo")


def import_all(names: tuple[str, ...], run: int) -> None:
    """Import modules; end this process if its parent process `run` ends meanwhile."""

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


import_all(MODULES, os.getppid())
