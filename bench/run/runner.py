"""Run the cells that have no final record, grouped by fit. Every cell gets a record; a failed one gets a reason."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.core.errors import FitCrashed, OutOfTime, StoreError
from bench.core.locks import Busy
from bench.core.reasons import in_words, told
from bench.core.records import Outcome, Record
from bench.core.store import Store
from bench.data.inventory import list_datasets
from bench.plan.batches import arrange, fit_keys
from bench.plan.cells import Cell
from bench.plan.freshness import is_stale
from bench.run.events import Event, Recorded, Waiting, recorded
from bench.run.executors import Pool, Processes, run_group, run_queue
from bench.run.options import Options
from bench.run.recording import empty_record, write_or_say_why

BUSY_WAIT_S = 1.0
FINAL = ("done", "diverged")  # outcomes that a second run does not try again


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
        """Begin to show these groups; `done` cells are finished already."""

    def event(self, group: Sequence[Cell], event: Event) -> None:
        """Show an event of a child process."""

    def finish(self) -> None:
        """Leave the terminal in order."""


def existing(cell: Cell, store: Store) -> Record | None:
    """Return the existing record for a cell, if any.

    The record of the cell's twin counts too: seeds fitted alone or together give the same numbers up to rounding.
    Without its framework, a cell's real key is not known; then a finished record of the same name counts.
    """
    found = store.find(cell.naming())
    if cell.twin_keys is not None and (found is None or found.outcome not in FINAL or is_stale(found)):
        found = store.find(cell.twin().naming()) or found
    if found is None and cell.skip:
        return store.find_done_elsewhere(cell.naming(), lambda record: not is_stale(record))
    if found is not None and store.set_aside_if_scores_are_damaged(found):
        return None  # the cell is measured again, with its stored fit if there is one
    return found


def run(
    cells: Sequence[Cell],
    store: Store,
    options: Options,
    watcher: Watcher,
    executor: str | Processes | Pool = "process",
    time_limit_s: float | None = None,
) -> list[Result]:
    """Run every cell that has no final record, and return how each cell ended, in the order given.

    Seeds that can share a computation do. A named executor does one fit after the other, a `Room` several at a time.
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
        except StoreError as error:  # these cells cannot be written; others perhaps can
            return [Result(cell, "failed", str(error), was_there=False) for cell in group]

    if isinstance(executor, str):
        ended = _one_by_one(queue, attempt)
    else:
        ended = run_queue(executor, queue, attempt, lambda event: watcher.event([], event))
    with contextlib.closing(ended):  # on an exception, also stop the threads
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
    """A watcher that passes on one event at a time, although many threads call it."""

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
    """Return whether a second run keeps the record.

    It is done or diverged, was made at today's versions, and none of its missing data sets is present now.
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
        with contextlib.closing(
            run_group(todo, options, executor, limit_s)
        ) as events:  # end the child process before the locks
            for event in events:
                if isinstance(event, Recorded):
                    cell = open_cells.pop(event.key)
                    results.append(Result(cell, event.outcome, event.reason, was_there=False))
                watcher.event(todo, event)
    except OutOfTime as error:
        outcome, reason, printed = "out-of-time", told("out-of-time", error), error.printed
    except FitCrashed as error:
        reason, printed = told("crashed", error), error.printed
    for cell in open_cells.values():
        event = write_or_say_why(store, cell, empty_record(cell, outcome, reason, printed))
        watcher.event(todo, event)
        results.append(Result(cell, outcome, in_words(reason), was_there=False))
    return results
