"""Runs each fit where the executor says: in a child process, in this process, or on a pool of Dask workers.

The default is a new child process for each fit, because a crash then harms only that fit. Several child processes may
work at a time, and an approach may have its own interpreter. A fit in this process is for debugging. A pool starts the
child processes on its workers.
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
FILES = 32  # most open files of a computation: a lock for each of its seeds (16 on a GPU), and its connections

Found = TypeVar("Found")


class ParallelExecutor(Protocol):
    """An executor that does several fits at a time."""

    def width(self) -> int:
        """Return how many fits it can take now. At least 1: the first fit waits until a worker comes."""

    def close(self) -> None:
        """End the running fits and release the workers."""


class Pool(ParallelExecutor, Protocol):
    """Worker processes that Dask manages, here or on other machines."""

    def run_group(
        self, cells: Sequence[Cell], options: Options, python: str, time_limit_s: float | None
    ) -> Iterator[Event]:
        """Fit and measure cells of one fit on a worker; `python`: another interpreter there, '' for the worker's own.

        Many threads call this. If a worker dies, another one takes the fit. If that happens a few times, it raises
        FitCrashed. After `close`, it raises KeyboardInterrupt.
        """


class Processes:
    """A `ParallelExecutor` on this machine: each fit has its own process."""

    def __init__(self, at_once: int) -> None:
        """Do `at_once` fits at a time."""
        self._at_once, self._closed = at_once, threading.Event()

    def width(self) -> int:
        """See `ParallelExecutor.width`."""
        return self._at_once

    def close(self) -> None:
        """See `ParallelExecutor.close`."""
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
    from bench.run.process import work  # not at the top: it imports torch, which most commands do not need

    events: list[Event] = []
    work(cells, options, events.append)
    yield from events


def most_at_once() -> int:
    """Raise the limit on open files as far as is allowed; return how many computations fit within it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST * FILES if hard == resource.RLIM_INFINITY else min(hard, MOST * FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return MOST if soft == resource.RLIM_INFINITY else max(1, min(MOST, soft // FILES))


def run_queue(
    executor: ParallelExecutor,
    queue: list[list[Cell]],
    attempt: Callable[[list[Cell]], Found | None],
    tell: Callable[[AtWork], object],
) -> Generator[Found, None, None]:
    """Call `attempt` for every group of cells, as many at a time as the executor allows; yield results as they arrive.

    Args:
        executor: where the groups are fitted; closed on every exception.
        queue: the groups; it is empty at the end.
        attempt: called in threads. It returns None if another process works on the group, and is called again later.
        tell: called now and then with the number of fits that run or wait for a worker.
    """
    running: dict[Future[Found | None], list[Cell]] = {}
    most = most_at_once()
    threads = ThreadPoolExecutor(min(most, len(queue)) or 1, thread_name_prefix="bnn-bench-fit")
    try:
        while queue or running:
            width = min(most, executor.width())  # even if the queue is empty: `width` may replace dead workers
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
        executor.close()
        raise
    finally:
        threads.shutdown(wait=True, cancel_futures=True)
