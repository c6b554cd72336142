"""Workers of Dask distributed: an existing cluster, or one on this machine's cores or GPUs that ends with the run.

Dask's processes exchange pickles. Whoever reaches the scheduler can run code on the workers and here, so use trusted
networks or TLS only. Nothing pickled is written to the store.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError

from bench.core.environment import harness_hash
from bench.core.errors import BenchError, ConfigError, FitCrashed
from bench.plan.cells import Cell
from bench.run.events import EpochEnded, Event, Tick, decode, encode
from bench.run.options import Options
from bench.run.remote.pool import AnsweringEvents, run_on
from bench.run.remote.task import FitAnswer, FitTask, do_task
from bench.run.supervisor import POLL_S

try:
    import dask
    from distributed import Client, Future, KilledWorker, Nanny, Scheduler, SpecCluster, get_worker
except ImportError as error:
    raise ConfigError("this executor needs Dask distributed: pip install 'bnn-uncertainty-bench[dask]'") from error

DEATHS = 3  # a task that ended so many workers is given up, on a cluster that a run starts
CONNECT_S = 15
EVENT_EVERY_S = 0.5  # least time between two reported epochs; epochs in between are not reported
AT_WORK = ("executing", "long-running")
RESOURCE = "GPU"
TLS = "tls://"
LOGGERS = ("distributed", "distributed.client", "tornado.application", "asyncio")


class _Connecting(Client):  # type: ignore[misc]  # untyped
    """A client that may fail to connect. If it connects, the pool closes it."""

    def __del__(self) -> None:
        """Do nothing: if the connection failed, Dask's own method waits half a minute and prints a traceback."""


class DaskPool:
    """A `bench.run.executors.Pool` on a scheduler."""

    def __init__(
        self,
        client: Client,
        gpu: bool = False,
        workers: int | None = None,
        ask_for: Callable[[int], object] | None = None,
        on_close: Callable[[], object] | None = None,
    ) -> None:
        """Use a connected client.

        Args:
            client: closed with the pool.
            gpu: give fits only to workers that offer the resource GPU, one fit for each unit.
            workers: fits at a time; None for as many as the workers have threads (or GPUs).
            ask_for: asks a queue for workers; called now and then with the largest number of fits at a time so far.
            on_close: called at the end of `close`.
        """
        self.client, self._gpu, self._workers = client, gpu, workers
        self._ask_for, self._on_close = ask_for, on_close
        self._inboxes: dict[str, queue.SimpleQueue[Event | None]] = {}
        self._most = 0
        self._topic = f"bnn-bench-{uuid.uuid4().hex}"
        self._closed = False
        client.subscribe_topic(self._topic, self._take)

    def _take(self, news: tuple[float, tuple[str, bytes]]) -> None:
        ticket, line = news[1]
        inbox = self._inboxes.get(ticket)
        if inbox is not None:
            inbox.put(decode(line))

    def width(self) -> int:
        """See `ParallelExecutor.width`; raises BenchError if the scheduler is silent or the queue takes no job."""
        self._most = max(self._most, len(self._inboxes))
        if self._ask_for is not None:
            self._ask_for(self._most)
        if self._workers is not None:
            return self._workers
        try:
            workers = self.client.scheduler_info()["workers"].values()
        except (OSError, KeyError) as error:  # KeyError: the client has given up, and its answer has no workers
            raise self._gone() from error
        slots = (worker["resources"].get(RESOURCE, 0) if self._gpu else worker["nthreads"] for worker in workers)
        return max(1, int(sum(slots)))

    def run_group(
        self, cells: Sequence[Cell], options: Options, python: str, time_limit_s: float | None
    ) -> Iterator[Event]:
        """See `Pool.run_group`."""
        return run_on(self.do, cells, options, python, time_limit_s)

    def do(self, task: FitTask) -> AnsweringEvents:
        """Let a worker call `do_task`; yield events and ticks, and return the answer."""
        ticket = f"fit-{uuid.uuid4().hex}"
        inbox = self._inboxes[ticket] = queue.SimpleQueue()
        future = self.client.submit(
            _on_worker, task, self._topic, key=ticket, pure=False, resources={RESOURCE: 1} if self._gpu else None
        )
        future.add_done_callback(lambda _: inbox.put(None))
        try:
            while True:
                if self._closed:
                    raise KeyboardInterrupt
                event: Event | None = Tick()
                with contextlib.suppress(queue.Empty):
                    event = inbox.get(timeout=POLL_S)
                if event is None:
                    return self._answer(future)
                yield event
        finally:
            del self._inboxes[ticket]
            if not self._closed:
                future.cancel()

    def _answer(self, future: Future) -> FitAnswer:
        try:
            answer: FitAnswer = future.result()
        except KilledWorker as error:
            deaths, last = error.allowed_failures + 1, error.last_worker.address
            raise FitCrashed(f"{deaths} workers died in turn while they ran it, the last at {last}") from error
        except CancelledError as error:
            raise self._gone() from error
        except Exception as error:  # any error of a worker; the cell's record has it
            raise FitCrashed(f"its worker raised {type(error).__name__}: {error}".splitlines()[0]) from error
        return answer

    def _gone(self) -> BaseException:
        if self._closed:
            return KeyboardInterrupt()
        return BenchError("the Dask scheduler does not answer any more; the same command goes on where it stopped")

    def close(self) -> None:
        """See `ParallelExecutor.close`."""
        if self._closed:
            return
        self._closed = True
        self.client.close()
        if self._on_close is not None:
            self._on_close()


