"""Runs each fit where the executor says: in a child process, in this process, or on a pool of Dask workers.

A fresh child process for each fit is the default, because a crash then harms one fit only. Several child processes may
work at a time, and an approach may have an interpreter of its own. A fit in this process is for debugging. A pool
starts the child processes on its workers.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from bench.core.errors import WorkerCrashed, unknown_name
from bench.plan.cells import Cell
from bench.run.events import AtWork, Event
from bench.run.options import Options
from bench.run.remote.jobs import WorkJob, work_job
from bench.run.remote.pool import Pool, Room, run_on
from bench.run.supervisor import POLL_S, Events, supervise

EXECUTORS = ("process", "inline")
MOST = 1000  # fits at a time, whatever a pool could take: each has a thread that waits, and open locks

Group = list[Cell]
Found = TypeVar("Found")


class Processes:
    """A `Room` of this machine: several fits at a time, each in a process of its own."""

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
    """Fit and measure cells of one fit, yielding the worker's events, and Tick while it is silent.

    Raises WorkerCrashed if the process dies, OutOfTime if it exceeds the limit. Closed early, it ends the process.
    """
    if isinstance(executor, Processes):
        yield from executor.while_open(run_group(cells, options, "process", time_limit_s))
        return
    python = options.interpreters.get(cells[0].approach, "")
    if not isinstance(executor, str):
        yield from run_on(executor, cells, options, python, time_limit_s)
    elif python:
        yield from supervise(work_job(cells, options), python, time_limit_s)
    elif executor == "inline":
        yield from _inline(cells, options)
    elif executor == "process":
        yield from supervise(WorkJob(list(cells), options, expected=None), "", time_limit_s)
    else:
        raise unknown_name("executor", executor, EXECUTORS)


def _inline(cells: Sequence[Cell], options: Options) -> Events:
    from bench.run.process import work  # imports torch, which a run that only supervises does without

    events: list[Event] = []
    work(cells, options, events.append)
    yield from events


def run_queue(
    room: Room,
    queue: list[Group],
    attempt: Callable[[Group], Found | None],
    tell: Callable[[AtWork], object],
) -> Generator[Found, None, None]:
    """Call `attempt` for every group, as many at a time as there is room for, and yield what it returns as it comes.

    Args:
        room: where the groups are fitted; closed if anything is raised.
        queue: the groups; emptied.
        attempt: called in threads; None says that another process works on the group, which comes again later.
        tell: hears now and then how many fits are at work or wait for a worker.
    """
    running: dict[Future[Found | None], Group] = {}
    threads = ThreadPoolExecutor(min(MOST, len(queue)) or 1, thread_name_prefix="bnn-bench-fit")
    try:
        while queue or running:
            width = min(MOST, room.width())  # also asked with an empty queue: a room may replace workers then
            while queue and len(running) < width:
                group = queue.pop(0)
                running[threads.submit(attempt, group)] = group
            tell(AtWork(len(running)))
            done, _ = wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                group = running.pop(future)
                found = future.result()
                if found is None:
                    queue.append(group)
                else:
                    yield found
    except BaseException:
        room.close()
        raise
    finally:
        threads.shutdown(wait=True, cancel_futures=True)
