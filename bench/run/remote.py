"""Fits on the workers of a Dask scheduler: a worker does one fit in a child process, and returns the fit's files.

Dask's processes exchange pickles. Whoever reaches the scheduler can run code on the workers and here, so use trusted
networks or TLS only. Nothing pickled is written to the results folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import multiprocessing
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.core.canonical import unseal
from bench.core.errors import BenchError, ConfigError, FitCrashed, FitEnded, StoreError
from bench.core.files import write_atomically
from bench.core.project import install
from bench.core.records import SCHEMA, Record
from bench.core.store import Store
from bench.plan import plugins
from bench.plan.seed_batches import checkpoint_key, fit_keys
from bench.plan.trained_runs import TrainedRun
from bench.run.alike import check_same, code_and_data
from bench.run.child import do
from bench.run.events import Event, Options, Started, Tick, recorded
from bench.run.supervisor import POLL_S, Events, supervise

try:
    import dask
    from distributed import Client, KilledWorker, get_worker
except ImportError as error:
    raise ConfigError(f"this executor needs Dask distributed: {install('dask')}") from error

CONNECT_S = 15
THREADS = 1  # default of a fit, so that its numbers do not depend on the worker's number of cores
RESOURCE = "GPU"
TLS = "tls://"
AT_WORK = ("executing", "long-running")  # Dask's states of a task that a worker does and somebody waits for
GONE = "the Dask scheduler does not answer any more; the same command goes on where it stopped"
LOGGERS = ("distributed", "distributed.client", "tornado.application", "asyncio")


class Task(NamedTuple):
    """The input of `do_task`."""

    trained_runs: list[TrainedRun]  # of one seed batch
    options: Options
    files: dict[str, bytes]  # posteriors and checkpoint that the results folder has, by path below it
    time_limit_s: float | None
    expected: dict[str, str]  # `code_and_data` of the machine of the run


class Answer(NamedTuple):
    """The result of a task, even if some of its trained runs have no record."""

    files: dict[str, bytes]  # by path below the results folder
    error: FitEnded | None = None  # why some trained runs have no record


class _Connecting(Client):  # type: ignore[misc]  # Dask has no types
    """A client that may fail to connect. If it connects, the pool closes it."""

    def __del__(self) -> None:
        """Do nothing: if the connection failed, Dask's own method waits half a minute and prints a traceback."""


class DaskPool:
    """A `bench.run.executors.Executor` that fits on the workers of a scheduler."""

    def __init__(self, client: Client, gpu: bool, workers: int | None) -> None:
        """Use a connected client, which is closed with the pool.

        With `gpu`, only workers that offer the resource GPU get fits, one for each unit. `workers` is the number of
        fits at a time; None for as many as the workers have threads (or GPUs).
        """
        self._client, self._gpu, self._workers = client, gpu, workers

    def width(self) -> int:
        """See `Executor.width`; raises BenchError if the scheduler is silent."""
        return max(1, self._slots()) if self._workers is None else self._workers

    def _slots(self) -> int:
        try:
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        except (OSError, KeyError) as error:  # KeyError: the client has given up, and its answer has no workers
            raise BenchError(GONE) from error
        slots = (worker["resources"].get(RESOURCE, 0) if self._gpu else worker["nthreads"] for worker in workers)
        return int(sum(slots))

    def run_group(self, trained_runs: Sequence[TrainedRun], options: Options, time_limit_s: float | None) -> Events:
        """See `Executor.run_group`. The event of a record is sent when the record is in the results folder."""
        yield Started(trained_runs[0].key)
        store = Store(Path(options.root))
        paths = _paths(store, trained_runs)
        task = Task(
            # a worker sees one GPU
            [dataclasses.replace(one, device=one.device.split(":")[0]) for one in trained_runs],
            dataclasses.replace(options, threads=options.threads or THREADS),
            _read({name: path for name, path in paths.items() if path.suffix == ".safetensors"}),
            time_limit_s,
            code_and_data(trained_runs[0].approach, options.data_dir),
        )
        answer = yield from self._answer(task)
        arrived = [(one.key, found) for one in trained_runs if (found := _arrived(store, one, answer)) is not None]
        new = [store.record_path(record) for _, record in arrived if not store.keeps_another(record)]
        wanted = {*new, *(path.with_suffix(".npz") for path in new)}
        for name, path in paths.items():  # no other file of a worker is written
            is_wanted = path.suffix == ".safetensors" or path in wanted
            if is_wanted and name in answer.files and answer.files[name] != task.files.get(name):
                write_atomically(path, answer.files[name], store.root)
        for key, record in arrived:
            yield recorded(key, record)
        if len(arrived) < len(trained_runs):
            raise answer.error or FitCrashed("its record did not arrive whole")
        with contextlib.suppress(StoreError):  # every record is there; the next run finds the checkpoint
            store.drop_checkpoint(checkpoint_key(trained_runs))

    def _answer(self, task: Task) -> Generator[Event, None, Answer]:
        key, resources = f"fit-{uuid.uuid4().hex}", {RESOURCE: 1} if self._gpu else None
        future = None
        try:
            future = self._client.submit(_on_worker, task, key=key, pure=False, resources=resources)
            while not future.done():
                yield Tick()
            answer: Answer = future.result()
        except KilledWorker as error:
            deaths, last = error.allowed_failures + 1, error.last_worker.address
            raise FitCrashed(f"{deaths} workers died in turn while they ran it, the last at {last}") from error
        except Exception as error:  # a worker's or Dask's own: that of a lost scheduler has no class of its own
            if self._client.status != "running":
                raise BenchError(GONE) from error
            if isinstance(error, CancelledError):  # somebody has cancelled the task, or the scheduler is silent
                self._slots()
            raise FitCrashed(f"Dask or its worker raised {type(error).__name__}: {error}".splitlines()[0]) from error
        finally:
            if future is not None:
                with contextlib.suppress(Exception):  # if the scheduler is gone, nothing needs to be cancelled
                    future.cancel()
        return answer

    def close(self) -> None:
        """See `Executor.close`."""
        self._client.close()


