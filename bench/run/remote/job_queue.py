"""Workers as jobs of Slurm, PBS, SGE, LSF or HTCondor. dask-jobqueue submits the jobs; they end with the run.

Dask's configuration (jobqueue.yaml) says where jobs run and what they may use. The option --job overrides a part of it.
A job does one fit at a time.
"""

from __future__ import annotations

import inspect
import logging
import shlex
import shutil
from collections.abc import Iterable

from bench.core.errors import BenchError, ConfigError, unknown_name
from bench.run.remote.dask_pool import CONNECT_S, RESOURCE, DaskPool, configure
from bench.run.remote.pool import QUEUES

try:
    import dask
    import dask_jobqueue
    from dask.utils import parse_bytes
    from dask_jobqueue.core import Job
    from distributed import Client, Status
    from distributed.security import Security
except ImportError as error:
    raise ConfigError("this executor needs dask-jobqueue: pip install 'bnn-uncertainty-bench[cluster]'") from error

OPTIONS = ("account", "disk", "interface", "log_directory", "memory", "project", "queue", "walltime")
WIDTH = 64  # default number of jobs at a time
MEMORY = "4GiB"  # of a job, if Dask's configuration says nothing
GPU_DIRECTIVES = {"slurm": ["--gpus-per-node=1"]}  # for other queues they differ from site to site


def start_queue(name: str, gpu: bool, threads: int, workers: int | None, options: Iterable[str]) -> DaskPool:
    """Start a scheduler here that submits a job for each fit, at most `workers` or WIDTH at a time.

    Args:
        name: one of `QUEUES`.
        gpu: each job has its own GPU.
        threads: cores of a job.
        workers: jobs at a time.
        options: options of the jobs as NAME=VALUE; they override Dask's configuration.

    Raises:
        ConfigError: this machine does not have the queue, or the queue does not take the options.
    """
    configure()
    cluster_class = getattr(dask_jobqueue, QUEUES[name])
    program = shlex.split(cluster_class.job_cls.submit_command)[0]
    if shutil.which(program) is None:
        raise ConfigError(
            f"executor '{name}' needs the program {program}, which is not on PATH; run where jobs can be submitted"
        )
    failures: list[str] = []
    settings = dask.config.get(f"jobqueue.{name}")
    given = _given(name, cluster_class.job_cls, options)
    try:
        cluster = cluster_class(
            job_cls=_noting(cluster_class.job_cls, program, failures),
            **{"memory": settings["memory"] or MEMORY, **given},
            cores=threads,
            processes=1,
            worker_extra_args=[
                *settings["worker-extra-args"],
                *("--nthreads", "1"),  # fits at a time; a fit's own threads are in its environment
                *(("--resources", f"{RESOURCE}=1") if gpu else ()),
            ],
            job_extra_directives=[
                *(settings.get("job-extra-directives") or []),
                *(GPU_DIRECTIVES.get(name, []) if gpu else []),
            ],
            scheduler_options={"dashboard": False, "dashboard_address": ":0", **settings["scheduler-options"]},
            security=Security() if dask.config.get("distributed.comm.require-encryption") else None,
            silence_logs=logging.CRITICAL,
        )
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise ConfigError(f"executor '{name}' cannot be used: {error}".splitlines()[0]) from error

    def ask_for(tasks: int) -> None:
        if failures:
            raise BenchError(failures[0])
        cluster.scale(jobs=max(1, min(tasks, workers or WIDTH)))  # this also replaces jobs that have ended

    client = Client(cluster, timeout=CONNECT_S, set_as_default=False)
    return DaskPool(client, gpu, workers or WIDTH, ask_for, cluster.close)


def _given(name: str, job_class: type[Job], options: Iterable[str]) -> dict[str, str]:
    """Return the options of jobs from texts such as walltime=04:00:00; raises ConfigError."""
    known: set[str] = set()
    for made in job_class.__mro__:
        if "__init__" in vars(made):
            known.update(inspect.signature(made).parameters)
    found = {}
    for text in options:
        option, separator, value = text.partition("=")
        if not separator or not value:
            raise ConfigError(f"job option '{text}' has no name and value; give one such as walltime=04:00:00")
        if option not in OPTIONS or option not in known:
            raise unknown_name(f"option of {name} jobs", option, known & {*OPTIONS})
        found[option] = value
    try:
        parse_bytes(found.get("memory", MEMORY))
    except ValueError as error:
        raise ConfigError(f"memory '{found['memory']}' of {name} jobs is not a size; give one such as 8GB") from error
    return found


def _noting(job_class: type[Job], program: str, failures: list[str]) -> type[Job]:
    """Return a class of jobs that adds to `failures` why a job could not be submitted; Dask only logs it."""

    class NotingJob(job_class):  # type: ignore[misc]  # untyped
        async def _submit_job(self, script: str) -> str:
            try:
                return str(await super()._submit_job(script))
            except (OSError, RuntimeError) as error:
                last = str(error).strip().splitlines()[-1]
                failures.append(f"{program} took no job: {last}; see docs/cluster.md for the options of jobs")
                self.status = Status.failed  # so that the cluster can be closed
                raise

    return NotingJob
