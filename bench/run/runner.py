"""Do what is missing: cells grouped by fit are run, and every cell ends as a record, with a reason where it failed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.core.errors import OutOfTime, StoreError, WorkerCrashed
from bench.core.locks import Busy
from bench.core.reasons import in_words, told
from bench.core.records import Outcome, Record
from bench.core.store import Store
from bench.data.inventory import list_datasets
from bench.plan.batches import arrange, fit_keys
from bench.plan.cells import Cell
from bench.plan.freshness import is_stale
from bench.run.events import Event, Recorded, Waiting, recorded
from bench.run.executors import Processes, run_group, run_queue
from bench.run.options import Options
from bench.run.recording import empty_record, write_or_say_why
from bench.run.remote.pool import Pool

BUSY_WAIT_S = 1.0
FINAL = ("done", "diverged")  # outcomes that a second call does not try again


@dataclass(frozen=True)
class Result:
    """How one cell of a run ended."""

    cell: Cell
    outcome: str
    reason: str
    was_there: bool


class Watcher(Protocol):
    """What shows a run's progress."""

    def begin(self, groups: list[list[Cell]], done: int) -> None:
        """Announce what is to be done, and how many cells are done already."""

    def event(self, group: Sequence[Cell], event: Event) -> None:
        """Show an event of a worker."""

    def finish(self) -> None:
        """Leave the terminal in order."""


def existing(cell: Cell, store: Store) -> Record | None:
    """Return the record that answers a cell already, if any.

    A record of the seed fitted the other way, alone or with other seeds, is as good: the numbers agree up to rounding.
    A cell whose framework is missing here has no key of its own; a finished record of the same name answers it.
    """
    found = store.find(cell.naming())
    if cell.twin_keys is not None and (found is None or found.outcome not in FINAL or is_stale(found)):
        found = store.find(cell.twin().naming()) or found
    if found is None and cell.skip:
        return store.find_done_elsewhere(cell.naming(), lambda record: not is_stale(record))
    if found is not None and store.set_aside_if_scores_are_damaged(found):
        return None  # measured again, from the fit where it is kept
    return found


def run(
    cells: Sequence[Cell],
    store: Store,
    options: Options,
    watcher: Watcher,
    executor: str | Processes | Pool = "process",
    time_limit_s: float | None = None,
) -> list[Result]:
    """Run every cell that has no final record, and return how all of them ended, in the order given.

    Seeds that can be fitted in one computation are. One fit after the other, or as many at a time as there is room for.
    """
    store.check_writable()
    results: dict[str, Result] = {}
    open_cells: list[Cell] = []
    for cell in cells:
        record = existing(cell, store)
        if record is not None and is_final(record):
            results[cell.identity] = Result(cell, record.outcome, in_words(record.reason), was_there=True)
        else:
            open_cells.append(cell)
    queue = arrange(open_cells, store)
    watcher.begin(queue, len(results))
    watcher = _OneAtATime(watcher)

    def attempt(group: list[Cell]) -> list[Result] | None:
        try:
            with store.hold([cell.lock_key for cell in group]):
                return _run_group(group, store, options, watcher, executor, time_limit_s)
        except Busy:  # another process works on it; come back later
            watcher.event(group, Waiting())
            time.sleep(BUSY_WAIT_S)
            return None
        except StoreError as error:  # nothing can be written for these cells, but perhaps for the others
            return [Result(cell, "failed", str(error), was_there=False) for cell in group]

    if isinstance(executor, str):
        ended = _one_by_one(queue, attempt)
    else:
        ended = run_queue(executor, queue, attempt, lambda event: watcher.event([], event))
    with contextlib.closing(ended):  # whatever is raised here, nothing goes on in a thread
        for found in ended:
            results.update({result.cell.identity: result for result in found})
    watcher.finish()
    return [results[cell.identity] for cell in cells]


def _one_by_one(
    queue: list[list[Cell]], attempt: Callable[[list[Cell]], list[Result] | None]
) -> Generator[list[Result], None, None]:
    while queue:
        group = queue.pop(0)
        found = attempt(group)
        if found is None:
            queue.append(group)
        else:
            yield found


class _OneAtATime:
    """A watcher that is told one thing at a time, whatever number of threads tell it."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher, self._lock = watcher, threading.Lock()

    def begin(self, groups: list[list[Cell]], done: int) -> None:
        """See `Watcher`."""
        self._watcher.begin(groups, done)

    def event(self, group: Sequence[Cell], event: Event) -> None:
        """See `Watcher`."""
        with self._lock:
            self._watcher.event(group, event)

    def finish(self) -> None:
        """See `Watcher`."""
        self._watcher.finish()


def is_final(record: Record) -> bool:
    """Return whether a second call leaves the record alone.

    It has its numbers, was made at today's versions, and no data set has come since.
    """
    if record.outcome not in FINAL or is_stale(record):
        return False
    lacking = {key.partition("/")[0] for key in record.missing}  # a metric's key begins with its data set
    return not any(row.present for row in list_datasets() if row.optional and row.name in lacking)


def _run_group(
    group: list[Cell],
    store: Store,
    options: Options,
    watcher: Watcher,
    executor: str | Processes | Pool,
    time_limit_s: float | None,
) -> list[Result]:
    results: list[Result] = []
    open_cells = {cell.key: cell for cell in group}
    for cell in group:  # another process may have finished it while we waited
        record = existing(cell, store)
        if record is not None and is_final(record):
            results.append(Result(cell, record.outcome, in_words(record.reason), was_there=True))
            watcher.event(group, recorded(cell.key, record, was_there=True))
            del open_cells[cell.key]
    if not open_cells:
        return results
    todo = list(open_cells.values())
    limit_s = None if time_limit_s is None else time_limit_s * len(fit_keys(todo))
    outcome: Outcome = "failed"
    reason, printed = told("crashed", ""), ""
    try:
        with contextlib.closing(run_group(todo, options, executor, limit_s)) as events:  # no worker outlives its locks
            for event in events:
                if isinstance(event, Recorded):
                    cell = open_cells.pop(event.key)
                    results.append(Result(cell, event.outcome, event.reason, was_there=False))
                watcher.event(todo, event)
    except OutOfTime as error:
        outcome, reason, printed = "out-of-time", told("out-of-time", error), error.printed
    except WorkerCrashed as error:
        reason, printed = told("crashed", error), error.printed
    for cell in open_cells.values():
        event = write_or_say_why(store, cell, empty_record(cell, outcome, reason, printed))
        watcher.event(todo, event)
        results.append(Result(cell, outcome, in_words(reason), was_there=False))
    return results