def connect(address: str, gpu: bool, workers: int | None) -> DaskPool:
    """Use the scheduler at an address, tcp://HOST:PORT or tls://HOST:PORT; Dask's configuration names the TLS keys.

    Raises:
        ConfigError: it does not answer, or refuses this client.
    """
    for name in LOGGERS:  # the run itself reports dead workers and a scheduler that is gone
        logging.getLogger(name).setLevel(logging.CRITICAL)
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GiB"})  # a task may contain a posterior
    try:
        client = _Connecting(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise ConfigError(_why_no_answer(address, error)) from error
    return DaskPool(client, gpu, workers)


def _why_no_answer(address: str, error: Exception) -> str:
    if isinstance(error, TypeError) and address.startswith(TLS):
        return (
            f"{address} needs a certificate; set distributed.comm.tls in Dask's configuration, as docs/faults.md says"
        )
    why = type(error).__name__
    cause: BaseException | None = error
    while cause is not None:  # the first cause explains most, unless it has no text, like a cancelled connection
        why = (str(cause).splitlines() or [why])[0]
        cause = cause.__cause__
    hint = "its certificates" if address.startswith(TLS) else "that it runs (dask scheduler)"
    return f"no Dask scheduler answers at {address} ({why}); check the address and {hint}"


def _on_worker(task: Task) -> Answer:
    """Do a task in a thread of a worker. End the child process if the run has released the task."""
    worker = get_worker()
    key = worker.get_current_task()

    def wanted() -> bool:
        known = worker.state.tasks.get(key)
        return known is not None and known.state in AT_WORK

    return do_task(task, worker.local_directory, wanted)


def do_task(task: Task, scratch: str | None = None, wanted: Callable[[], bool] = lambda: True) -> Answer:
    """Do a task in a child process and a temporary folder below `scratch` (None: where the system makes them).

    `wanted` is called at each event; if it returns False, the child process is ended.
    """
    multiprocessing.current_process().daemon = False  # a Dask worker is a daemon, and daemons may not have children
    options = _as_here(task.options)
    failure: FitEnded | None = None
    with tempfile.TemporaryDirectory(prefix="bnn-bench-", dir=scratch) as folder:
        root = Path(folder)
        for name, content in task.files.items():
            write_atomically(root / name, content)
        try:
            check_same(task.expected, code_and_data(task.trained_runs[0].approach, options.data_dir))
            work = partial(do, task.trained_runs, dataclasses.replace(options, root=folder))
            with contextlib.closing(supervise(work, options.threads, task.time_limit_s)) as events:
                for event in events:
                    if not wanted():
                        raise FitCrashed("the run does not wait for it any more")
                    if isinstance(event, Tick):
                        time.sleep(POLL_S)
        except BenchError as error:
            failure = error if isinstance(error, FitEnded) else FitCrashed(str(error))
        return Answer(_read(_paths(Store(root), task.trained_runs)), failure)


def _as_here(options: Options) -> Options:
    """Return the options with the folders that this machine has; add its own approaches to those of the run."""
    for place in options.approaches.split(os.pathsep):
        if place and os.path.exists(place):
            plugins.add_to_path(place)
    data_dir = options.data_dir if options.data_dir is not None and options.data_dir.is_dir() else None
    return dataclasses.replace(options, approaches=plugins.path(), data_dir=data_dir)


def _arrived(store: Store, trained_run: TrainedRun, answer: Answer) -> Record | None:
    """Return the record of a trained run that a worker sent; None if there is none, or if it is not whole."""
    path = store.record_path(trained_run.naming())
    with contextlib.suppress(StoreError):
        line = answer.files.get(path.relative_to(store.root).as_posix(), b"")
        record = unseal(line, Record, "a record of a worker", SCHEMA, "")
        return record if (record.key, store.record_path(record)) == (trained_run.key, path) else None
    return None


def _paths(store: Store, trained_runs: Sequence[TrainedRun]) -> dict[str, Path]:
    """Return where the files of a seed batch are, by path below the results folder.

    The scores come before the records, which have their hashes.
    """
    records = [store.record_path(trained_run.naming()) for trained_run in trained_runs]
    fits = [store.fit_path(key, "posterior") for key in fit_keys(trained_runs)]
    checkpoint = store.fit_path(checkpoint_key(trained_runs), "checkpoint")
    found = [*fits, checkpoint, *(record.with_suffix(".npz") for record in records), *records]
    return {path.relative_to(store.root).as_posix(): path for path in found}


def _read(paths: Mapping[str, Path]) -> dict[str, bytes]:
    """Return the contents of those files that exist, by name."""
    return {name: path.read_bytes() for name, path in paths.items() if path.is_file()}
