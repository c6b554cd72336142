"""Do the trained runs that have no final record, by seed batch. Each gets a record; that of a failed one says why."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

from bench.core.environment import usable_threads
from bench.core.errors import FitCrashed, OutOfTime, StoreError
from bench.core.locks import Busy, hold
from bench.core.reasons import in_words, message_reason
from bench.core.records import Outcome
from bench.core.store import Store
from bench.plan.seed_batches import arrange, fit_keys
from bench.plan.trained_runs import TrainedRun
from bench.run.events import Event, Measuring, Options, Recorded, Started, Tick, Waiting, recorded
from bench.run.executors import Attempt, Executor, Inline, Processes, run_queue
from bench.run.recording import empty_record, final, write_or_say_why

Tell = Callable[[Sequence[TrainedRun], Event], object]

BUSY_WAIT_S = 1.0


@dataclass(frozen=True)
class Result:
    """How a trained run ended."""

    trained_run: TrainedRun
    outcome: str
    reason: str
    was_there: bool


class Watcher(Protocol):
    """Shows the progress of a run."""

    def begin(self, groups: list[list[TrainedRun]], done: int) -> None:
        """Begin to show a run: its groups of trained runs; `done` other trained runs are finished already."""

    def event(self, group: Sequence[TrainedRun], event: Event) -> None:
        """Show an event of a child process."""

    def finish(self) -> None:
        """Leave the terminal in order."""


def run(
    trained_runs: Sequence[TrainedRun],
    store: Store,
    options: Options,
    watcher: Watcher,
    executor: Executor | Literal["process", "inline"] = "process",
    time_limit_s: float | None = None,
) -> list[Result]:
    """Do every trained run that has no final record; return how each ended, in the order of `trained_runs`.

    Seeds that can share a seed batch do so. An executor that is given by its name does one fit after the other.
    """
    store.check_writable()
    results: dict[str, Result] = {}
    for trained_run in trained_runs:
        record = final(trained_run, store, options.data_dir, options.lacking)
        if record is not None:
            results[trained_run.key] = Result(trained_run, record.outcome, in_words(record.reason), was_there=True)
    queue = arrange(trained_runs, store, finished=results)
    watcher.begin(queue, len(results))
    if isinstance(executor, str):
        executor = Inline() if executor == "inline" else Processes()
    attempt = partial(
        _attempt, store=store, options=options, tell=watcher.event, executor=executor, time_limit_s=time_limit_s
    )
    with contextlib.closing(run_queue(executor, queue, attempt, lambda: watcher.event([], Tick()))) as ended:
        for found in ended:
            results.update({result.trained_run.key: result for result in found})
    watcher.finish()
    return [results[trained_run.key] for trained_run in trained_runs]


def _attempt(
    group: list[TrainedRun], store: Store, options: Options, tell: Tell, executor: Executor, time_limit_s: float | None
) -> Attempt[list[Result]]:
    """Fit and measure a group; return None if another process works on it."""
    try:
        with hold(store.root, fit_keys(group)):
            return (yield from _run_group(group, store, options, tell, executor, time_limit_s))
    except Busy:
        tell(group, Waiting())
        until = time.monotonic() + BUSY_WAIT_S
        while time.monotonic() < until:
            yield Tick()
        return None
    except StoreError as error:  # these trained runs cannot be locked; others perhaps can
        for trained_run in group:
            tell(group, Recorded(trained_run.key, "failed", str(error)))
        return [Result(trained_run, "failed", str(error), was_there=False) for trained_run in group]


def _run_group(
    group: list[TrainedRun], store: Store, options: Options, tell: Tell, executor: Executor, time_limit_s: float | None
) -> Generator[Event, None, list[Result]]:
    results: list[Result] = []
    left = {trained_run.key: trained_run for trained_run in group}
    todo = group

    def end(event: Recorded) -> None:
        results.append(Result(left.pop(event.key), event.outcome, event.reason, event.was_there))
        tell(todo, event)

    for trained_run in group:  # another process may have finished it while this one waited for the lock
        record = final(trained_run, store, options.data_dir, options.lacking)
        if record is not None:
            end(recorded(trained_run.key, record, was_there=True))
    if not left:
        return results
    todo = list(left.values())
    limit_s = None if time_limit_s is None else time_limit_s * len(fit_keys(todo))
    outcome: Outcome = "failed"
    printed = ""
    try:
        # closing: the child process must end before the locks are released
        with contextlib.closing(executor.run_group(todo, options, limit_s)) as events:
            for event in events:
                if isinstance(event, (Started, Measuring, Recorded)) and event.key not in left:
                    raise FitCrashed(f"its process reported a trained run that it was not given: {event.key[:80]!r}")
                if isinstance(event, Recorded):
                    end(event)
                elif not isinstance(event, Tick):
                    tell(todo, event)
                yield event
        reason = message_reason("crashed", "")
    except OutOfTime as error:
        outcome, reason, printed = "out-of-time", message_reason("out-of-time", error), error.printed
    except FitCrashed as error:
        reason, printed = message_reason("crashed", error), error.printed
    except StoreError as error:  # what a worker has sent cannot be written
        reason = message_reason("not-written", error)
    threads = options.threads or usable_threads()
    for one in list(left.values()):
        end(write_or_say_why(store, one, empty_record(one, outcome, reason, threads, printed)))
    return results
