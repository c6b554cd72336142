"""Returns the executor for a name that the user gives: this process, child processes, or a pool of Dask workers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from bench.core.errors import ConfigError, unknown_name
from bench.run.executors import EXECUTORS, Pool, Processes
from bench.run.remote.pool import QUEUES, THREADS

NAMES = (*EXECUTORS, "dask", "dask://HOST:PORT", "tls://HOST:PORT", *QUEUES)
_ADDRESS = re.compile(r"(?P<scheme>dask|tls)://(?P<place>(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5})")
_SCHEMES = {"dask": "tcp", "tls": "tls"}  # Dask's own names


def is_pool(name: str) -> bool:
    """Return whether the name of an executor means a pool: every name does that is not in EXECUTORS."""
    return name not in EXECUTORS


def open_executor(
    name: str,
    device: str = "cpu",
    threads: int | None = None,
    workers: int | None = None,
    job_options: Sequence[str] = (),
) -> str | Processes | Pool:
    """Return the executor for `bench.run.runner.run`. The caller must close it, unless it is a name.

    Args:
        name: one of NAMES.
        device: device of the cells. If it is not cpu, each fit of a pool has its own GPU.
        threads: threads of a fit.
        workers: fits at a time. None: one child process, or as many as a pool has workers for.
        job_options: options of a queue's jobs as NAME=VALUE.

    Raises:
        ConfigError: the name is unknown, a package is not installed, or the cluster cannot be reached.
    """
    gpu = device != "cpu"
    if job_options and name not in QUEUES:
        raise ConfigError(f"--job is for the executors {', '.join(QUEUES)}, not for '{name}'")
    if name in EXECUTORS:
        return _open_here(name, device, workers)
    # Dask is an optional extra, so it is imported only here.
    if name == "dask":
        from bench.run.remote.dask_pool import start_local

        return start_local(workers or max(1, cores() // (threads or THREADS)), gpus() if gpu else ())
    found = _ADDRESS.fullmatch(name)
    if found is not None:
        from bench.run.remote.dask_pool import connect

        return connect(f"{_SCHEMES[found['scheme']]}://{found['place']}", gpu, workers)
    if name in QUEUES:
        from bench.run.remote.job_queue import start_queue

        return start_queue(name, gpu, threads or THREADS, workers, job_options)
    raise unknown_name("executor", name, NAMES)


def _open_here(name: str, device: str, workers: int | None) -> str | Processes:
    if workers is None:
        return name
    if name == "inline":
        raise ConfigError("--workers is not for executor 'inline', which fits one after the other; try process")
    if device != "cpu" and workers > 1:
        raise ConfigError(
            f"--workers {workers} would share device {device}; --executor dask gives each fit its own GPU"
        )
    return Processes(workers)


def threads_of_a_fit(name: str, threads: int | None, workers: int | None) -> int | None:
    """Return the threads of a fit: `threads` if given, else an equal share of PyTorch's threads; None for all."""
    if threads is None and name == "process" and (workers or 1) > 1:
        import torch  # not at the top: it takes seconds, and most calls do not need it

        return max(1, torch.get_num_threads() // (workers or 1))
    return threads


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus() -> tuple[str, ...]:
    """Return the identifiers of this machine's GPUs, for CUDA_VISIBLE_DEVICES; raises ConfigError if there is none."""
    import torch  # not at the top: it takes seconds, and runs on the CPU do not need it

    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = given.split(",") if given is not None else map(str, range(torch.cuda.device_count()))
    found = tuple(name.strip() for name in names if name.strip())
    if not found:
        raise ConfigError("this machine has no CUDA device; use --executor dask://HOST:PORT with workers that have one")
    return found