def connect(address: str, gpu: bool = False, workers: int | None = None) -> DaskPool:
    """Use the scheduler at an address, tcp://HOST:PORT or tls://HOST:PORT; Dask's configuration names the TLS keys.

    Raises:
        ConfigError: it does not answer, refuses this client, or a worker has other code than this machine.
    """
    configure()
    try:
        client = _Connecting(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise ConfigError(_why_no_answer(address, error)) from error
    pool = DaskPool(client, gpu, workers)
    try:
        for worker, found in client.run(harness_hash, on_error="return").items():
            if isinstance(found, Exception):
                raise ConfigError(f"worker {worker} cannot import this package ({found}); install it there")
            if found != harness_hash():
                raise ConfigError(f"worker {worker} has another version of this package; install the same one there")
    except ConfigError:
        pool.close()
        raise
    return pool


def _why_no_answer(address: str, error: Exception) -> str:
    if isinstance(error, TypeError) and address.startswith(TLS):
        return (
            f"{address} needs a certificate; set distributed.comm.tls in Dask's configuration, as docs/cluster.md says"
        )
    why = type(error).__name__
    cause: BaseException | None = error
    while cause is not None:  # the first cause explains most, unless it has no text, like a cancelled connection
        why = (str(cause).splitlines() or [why])[0]
        cause = cause.__cause__
    hint = "its certificates" if address.startswith(TLS) else "that it runs (dask scheduler)"
    return f"no Dask scheduler answers at {address} ({why}); check the address and {hint}"


def start_local(workers: int, devices: Sequence[str] = ()) -> DaskPool:
    """Start a scheduler and worker processes that only this machine can reach.

    Args:
        workers: how many, unless devices are given.
        devices: identifiers of GPUs; each gets one worker, which sees no other GPU.
    """
    configure()
    shared = {"host": "127.0.0.1", "dashboard": False}
    common = {**shared, "nthreads": 1, "memory_limit": 0, "silence_logs": logging.CRITICAL}
    one_each = [{"env": {"CUDA_VISIBLE_DEVICES": name}, "resources": {RESOURCE: 1}} for name in devices]
    options = [{**common, **own} for own in one_each or [{}] * workers]
    cluster = SpecCluster(
        # Dask always serves its web pages. On any free port, so that two clusters on one machine do not collide.
        scheduler={"cls": Scheduler, "options": {**shared, "port": 0, "dashboard_address": "127.0.0.1:0"}},
        workers={place: {"cls": Nanny, "options": own} for place, own in enumerate(options)},
        silence_logs=logging.CRITICAL,
    )
    client = Client(cluster, timeout=CONNECT_S, set_as_default=False)
    return DaskPool(client, gpu=bool(devices), on_close=cluster.close)


def configure() -> None:
    """Configure Dask, and silence its logs: the run itself reports dead workers and a scheduler that is gone."""
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    dask.config.set(
        {
            "distributed.scheduler.allowed-failures": DEATHS - 1,
            "distributed.admin.large-graph-warning-threshold": "1 GiB",  # a task may contain a stored posterior
        }
    )


def _on_worker(task: FitTask, topic: str) -> FitAnswer:
    """Do a task in a thread of a worker. End the child process if the run has released the task."""
    worker = get_worker()
    key = worker.get_current_task()
    last = 0.0

    def send(event: Event) -> None:
        nonlocal last
        now = time.monotonic()
        if isinstance(event, Tick) or (isinstance(event, EpochEnded) and now - last < EVENT_EVERY_S):
            return
        last = now
        worker.log_event(topic, (key, encode(event)))

    def wanted() -> bool:
        known = worker.state.tasks.get(key)
        return known is not None and known.state in AT_WORK

    return do_task(task, send, worker.local_directory, wanted)
