"""Where a fit runs: in a fresh process (the default, so that a crash harms one cell) or in this one (for debugging).

Several such processes may work at a time. An approach may have an interpreter of its own, and a pool of workers takes
the place of all that.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Generator, Sequence
from typing import Any

from bench.core.environment import thread_variables
from bench.core.errors import OutOfTime, WorkerCrashed, unknown_name
from bench.plan.cells import Cell
from bench.run.options import Options
from bench.run.process import child, work
from bench.run.remote.child import in_child
from bench.run.remote.jobs import work_job
from bench.run.remote.pool import Pool, run_on

EXECUTORS = ("process", "inline")
POLL_S = 0.5
GRACE_S = 10.0

Events = Generator[dict[str, Any], None, None]

# Starting a process asks after all others, and of two threads that ask after one that has ended, one is told wrongly.
_ASKING = threading.Lock()


class Processes:
    """Several fits at a time on this machine, each in a process of its own; a `bench.run.remote.pool.Room`."""

    def __init__(self, workers: int) -> None:
        """Make room for `workers` fits at a time."""
        self._workers, self._closed = workers, threading.Event()

    def width(self) -> int:
        """See `Room.width`."""
        return self._workers

    def close(self) -> None:
        """See `Room.close`."""
        self._closed.set()

    def while_open(self, events: Events) -> Events:
        """Pass events on; after `close`, ends the process that they come from and raises KeyboardInterrupt."""
        try:
            with contextlib.closing(events):
                for event in events:
                    if self._closed.is_set():
                        raise KeyboardInterrupt
                    yield event
        except WorkerCrashed:
            # Ctrl-C reaches the worker too, and may end it before the main thread has told us: that is no crash.
            if self._closed.wait(POLL_S):
                raise KeyboardInterrupt from None
            raise


def run_group(
    cells: Sequence[Cell], options: Options, executor: str | Processes | Pool, time_limit_s: float | None
) -> Events:
    """Fit and measure cells of one fit, yielding the worker's events (and {"kind": "tick"} while it is silent).

    Raises WorkerCrashed if the process dies, OutOfTime if it exceeds the limit. Closed early, it ends the process.
    """
    if isinstance(executor, Processes):
        yield from executor.while_open(run_group(cells, options, "process", time_limit_s))
        return
    python = options.interpreters.get(cells[0].approach, "")
    if not isinstance(executor, str):
        yield from run_on(executor, cells, options, python, time_limit_s)
        return
    if python:
        yield from in_child(python, work_job(cells, options), time_limit_s, thread_variables(options.threads))
        return
    if executor == "inline":
        events: list[dict[str, Any]] = []
        work(cells, options, events.append)
        yield from events
        return
    if executor != "process":
        raise unknown_name("executor", executor, EXECUTORS)
    yield from _in_process(cells, options, time_limit_s)


def process_context() -> Any:
    """Return what starts fresh processes quickly, with torch imported and never used."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        # The server has imported torch but never computed with it, so its children start fast and clean. torch._dynamo
        # is what torch.optim imports at its first use, which takes as long as the rest of torch.
        context.set_forkserver_preload(["bench.run.process", "bench.core.compiled", "torch._dynamo"])
    return context


def _in_process(cells: Sequence[Cell], options: Options, time_limit_s: float | None) -> Events:
    context = process_context()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(list(cells), options, sender), daemon=True)
    with _ASKING:
        process.start()
    sender.close()
    deadline = time.monotonic() + time_limit_s if time_limit_s else None
    try:
        while True:
            if deadline is not None and time.monotonic() > deadline:
                raise OutOfTime(
                    f"not finished within {time_limit_s:.0f} s; raise --time-limit or resume by running again"
                )
            if not receiver.poll(POLL_S):
                yield {"kind": "tick"}
                continue
            try:
                event = receiver.recv()
            except EOFError:
                with _ASKING:
                    process.join(GRACE_S)
                raise WorkerCrashed(_how_it_ended(process.exitcode)) from None
            if event["kind"] == "end":
                return
            yield event
    finally:
        receiver.close()
        _stop(process)


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        hint = "; the system does so when memory runs out" if -code == signal.SIGKILL else ""
        return f"its process was ended by {_name(-code)}{hint}"
    return f"its process ended with exit code {code}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"


def _stop(process: Any) -> None:
    process.join(GRACE_S if process.exitcode is None and not process.is_alive() else 1.0)
    if process.is_alive():
        process.terminate()
        process.join(GRACE_S)
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
        process.join()
