"""Does one job in a child process and reports its events as lines of JSON. The child process ends when its run ends.

A child process of this interpreter's fork server begins at `forked`. A child process of another interpreter, or on
another machine, begins at `python -m bench.run.remote`. `bench.run.supervisor` starts and watches both.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import resource
import socket
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import NoReturn

import msgspec

from bench.core.environment import harness_hash, thread_variables
from bench.core.errors import BenchError, ConfigError
from bench.plan import plugins
from bench.plan.cells import cells
from bench.plan.registry import manifests
from bench.run import output
from bench.run.events import Ended, EpochEnded, Event, Measuring, Planned, Refused, Send, encode
from bench.run.jobs import Job, PlanJob, WorkJob, check, data_folder, here
from bench.run.options import Options
from bench.run.orphans import GONE, end_with

TIDY_EVERY_S = 2.0  # after an epoch, garbage is collected only if the last collection is older


def forked(job: WorkJob, pipe: Connection, printed: str, owner: int) -> None:
    """Do a job in a process of the fork server.

    Args:
        job: what to do.
        pipe: where its events go.
        printed: path of the file for the output of this process.
        owner: number of the run's process; if that process ends, this one ends too.
    """
    output.keep(os.open(printed, os.O_RDWR | os.O_APPEND))
    os.environ.update(thread_variables(job.options.threads))
    # A library may make locks here (tqdm does). By default, this process would use a fork server too, and its locks
    # would have names in the system, which Python removes when a process ends regularly. This process does not end so,
    # and Python would warn of the names. With plain forks, locks have no names.
    multiprocessing.set_start_method("fork", force=True)
    end_with(owner, os.getppid())
    serve(lambda: job, pipe.fileno())


def serve(read: Callable[[], Job], pipe: int) -> NoReturn:
    """Do the job that `read` returns, write its events to a pipe, and end this process.

    If the job cannot be done, the last event says why. If a cell fails, its record says why.
    """
    lines = os.fdopen(pipe, "wb", closefd=False)

    def send(event: Event) -> None:
        try:
            lines.write(encode(event) + b"\n")
            lines.flush()
        except BrokenPipeError:  # the run is gone; an exception would become a cell's record
            os._exit(GONE)

    try:
        do(read(), send)
    except KeyboardInterrupt:
        os._exit(GONE)
    except (BenchError, msgspec.DecodeError) as error:
        send(Refused(str(error)))
    except Exception as error:  # noqa: BLE001 - for example a missing device: the record of each cell says so
        traceback.print_exc()
        send(Refused(f"{type(error).__name__}: {error}".splitlines()[0]))
    else:
        send(Ended())
    os._exit(0)  # everything is written; a regular exit of the frameworks would take a second


def do(job: Job, send: Send) -> None:
    """Do a job, or raise an error; end this process if its run is gone."""
    if isinstance(job, PlanJob):
        if job.harness != harness_hash():
            raise ConfigError(
                f"{sys.executable} imports another version of this package; install the same version there"
            )
        send(Planned(cells(job.selection)))
        return
    # Not at the top: they import torch, which takes seconds. The run itself imports this file, and needs no torch.
    from bench.run.contexts import OrphanedError
    from bench.run.process import work

    _find_approaches(job)
    bound_memory(job.options)
    approach = job.cells[0].approach
    if approach not in manifests():
        raise ConfigError(
            f"approach '{approach}' is not known on {socket.gethostname()}; install its package there, or "
            f"start the workers with {plugins.VARIABLE}"
        )
    if job.expected is not None:
        check(job.expected, here(approach, data_folder(job.options)))
    try:
        work(job.cells, job.options, _tidying(send))
    except OrphanedError:
        os._exit(GONE)


def _find_approaches(job: WorkJob) -> None:
    """Use the caller's path of approaches; on another machine, only the places that exist there."""
    if job.expected is None:  # this machine; the variable may have changed since the fork server started
        os.environ[plugins.VARIABLE] = job.options.approaches
        return
    for place in job.options.approaches.split(os.pathsep):
        if os.path.exists(place):
            plugins.add_to_path(place)


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
