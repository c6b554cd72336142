"""Does one job in a child process and reports its events as lines of JSON. The child process ends when its run ends.

A child process of this interpreter's fork server begins at `forked`. A child process of another interpreter, or on
another machine, begins at `python -m bench.run.remote`. `bench.run.supervisor` starts and watches both.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import socket
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import NoReturn

import msgspec

from bench.core.environment import harness_hash, thread_variables
from bench.core.errors import BenchError, ConfigError
from bench.core.heap import Tidier
from bench.plan import plugins
from bench.plan.cells import cells
from bench.plan.registry import manifests
from bench.run import output
from bench.run.events import Ended, EpochEnded, Event, Measuring, Planned, Refused, Send, encode
from bench.run.options import Options
from bench.run.orphans import GONE, end_with
from bench.run.remote.jobs import Job, PlanJob, WorkJob, check, data_folder, here


def forked(job: WorkJob, pipe: Connection, kept: str, owner: int) -> None:
    """Do a job in a process of the fork server.

    Args:
        job: what to do.
        pipe: where its events go.
        kept: path of the file that takes what the process prints.
        owner: the process that it must not outlive.
    """
    output.keep(os.open(kept, os.O_RDWR | os.O_APPEND))
    os.environ.update(thread_variables(job.options.threads))
    # A child of the fork server would begin its own processes through such a server too. Locks made for that have names
    # (tqdm makes one), and Python warns of them when the run ends, because this process skips the clean-up.
    multiprocessing.set_start_method("fork", force=True)
    end_with(owner, os.getppid())
    serve(lambda: job, pipe.fileno())


def serve(read: Callable[[], Job], pipe: int) -> NoReturn:
    """Do the job that `read` returns, write its events to a pipe, and end this process.

    Why a job was not done is an event; what became of its cells is in their records.
    """
    lines = os.fdopen(pipe, "wb", closefd=False)

    def send(event: Event) -> None:
        try:
            lines.write(encode(event) + b"\n")
            lines.flush()
        except BrokenPipeError:  # nobody listens; at once, as whatever is raised here would become a cell's record
            os._exit(GONE)

    try:
        do(read(), send)
    except KeyboardInterrupt:
        os._exit(GONE)
    except (BenchError, msgspec.DecodeError) as error:
        send(Refused(str(error)))
    except Exception as error:  # noqa: BLE001 - such as a device that this machine lacks: each cell's record says it
        traceback.print_exc()
        send(Refused(f"{type(error).__name__}: {error}".splitlines()[0]))
    else:
        send(Ended())
    os._exit(0)  # all is said and written; frameworks take a second to end in order


def do(job: Job, send: Send) -> None:
    """Do a job, or raise why not; ends the process if the run that wants the job is gone."""
    if isinstance(job, PlanJob):
        if job.harness != harness_hash():
            raise ConfigError(f"the harness that {sys.executable} imports is of another version")
        send(Planned(cells(job.selection)))
        return
    from bench.run.contexts import OrphanedError  # imports torch, which takes seconds
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
    """Find the approaches where the caller found them, as far as this machine has those places."""
    if job.expected is None:  # this machine; a fork server may be older than the variable
        os.environ[plugins.VARIABLE] = job.options.approaches
        return
    for place in job.options.approaches.split(os.pathsep):
        if os.path.exists(place):
            plugins.add_to_path(place)


def bound_memory(options: Options) -> None:
    """Bound the address space of this process, where the options ask for it."""
    if options.memory_mib is not None:
        resource.setrlimit(resource.RLIMIT_AS, (int(options.memory_mib * 2**20),) * 2)


def _tidying(send: Send) -> Send:
    """Return `send` that gives memory back after an epoch and before measuring; neither is in an epoch's seconds."""
    tidier = Tidier()

    def tell(event: Event) -> None:
        send(event)
        if isinstance(event, Measuring):
            tidier.tidy()
        elif isinstance(event, EpochEnded):
            tidier.tidy_now_and_then()

    return tell
