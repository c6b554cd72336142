"""Starts a child process, reads its events and ends it. A crash or a time limit affects the cells of one fit only.

A child process of this interpreter is forked from a server that has imported torch already, which saves seconds. A
child process of another interpreter, or on a cluster, is started as `python -m bench.run.remote`. Both write events as
lines of JSON.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from multiprocessing import connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, TypeAlias

import msgspec
import psutil

from bench.core.environment import thread_variables
from bench.core.errors import FitCrashed, OutOfTime
from bench.run.child import forked
from bench.run.events import Ended, Event, Refused, Tick, decode
from bench.run.jobs import Job, WorkJob
from bench.run.output import tail

POLL_S = 0.5
GRACE_S = 10.0  # for a process to end, before it is killed
CHUNK_BYTES = 1 << 16  # the size of a pipe's buffer
INSTALLED = ("site-packages", "dist-packages")
NOT_HANDED_ON = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")  # to another interpreter

Events: TypeAlias = Generator[Event, None, None]

# If two threads poll a process that has ended, one of them gets a wrong exit code. Whenever `multiprocessing` starts a
# process, it polls all others.
_POLLING = threading.Lock()


class _Forked:
    """A process of the fork server, with the methods of `subprocess.Popen` that are used here."""

    def __init__(self, process: BaseProcess) -> None:
        self._process = process
        self.pid = process.pid or 0
        self.terminate, self.kill = process.terminate, process.kill

    def poll(self) -> int | None:
        """Return its exit code, the negative number of the signal that ended it, or None while it runs."""
        with _POLLING:
            return self._process.exitcode

    def wait(self, timeout: float) -> None:
        """Wait for its end, for `timeout` seconds at most."""
        connection.wait([self._process.sentinel], timeout)


_Process: TypeAlias = subprocess.Popen[bytes] | _Forked


def supervise(job: Job, python: str = "", time_limit_s: float | None = None) -> Events:
    """Let a child process do a job. Yield its events, and Tick while it is silent. Close the generator to end it.

    Args:
        job: what to do.
        python: path of an interpreter with the dependencies of this package; "" for a process that this interpreter's
            fork server forks.
        time_limit_s: most seconds, including the start.

    Raises:
        FitCrashed: the child process does not start, refuses the job, or ends without the event `Ended`.
        OutOfTime: the job took longer than the limit.
    """
    deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
    with tempfile.NamedTemporaryFile(prefix="bnn-bench-") as printed:
        if isinstance(job, WorkJob) and not python:
            process, pipe = _fork(job, printed.name)
        else:
            process, pipe = _start(python or sys.executable, job, printed)
        try:
            for event in _listen(process, pipe, deadline):
                if isinstance(event, Ended):
                    return
                if isinstance(event, Refused):
                    raise FitCrashed(event.reason, tail(printed.fileno()))
                yield event
            raise FitCrashed(_how_it_ended(process, printed), tail(printed.fileno()))
        except TimeoutError:
            text = f"not finished within {time_limit_s:.0f} s; raise --time-limit or resume by running again"
            raise OutOfTime(text, tail(printed.fileno())) from None
        finally:
            os.close(pipe)
            _end(process)


def process_context() -> ForkServerContext:
    """Return the context that starts processes from a fork server, which has imported torch but never used it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bench.run.preload"])
    return context


def _fork(job: WorkJob, printed: str) -> tuple[_Process, int]:
    """Start a child process of the fork server; return it and the pipe with its events. Its output goes to a file."""
    context = process_context()
    receiver, sender = context.Pipe(duplex=False)
    with receiver, sender:
        process = context.Process(target=forked, args=(job, sender, printed, os.getpid()), daemon=True)
        try:
            with _POLLING:
                process.start()
        except (OSError, EOFError) as error:  # EOFError: the fork server has ended
            text = f"the fit's process does not start ({error}); this happens where memory is short"
            raise FitCrashed(text) from error
        return _Forked(process), os.dup(receiver.fileno())


def _start(python: str, job: Job, printed: IO[bytes]) -> tuple[_Process, int]:
    """Start a child process of an interpreter; see `_fork`."""
    command = [python, "-m", "bench.run.remote", str(os.getpid())]
    environ = thread_variables(job.options.threads) if isinstance(job, WorkJob) else {}
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=printed, env=_environment(python, environ)
        )
    except OSError as error:
        raise FitCrashed(f"interpreter {python} does not start: {error.strerror}") from error
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout:
        with contextlib.suppress(BrokenPipeError), process.stdin:  # if the child has ended already, its output says why
            process.stdin.write(msgspec.json.encode(job) + b"\n")
        return process, os.dup(process.stdout.fileno())


def _environment(python: str, more: Mapping[str, str]) -> dict[str, str]:
    """Return the child's environment: ours with `more`; for another interpreter, without paths to our packages."""
    same = python == sys.executable
    found = {name: value for name, value in os.environ.items() if same or name not in NOT_HANDED_ON}
    root = Path(__file__).resolve().parents[2]
    if root.name not in INSTALLED:  # a clone: the child process must import this one
        found["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), found.get("PYTHONPATH", "")]))
    return {**found, **more}


def _listen(process: _Process, pipe: int, deadline: float | None) -> Iterator[Event]:
    """Yield events until the pipe is closed or the process ends; another process may still hold the pipe open.

    Raises TimeoutError at the deadline if the process still runs.
    """
    kept = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            has_ended = process.poll() is not None  # asked before reading: if so, the pipe has all that it wrote
            left = POLL_S if deadline is None else min(POLL_S, deadline - time.monotonic())
            if left < 0 and not has_ended:
                raise TimeoutError
            if selector.select(0 if has_ended else left):
                chunk = os.read(pipe, CHUNK_BYTES)
                *lines, kept = (kept + chunk).split(b"\n")
                yield from map(_parsed, lines)
                has_ended = has_ended or not chunk
            else:
                yield Tick()
            if has_ended:
                return


def _parsed(line: bytes) -> Event:
    try:
        return decode(line)
    except msgspec.DecodeError:
        raise FitCrashed(f"its process wrote a line that is not an event: {line[:80]!r}") from None


def _how_it_ended(process: _Process, printed: IO[bytes]) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    code = process.poll()
    if code is None:
        return "its process closed its output and went on"
    if code < 0:
        hint = "; the system does so when memory runs out" if -code == signal.SIGKILL else ""
        return f"its process was ended by {_signal_name(-code)}{hint}"
    last = tail(printed.fileno()).splitlines()[-1:]
    return ": ".join([f"its process ended with exit code {code}", *(line[:200] for line in last)])


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"


def _end(process: _Process) -> None:
    """Wait a second for a process to end. If it does not, end it and all processes that it has started."""
    _wait(process, 1.0)
    if process.poll() is not None:
        return
    started: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        started = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    _wait(process, GRACE_S)
    if process.poll() is None:
        process.kill()
        _wait(process, GRACE_S)
    for other in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            other.kill()
    psutil.wait_procs(started, GRACE_S)


def _wait(process: _Process, seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
