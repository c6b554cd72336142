"""Do one fit on a pool of workers, with the same events as a child process of this machine would send."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from bench.core.errors import FitCrashed, OutOfTime
from bench.core.store import Store
from bench.plan.cells import Cell
from bench.run.events import Event, Placed, Recorded, Replaced, recorded
from bench.run.jobs import work_job
from bench.run.options import Options
from bench.run.remote.parcels import deliver, outgoing
from bench.run.remote.task import FitAnswer, FitTask

THREADS = 1  # default of a fit, so that its numbers do not depend on the worker's number of cores

QUEUES = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "sge": "SGECluster",
    "lsf": "LSFCluster",
    "htcondor": "HTCondorCluster",
}
"""The queues that can run jobs, and their classes in dask-jobqueue."""

AnsweringEvents: TypeAlias = Generator[Event, None, FitAnswer]
"""Yields the events of a task, and returns its answer."""


def run_on(
    do: Callable[[FitTask], AnsweringEvents],
    cells: Sequence[Cell],
    options: Options,
    python: str,
    time_limit_s: float | None,
) -> Iterator[Event]:
    """Fit and measure cells of one fit on a worker; yield events as `bench.run.executors.run_group` does.

    The event of a record is sent when the record is in the caller's store. `do` lets a worker call `do_task`.
    """
    store = Store(Path(options.root))
    on_worker = [replace(cell, device=cell.device.split(":")[0]) for cell in cells]  # a worker sees only one GPU
    job = work_job(on_worker, replace(options, threads=options.threads or THREADS))
    answer = yield from _while_it_works(do(FitTask(job, outgoing(store, cells), python, time_limit_s)))
    records = deliver(store, cells, answer.files)
    for cell in cells:
        if cell.key in records:
            yield recorded(cell.key, records[cell.key])
    if answer.out_of_time:
        raise OutOfTime(answer.failure, answer.printed)
    if len(records) < len(cells):
        raise FitCrashed(answer.failure or "its record did not arrive whole", answer.printed)


def _while_it_works(events: AnsweringEvents) -> AnsweringEvents:
    """Yield the events of a task, except those of records. Add an event if another worker restarts the fit."""
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
