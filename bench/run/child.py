"""Does work in a process of the fork server and reports its events as lines of JSON; `bench.run.supervisor` starts it.

The process has a session of its own, so that a signal to its process group reaches nobody else. When it ends, the
processes that an approach has started end too. It ends when its run ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import resource
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import NoReturn

import psutil

from bench.core.environment import thread_variables
from bench.core.errors import BenchError
from bench.plan import plugins
from bench.plan.trained_runs import TrainedRun
from bench.run.events import Ended, EpochEnded, Event, Measuring, Options, Send, encode, keep

Work = Callable[[Send], object]
"""What a child process does; it must be a function that can be pickled."""

GONE = 1  # exit code of a process whose run has ended
GRACE_S = 10.0  # for a process to end, before it is killed
TIDY_EVERY_S = 2.0  # after an epoch, garbage is collected only if the last collection is older
PR_SET_CHILD_SUBREAPER = 36  # see prctl(2)


def forked(
    work: Work, threads: int | None, pipe: Connection, printed: str, owner: int, time_limit_s: float | None
) -> NoReturn:
    """Do the work, write its events to a pipe, and end this process.

    If the work cannot be done, the last event says why. If a trained run fails, its record says why.

    Args:
        work: what to do.
        threads: threads of a fit; None for all.
        pipe: where its events go.
        printed: path of the file for the output of this process.
        owner: number of the run's process; if it ends, this one ends too.
        time_limit_s: seconds after which the run ends this process.
    """
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # the fork server has it blocked
    _adopt_orphans()
    try:
        keep(os.open(printed, os.O_RDWR | os.O_APPEND))
    except FileNotFoundError:  # the run has ended, perhaps while the fork server still imported
        leave(GONE)
    os.environ.update(thread_variables(threads))
    # A library may make locks here (tqdm does). By default, this process would use a fork server too, and its locks
    # would have names in the system, which Python removes when a process ends regularly. This process does not end so,
    # and Python would warn of the names. With plain forks, locks have no names.
    multiprocessing.set_start_method("fork", force=True)
    end_with(owner, os.getppid(), time_limit_s=time_limit_s)
    lines = os.fdopen(pipe.fileno(), "wb", closefd=False)

    def send(event: Event) -> None:
        try:
            lines.write(encode(event) + b"\n")
            lines.flush()
        except BrokenPipeError:  # the run is gone; an exception would become a trained run's record
            leave(GONE)

    try:
        work(send)
    except KeyboardInterrupt:
        leave(GONE)
    except BenchError as error:
        send(Ended(str(error)))
    except Exception as error:  # noqa: BLE001 - for example a missing device: the record of each trained run says so
        traceback.print_exc()
        send(Ended(f"{type(error).__name__}: {error}".splitlines()[0]))
    else:
        send(Ended())
    leave(0)


def do(trained_runs: Sequence[TrainedRun], options: Options, send: Send) -> None:
    """Fit and measure the trained runs of one seed batch in this process."""
    # Not at the top: it imports torch, which takes seconds. The run itself imports this file, and needs no torch.
    from bench.run.process import work

    os.environ[plugins.VARIABLE] = options.approaches  # it may have changed since the fork server started
    bound_memory(options)
    work(trained_runs, options, _tidying(send))


def leave(code: int) -> NoReturn:
    """End this process and those that it has started. Everything is written; a regular exit would take a second."""
    with contextlib.suppress(psutil.Error):
        for other in psutil.Process().children(recursive=True):
            other.kill()
    os._exit(code)


def _adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own, so that `leave` finds it. Only Linux can do so."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with(*processes: int, time_limit_s: float | None = None) -> None:
    """End this process as soon as one of the given processes has ended: the run, or the parent.

    The run ends this process at the time limit. If it does not, then something has stopped it: this process ends
    itself, and lets the first of the given processes continue.
    """

    def wait(process: int) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            try:
                psutil.Process(process).wait(None if time_limit_s is None else time_limit_s + GRACE_S)
            except psutil.TimeoutExpired:
                os.kill(processes[0], signal.SIGCONT)
        leave(GONE)

    for number in set(processes):
        threading.Thread(target=wait, args=(number,), daemon=True, name="end with owner").start()


def bound_memory(options: Options) -> None:
    """Bound the address space of this process, if the options ask for it."""
    if options.memory_mib is not None:
        resource.setrlimit(resource.RLIMIT_AS, (int(options.memory_mib * 2**20),) * 2)


def _tidying(send: Send) -> Send:
    """Return a `send` that also frees memory: after an epoch, and before measuring. No epoch's time includes this.

    Objects that exist already, such as imported modules, are excluded from garbage collection. So collections are fast,
    and this process goes on sharing their memory pages with the fork server.
    """
    gc.freeze()
    last = time.monotonic()

    def tell(event: Event) -> None:
        nonlocal last
        send(event)
        is_due = isinstance(event, EpochEnded) and time.monotonic() - last >= TIDY_EVERY_S
        if is_due or isinstance(event, Measuring):
            tidy()
            last = time.monotonic()

    return tell


def tidy() -> None:
    """Collect garbage and, with glibc (malloc_trim), give free memory back to the system.

    Without this, a fit holds hundreds of MiB that it does not use. Python frees parameters in reference cycles only at
    its next full collection. The C library keeps freed activations while something in use, such as a loss, lies behind
    them in memory.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
