"""Many fits at a time on a pool of workers, each fit handled as if its worker were a process of this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bench.core.errors import OutOfTime, WorkerCrashed
from bench.core.store import Store
from bench.plan.cells import Cell
from bench.run.options import Options
from bench.run.recording import record_event
from bench.run.remote.jobs import work_job
from bench.run.remote.parcels import deliver, outgoing
from bench.run.remote.task import make_task

POLL_S = 0.5
THREADS = 1  # of a fit, unless asked for otherwise: the same numbers whatever machine a worker has
MOST = 1000  # fits at a time, whatever the pool could take: each has a thread that waits, and open locks

Group = list[Cell]
Found = TypeVar("Found")
Events = Generator[dict[str, Any], None, dict[str, Any]]


class Room(Protocol):
    """Where several fits can be worked on at a time."""

    def width(self) -> int:
        """Return how many fits it can be given at a time, now: at least 1, so that one waits for the first worker."""

    def close(self) -> None:
        """End what runs and let the workers go."""


class Pool(Room, Protocol):
    """Workers elsewhere."""

    def do(self, task: Mapping[str, Any]) -> Events:
        """Have `do_task` done by a worker, yielding events and ticks; return its answer.

        Called from many threads. A worker that dies is replaced a few times; a task that saw all of them die ends in
        WorkerCrashed. After `close`, raises KeyboardInterrupt.
        """


def run_on(
    pool: Pool, cells: Sequence[Cell], options: Options, python: str, time_limit_s: float | None
) -> Iterator[dict[str, Any]]:
    """Fit and measure cells of one fit on a pool, yielding events as `bench.run.executors.run_group` does.

    A cell's record is told of when it lies in the caller's store.
    """
    store = Store(Path(options.root))
    there = [replace(cell, device=cell.device.split(":")[0]) for cell in cells]  # a worker sees one GPU
    job = work_job(there, replace(options, threads=options.threads or THREADS))
    task = make_task(job, outgoing(store, cells), python, time_limit_s)
    answer = yield from _while_it_works(pool.do(task))
    records = deliver(store, cells, answer["files"])
    for cell in cells:
        if cell.key in records:
            yield record_event(cell, records[cell.key])
    if answer["out_of_time"]:
        raise OutOfTime(answer["failure"])
    if len(records) < len(cells):
        raise WorkerCrashed(answer["failure"] or "its record did not arrive whole")


def _while_it_works(events: Events) -> Events:
    """Pass events on, but not that of a record, and tell of a second worker that begins anew."""
    places = 0
    while True:
        try:
            event = next(events)
        except StopIteration as end:
            answer: dict[str, Any] = end.value
            return answer
        if event["kind"] == "place":
            places += 1
            if places > 1:
                yield {"kind": "again", "attempt": places, "host": event["host"]}
        if event["kind"] != "record":
            yield event


def run_queue(
    pool: Room,
    queue: list[Group],
    attempt: Callable[[Group], Found | None],
    tell: Callable[[dict[str, Any]], object],
) -> Generator[Found, None, None]:
    """Call `attempt` for every group, as many at a time as the pool takes, and yield what it returns as it comes.

    Args:
        pool: where the groups are fitted; closed if anything is raised.
        queue: the groups; emptied.
        attempt: called in threads; None says that another process works on the group, which comes again later.
        tell: takes {"kind": "fleet"}, how many fits are at work or wait for a worker, now and then.
    """
    running: dict[Future[Found | None], Group] = {}
    threads = ThreadPoolExecutor(min(MOST, len(queue)) or 1, thread_name_prefix="bnn-bench-fit")
    try:
        while queue or running:
            while queue and len(running) < min(MOST, pool.width()):
                group = queue.pop(0)
                running[threads.submit(attempt, group)] = group
            tell({"kind": "fleet", "fits": len(running)})
            done, _ = wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                group = running.pop(future)
                found = future.result()
                if found is None:
                    queue.append(group)
                else:
                    yield found
    except BaseException:
        pool.close()
        raise
    finally:
        threads.shutdown(wait=True, cancel_futures=True)
