"""What a terminal shows of a command that prints nothing for two seconds: one line on the error output, erased after.

Output of other processes does not pass here, so commands that train show their own progress (`bench.run.progress`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

SILENT_S = 2.0  # seconds without output, after which the line appears
EVERY_S = 0.5  # seconds between two looks at the clock
TRAINING = {"gate"}  # besides `run`
OPTIONS = {"--run", "--quiet"}  # with them a command trains, or shows no progress
_now = {"doing": ""}


def doing(what: str) -> None:
    """Say what the command does from now on, such as "drawing figure 3 of 16"."""
    _now["doing"] = what


class Line:
    """The line: it appears when nothing was printed for `SILENT_S`, and is erased before anything else is printed."""

    def __init__(self, name: str, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        """Show the line of command `name` on `out`, a terminal."""
        self._name, self._out, self._clock = name, out, clock
        self._began = self._printed = clock()
        self._shown = 0  # characters of the line that is on the screen
        self._pid, self._lock = os.getpid(), threading.RLock()

    def look(self) -> None:
        """Show or renew the line, if nothing was printed for long enough."""
        with self._lock:
            now = self._clock()
            if now - self._printed >= SILENT_S:
                width = shutil.get_terminal_size().columns - 1  # a line that is folded could not be erased
                text = f"{self._name}: {_now['doing'] or 'working'}, {now - self._began:.0f} s"[:width]
                self._out.write(f"\r{text.ljust(self._shown)}")
                self._out.flush()
                self._shown = max(self._shown, len(text))

    def erased(self, action: Callable[[], int]) -> int:
        """Erase the line, then do what prints, and return its result. A forked process has no line."""
        if os.getpid() != self._pid:  # the lock may be held by a thread that it does not have
            return action()
        with self._lock:
            if self._shown:
                self._out.write(f"\r{' ' * self._shown}\r")
                self._out.flush()
            self._shown, self._printed = 0, self._clock()
            return action()


class _Output:
    """An output that erases the line before it writes; everything else is that of the output itself."""

    def __init__(self, output: TextIO, line: Line) -> None:
        self._output, self._line = output, line

    def write(self, text: str) -> int:
        return self._line.erased(lambda: self._output.write(text))

    def __getattr__(self, name: str) -> object:
        return getattr(self._output, name)


def watched(words: Sequence[str], action: Callable[[], int]) -> int:
    """Return the result of a command; while it is silent, a terminal shows what it does."""
    if not words or words[0] in TRAINING or OPTIONS & {*words} or not sys.stderr or not sys.stderr.isatty():
        return action()
    with _line(words[0]):
        return action()


@contextlib.contextmanager
def _line(name: str) -> Iterator[None]:
    doing("")
    line, end = Line(name, sys.stderr), threading.Event()

    def look() -> None:
        while not end.wait(EVERY_S):
            line.look()

    thread = threading.Thread(target=look, daemon=True)
    with contextlib.ExitStack() as kept:
        for output, redirect in ((sys.stdout, contextlib.redirect_stdout), (sys.stderr, contextlib.redirect_stderr)):
            kept.enter_context(redirect(_Output(output, line)))  # type: ignore[type-var]
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()
            line.erased(lambda: 0)
