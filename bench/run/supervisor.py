"""Starts a child process, reads its events and ends it. A crash or a time limit affects one seed batch only.

A child process is forked from a server that has imported torch already, which saves seconds. It writes events as lines
of JSON.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, TypeAlias

import msgspec
import psutil

from bench.core.errors import FitCrashed, OutOfTime
from bench.run.child import GRACE_S, Work, forked
from bench.run.events import Ended, Event, Tick, decode, tail

POLL_S = 0.05  # between two looks at a silent child process
CHUNK_BYTES = 1 << 16  # the size of a pipe's buffer
SIGNALS = {each.value: each.name for each in signal.Signals}
# The server imports torch, so that its children start fast. It never computes with torch, so that they start clean.
# torch.optim imports torch._dynamo at its first use, which takes as long as the rest of torch.
PRELOADED = ("bench.run.process", "numba", "torch._dynamo")

Events: TypeAlias = Generator[Event, None, None]

# If two threads poll a process that has ended, one of them gets a wrong exit code, and `multiprocessing` polls all
# processes whenever it starts one. A worker of Dask has several threads.
_POLLING = threading.Lock()


def supervise(work: Work, threads: int | None = None, time_limit_s: float | None = None) -> Events:
    """Let a child process do some work. Yield its events, and Tick while it is silent, without waiting.

    Close the generator to end the process.

    Args:
        work: what to do.
        threads: threads of a fit; None for all.
        time_limit_s: most seconds, including the start.

    Raises:
        FitCrashed: the child process does not start, refuses the work, or ends without the event `Ended`.
        OutOfTime: the work took longer than the limit.
    """
    deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
    killed_before = _killed_for_memory()
    with tempfile.NamedTemporaryFile(prefix="bnn-bench-") as printed:
        process, pipe = _fork(work, threads, printed.name, time_limit_s)
        is_done = False
        try:
            for event in _listen(process, pipe, deadline):
                if isinstance(event, Ended):
                    is_done = True
                    if event.refused is not None:
                        raise FitCrashed(event.refused, tail(printed.fileno()))
                    return
                yield event
            raise FitCrashed(_how_it_ended(process, printed, killed_before), tail(printed.fileno()))
        except TimeoutError:
            text = f"not finished within {time_limit_s:.0f} s; raise --time-limit or resume by running again"
            raise OutOfTime(text, tail(printed.fileno())) from None
        finally:
            os.close(pipe)
            _end(process, GRACE_S if is_done else 0.0)


def process_context() -> ForkServerContext:
    """Return the context that starts processes from a fork server, which has imported torch but never used it.

    The server starts here, with Ctrl-C blocked. It ends with its run, but not before its imports are done.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    resource_tracker.ensure_running()  # first: its start ends with SIGINT unblocked
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return context


def _fork(work: Work, threads: int | None, printed: str, time_limit_s: float | None) -> tuple[BaseProcess, int]:
    """Start a child process of the fork server; return it and the pipe with its events. Its output goes to a file."""
    try:
        context = process_context()
        receiver, sender = context.Pipe(duplex=False)
        with receiver, sender:
            arguments = (work, threads, sender, printed, os.getpid(), time_limit_s)
            process = context.Process(target=forked, args=arguments, daemon=True)
            with _POLLING:
                process.start()
            return process, os.dup(receiver.fileno())
    except (OSError, EOFError) as error:  # EOFError: the fork server has ended
        text = f"the fit's process does not start ({error}); --executor inline may show why, or memory is short"
        raise FitCrashed(text) from error


def _listen(process: BaseProcess, pipe: int, deadline: float | None) -> Iterator[Event]:
    """Yield events until the pipe is closed or the process ends; another process may still hold the pipe open.

    Raises TimeoutError at the deadline if the process still runs.
    """
    kept = b""
    while True:
        has_ended = _code(process) is not None  # asked before reading: if so, the pipe has all that it wrote
        if connection.wait([pipe], 0):
            chunk = os.read(pipe, CHUNK_BYTES)
            *lines, kept = (kept + chunk).split(b"\n")
            yield from map(_parsed, lines)
            if not chunk:
                return
        elif has_ended:
            return
        elif deadline is not None and time.monotonic() > deadline:
            raise TimeoutError
        else:
            yield Tick()


def _parsed(line: bytes) -> Event:
    try:
        return decode(line)
    except msgspec.DecodeError:
        raise FitCrashed(f"its process wrote a line that is not an event: {line[:80]!r}") from None


def _code(process: BaseProcess, patience_s: float = 0.0) -> int | None:
    """Return the exit code of a process, the negative number of the signal that ended it, or None while it runs."""
    connection.wait([process.sentinel], patience_s)
    with _POLLING:
        return process.exitcode


def _how_it_ended(process: BaseProcess, printed: IO[bytes], killed_before: int | None) -> str:
    code = _code(process, GRACE_S)
    if code is None:
        return "its process closed its output and went on"
    if code < 0:
        killed = _killed_for_memory()
        is_memory = code == -signal.SIGKILL and killed != killed_before
        name = SIGNALS.get(-code, f"signal {-code}")  # a real-time signal has no name
        return f"its process was ended by {name}{': memory ran out' if is_memory else ''}"
    last = tail(printed.fileno()).splitlines()[-1:]
    return ": ".join([f"its process ended with exit code {code}", *(line[:200] for line in last)])


def _killed_for_memory() -> int | None:
    """Return how many processes Linux has ended since its start because memory ran out; None if it does not say."""
    with contextlib.suppress(OSError, ValueError):
        counts = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        return int(counts["oom_kill"]) if "oom_kill" in counts else None
    return None


def _end(process: BaseProcess, patience_s: float) -> None:
    """Wait for the end of a process; if it does not come, end the process. End all processes that it has started."""
    assert process.pid is not None
    started: list[psutil.Process] = []
    if _code(process, patience_s) is None:
        with contextlib.suppress(psutil.Error):
            started = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        _code(process, GRACE_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # it was the leader of its group
    for other in started:
        with contextlib.suppress(psutil.Error):
            other.kill()
    psutil.wait_procs(started, GRACE_S)
