"""One fit on a pool of workers, handled as if its worker were a process of this machine."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeAlias

from bench.core.errors import OutOfTime, WorkerCrashed
from bench.core.store import Store
from bench.plan.cells import Cell
from bench.run.events import Event, Placed, Recorded, Replaced, recorded
from bench.run.options import Options
from bench.run.remote.jobs import work_job
from bench.run.remote.parcels import deliver, outgoing
from bench.run.remote.task import FitAnswer, FitTask

THREADS = 1  # of a fit, unless asked for otherwise: the same numbers whatever machine a worker has

AnsweringEvents: TypeAlias = Generator[Event, None, FitAnswer]


class Room(Protocol):
    """Where several fits can be worked on at a time."""

    def width(self) -> int:
        """Return how many fits it can be given at a time, now: at least 1, so that one waits for the first worker."""

    def close(self) -> None:
        """End what runs and let the workers go."""


class Pool(Room, Protocol):
    """Workers elsewhere."""

    def do(self, task: FitTask) -> AnsweringEvents:
        """Have `do_task` done by a worker, yielding events and ticks; return its answer.

        Called from many threads. A worker that dies is replaced a few times; a task that saw all of them die ends in
        WorkerCrashed. After `close`, raises KeyboardInterrupt.
        """


def run_on(
    pool: Pool, cells: Sequence[Cell], options: Options, python: str, time_limit_s: float | None
) -> Iterator[Event]:
    """Fit and measure cells of one fit on a pool, yielding events as `bench.run.executors.run_group` does.

    A cell's record is told of when it lies in the caller's store.
    """
    store = Store(Path(options.root))
    there = [replace(cell, device=cell.device.split(":")[0]) for cell in cells]  # a worker sees one GPU
    job = work_job(there, replace(options, threads=options.threads or THREADS))
    answer = yield from _while_it_works(pool.do(FitTask(job, outgoing(store, cells), python, time_limit_s)))
    records = deliver(store, cells, answer.files)
    for cell in cells:
        if cell.key in records:
            yield recorded(cell.key, records[cell.key])
    if answer.out_of_time:
        raise OutOfTime(answer.failure, answer.printed)
    if len(records) < len(cells):
        raise WorkerCrashed(answer.failure or "its record did not arrive whole", answer.printed)


def _while_it_works(events: AnsweringEvents) -> AnsweringEvents:
    """Pass events on, but not that of a record, and tell of a second worker that begins anew."""
    places = 0
    while True:
        try:
            event = next(events)
        except StopIteration as end:
            answer: FitAnswer = end.value
            return answer
        if isinstance(event, Placed):
            places += 1
            if places > 1:
                yield Replaced(places, event.host)
        if not isinstance(event, Recorded):
            yield event
