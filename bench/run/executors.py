"""Runs each fit where the executor says: in a child process, in this process, or on a pool of Dask workers.

A fresh child process for each fit is the default, because a crash then harms one fit only. Several child processes may
work at a time, and an approach may have an interpreter of its own. A fit in this process is for debugging. A pool
starts the child processes on its workers.
"""

from __future__ import annotations

import contextlib
import resource
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

from bench.core.errors import FitCrashed, unknown_name
from bench.plan.cells import Cell
from bench.run.events import AtWork, Event
from bench.run.jobs import WorkJob, work_job
from bench.run.options import Options
from bench.run.supervisor import POLL_S, Events, supervise

EXECUTORS = ("process", "inline")
MOST = 1000  # computations at a time, even on a larger pool: each needs a waiting thread and open locks
FILES = 32  # open files of a computation, at most: a lock for each of its seeds (16 on a GPU), and its connections

CellGroup = list[Cell]
Found = TypeVar("Found")


class Room(Protocol):
    """A place that can do several fits at a time."""

    def width(self) -> int:
        """Return how many fits may be given to it now: at least 1, so that a fit can wait for the first worker."""

    def close(self) -> None:
        """End the running fits and release the workers."""


class Pool(Room, Protocol):
    """Workers elsewhere."""

    def run_group(
        self, cells: Sequence[Cell], options: Options, python: str, time_limit_s: float | None
    ) -> Iterator[Event]:
        """Fit and measure cells of one fit on a worker, by another interpreter unless `python` is ''.

        It is called from many threads. If a worker dies, another one takes the fit, a few times; then FitCrashed is
        raised. After `close`, it raises KeyboardInterrupt.
        """


class Processes:
    """A `Room` on this machine: several fits at a time, each in its own process."""

    def __init__(self, at_once: int) -> None:
        """Make room for `at_once` fits at a time."""
        self._at_once, self._closed = at_once, threading.Event()

    def width(self) -> int:
        """See `Room.width`."""
        return self._at_once

    def close(self) -> None:
        """See `Room.close`."""
        self._closed.set()

    def while_open(self, events: Events) -> Events:
        """Pass events on; after `close`, end the process that sends them and raise KeyboardInterrupt."""
        try:
            with contextlib.closing(events):
                for event in events:
                    if self._closed.is_set():
                        raise KeyboardInterrupt
                    yield event
        except FitCrashed:
            # Ctrl-C also reaches the child, and may end it before the main thread calls `close`. That is no crash.
            if self._closed.wait(POLL_S):
                raise KeyboardInterrupt from None
            raise


def run_group(
    cells: Sequence[Cell], options: Options, executor: str | Processes | Pool, time_limit_s: float | None
) -> Events:
    """Fit and measure cells of one fit. Yield the child process's events, and Tick while it is silent.

    Raises FitCrashed if the process dies, OutOfTime if it exceeds the limit. Closing the generator ends it.
    """
    if isinstance(executor, Processes):
        yield from executor.while_open(run_group(cells, options, "process", time_limit_s))
        return
    python = options.interpreters.get(cells[0].approach, "")
    if not isinstance(executor, str):
        yield from executor.run_group(cells, options, python, time_limit_s)
    elif python:
        yield from supervise(work_job(cells, options), python, time_limit_s)
    elif executor == "inline":
        yield from _inline(cells, options)
    elif executor == "process":
        yield from supervise(WorkJob(list(cells), options, expected=None), "", time_limit_s)
    else:
        raise unknown_name("executor", executor, EXECUTORS)


def _inline(cells: Sequence[Cell], options: Options) -> Events:
    from bench.run.process import work  # here: it imports torch, and the command line imports this file for its names

    events: list[Event] = []
    work(cells, options, events.append)
    yield from events


def most_at_once() -> int:
    """Return how many computations this process has open files for; first raise their limit as far as is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST * FILES if hard == resource.RLIM_INFINITY else min(hard, MOST * FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return MOST if soft == resource.RLIM_INFINITY else max(1, min(MOST, soft // FILES))


def run_queue(
    room: Room,
    queue: list[CellGroup],
    attempt: Callable[[CellGroup], Found | None],
    tell: Callable[[AtWork], object],
) -> Generator[Found, None, None]:
    """Call `attempt` for every group, as many at a time as the room allows, and yield each result as it arrives.

    Args:
        room: where the groups are fitted; closed on every exception.
        queue: the groups; it is empty at the end.
        attempt: called in threads. It returns None if another process works on the group; it is called again later.
        tell: is called now and then with the number of fits that run or wait for a worker.
    """
    running: dict[Future[Found | None], CellGroup] = {}
    most = most_at_once()
    threads = ThreadPoolExecutor(min(most, len(queue)) or 1, thread_name_prefix="bnn-bench-fit")
    try:
        while queue or running:
            width = min(most, room.width())  # called even if the queue is empty, because `width` may replace workers
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
