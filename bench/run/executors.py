"""Where fits run: in child processes, in this process, or on the workers of a Dask scheduler; and on which device.

The default is a new child process for each fit, because a crash then harms only that fit. A fit in this process is for
debugging.
"""

from __future__ import annotations

import contextlib
import re
import resource
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Protocol, TypeVar

from bench.core.errors import ConfigError, unknown_name
from bench.plan.trained_runs import TrainedRun
from bench.run.child import do
from bench.run.events import Event, Options, Tick
from bench.run.supervisor import POLL_S, Events, supervise

EXECUTORS = ("process", "inline")
NAMES = (*EXECUTORS, "dask://HOST:PORT", "tls://HOST:PORT")
MOST = 1000  # seed batches at a time, even on a larger cluster: each needs open locks
FILES = 32  # most open files of a seed batch: a lock for each of its seeds (16 on a GPU), and its connections
COUNT_EVERY_S = 1.0  # between two questions how many fits an executor can take
_ADDRESS = re.compile(r"(?P<scheme>dask|tls)://(?P<place>(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5})")
_SCHEMES = {"dask": "tcp", "tls": "tls"}  # Dask's own names

Found = TypeVar("Found")
Attempt = Generator[Event, None, Found | None]
"""A fit with its records: yields events, and returns None if another process works on it."""


class Executor(Protocol):
    """Where fits run."""

    def width(self) -> int:
        """Return how many fits it can take now. At least 1: the first fit waits until a worker comes."""

    def run_group(self, trained_runs: Sequence[TrainedRun], options: Options, time_limit_s: float | None) -> Events:
        """Fit and measure the trained runs of one seed batch. Yield events, and Tick while there is none.

        Raises FitCrashed if the process dies, OutOfTime if it exceeds the limit. Closing the generator ends it.
        """

    def close(self) -> None:
        """Release the workers."""


class Processes:
    """An `Executor` on this machine: each fit has its own process."""

    def __init__(self, at_once: int = 1) -> None:
        """Do `at_once` fits at a time."""
        self._at_once = at_once

    def width(self) -> int:
        """See `Executor.width`."""
        return self._at_once

    def run_group(self, trained_runs: Sequence[TrainedRun], options: Options, time_limit_s: float | None) -> Events:
        """See `Executor.run_group`."""
        return supervise(partial(do, list(trained_runs), options), options.threads, time_limit_s)

    def close(self) -> None:
        """See `Executor.close`; every process has ended with its fit."""


class Inline(Processes):
    """An `Executor` that fits in this process, one after the other."""

    def run_group(self, trained_runs: Sequence[TrainedRun], options: Options, time_limit_s: float | None) -> Events:
        """See `Executor.run_group`; there is no limit."""
        from bench.run.process import work  # not at the top: it imports torch, which most commands do not need

        del time_limit_s
        events: list[Event] = []
        work(trained_runs, options, events.append)
        yield from events


def is_remote(name: str) -> bool:
    """Return whether an executor's name means other machines: every name does that is not in EXECUTORS."""
    return name not in EXECUTORS


def open_executor(name: str, device: str = "cpu", workers: int | None = None) -> Executor:
    """Return the executor for a name that the user gives. The caller must close it.

    Args:
        name: one of NAMES.
        device: device of the trained runs. If it is not cpu, each fit of a cluster has its own GPU.
        workers: fits at a time. None: one child process, or as many as a cluster has workers for.

    Raises:
        ConfigError: the name is unknown, a package is not installed, or the cluster cannot be reached.
    """
    found = _ADDRESS.fullmatch(name)
    if found is not None:
        from bench.run.remote import connect  # here: Dask is an optional extra

        return connect(f"{_SCHEMES[found['scheme']]}://{found['place']}", device != "cpu", workers)
    if name not in EXECUTORS:
        raise unknown_name("executor", name, NAMES)
    if name == "inline":
        if workers is not None:
            raise ConfigError("--workers is not for executor 'inline', which fits one after the other; try process")
        return Inline()
    if device != "cpu" and (workers or 1) > 1:
        raise ConfigError(f"--workers {workers} would share device {device}; start a run for each GPU, with --device")
    return Processes(workers or 1)


def threads_of_a_fit(name: str, threads: int | None, workers: int | None) -> int | None:
    """Return the threads of a fit: `threads` if given, else an equal share of PyTorch's threads; None for all."""
    if threads is None and name == "process" and (workers or 1) > 1:
        import torch  # not at the top: it takes seconds, and most calls do not need it

        return max(1, torch.get_num_threads() // (workers or 1))
    return threads


def most_at_once() -> int:
    """Raise the limit on open files as far as is allowed; return how many seed batches fit within it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST * FILES if hard == resource.RLIM_INFINITY else min(hard, MOST * FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return MOST if soft == resource.RLIM_INFINITY else max(1, min(MOST, soft // FILES))


def run_queue(
    executor: Executor,
    queue: list[list[TrainedRun]],
    attempt: Callable[[list[TrainedRun]], Attempt[Found]],
    tick: Callable[[], object],
) -> Generator[Found, None, None]:
    """Start an `attempt` for every seed batch, as many at a time as the executor allows; yield what they return.

    Args:
        executor: where the seed batches are fitted.
        queue: the seed batches; it is empty at the end. One that another process works on goes back to its end.
        attempt: fits and measures a seed batch.
        tick: called now and then while all is silent.
    """
    running: dict[Attempt[Found], list[TrainedRun]] = {}
    most, width, counted = most_at_once(), 0, -COUNT_EVERY_S
    try:
        while queue or running:
            if queue and time.monotonic() - counted >= COUNT_EVERY_S:
                width, counted = min(most, executor.width()), time.monotonic()
            while queue and len(running) < width:
                group = queue.pop(0)
                running[attempt(group)] = group
            is_silent = True
            for each, group in list(running.items()):
                try:
                    is_silent &= isinstance(next(each), Tick)
                except StopIteration as end:
                    del running[each]
                    is_silent = False
                    if end.value is None:
                        queue.append(group)
                    else:
                        yield end.value
            if is_silent:
                tick()
                time.sleep(POLL_S)
    finally:
        with contextlib.ExitStack() as ending:  # ends every process, also if the end of one of them fails
            for each in running:
                ending.callback(each.close)
