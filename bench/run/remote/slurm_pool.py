"""Jobs of Slurm through submitit: one for each fit, in a folder that the nodes share with this machine.

What submitit keeps there are pickles of its own; the folder lies beside the results, never in them, and goes with the
run.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.core.errors import ConfigError, StoreError, WorkerCrashed
from bench.run.remote.pool import POLL_S, Events
from bench.run.remote.task import do_task

try:
    import submitit
    from submitit.core.utils import FailedJobError, UncompletedJobError
except ImportError as error:
    raise ConfigError("this executor needs submitit: pip install 'bnn-uncertainty-bench[slurm]'") from error

CLUSTERS = {"slurm": "slurm", "slurm-local": "local", "slurm-debug": "debug"}
"""Submitit's name of each executor; local is processes of this machine, debug this process, one fit at a time."""

TRIES = 3  # jobs that end without an answer, after which their fit is given up
WIDTH = 64  # jobs in the queue at a time
MINUTES = 12 * 60  # of a job, unless asked for otherwise


class SlurmPool:
    """A `bench.run.remote.pool.Pool` of submitit's jobs."""

    def __init__(
        self,
        name: str,
        beside: Path,
        gpu: bool = False,
        threads: int = 1,
        workers: int | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        """Prepare jobs.

        Args:
            name: one of CLUSTERS.
            beside: the results folder; the jobs' folder is made beside it.
            gpu: ask for a GPU for each job.
            threads: cores of each job.
            workers: jobs in the queue at a time; None for WIDTH.
            parameters: of `submitit.AutoExecutor.update_parameters`, such as slurm_partition or timeout_min.

        Raises:
            ConfigError: there is no Slurm here, or submitit knows no such parameter.
            StoreError: the folder cannot be made.
        """
        self._width, self._closed = 1 if name == "slurm-debug" else workers or WIDTH, False
        try:
            beside.resolve().parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix=f".{beside.name}-jobs-", dir=beside.resolve().parent))
        except OSError as error:
            raise StoreError(f"cannot write beside {beside}: {error.strerror}; choose another --results") from error
        try:
            self._executor = submitit.AutoExecutor(folder=self._folder, cluster=CLUSTERS[name])
            gpus = {"gpus_per_node": 1} if gpu else {}
            usual = {"name": "bnn-bench", "cpus_per_task": threads, "timeout_min": MINUTES, **gpus}
            self._executor.update_parameters(**{**usual, **(parameters or {})})
        except (RuntimeError, ValueError, TypeError, NameError, AssertionError) as error:
            self.close()
            raise ConfigError(f"executor '{name}' cannot be used: {error}".splitlines()[0]) from error

    def width(self) -> int:
        """See `Pool.width`."""
        return self._width

    def do(self, task: Mapping[str, Any]) -> Events:
        """See `Pool.do`."""
        for attempt in range(1, TRIES + 1):
            told = self._folder / f"{uuid.uuid4().hex}.events"
            told.touch()
            job = self._executor.submit(_on_node, dict(task), str(told))
            ended = False
            try:
                yield from self._follow(job, told)
                answer: dict[str, Any] = job.result()
                ended = True
                return answer
            except (UncompletedJobError, FailedJobError) as error:
                ended = True
                if attempt == TRIES:
                    said = str(error).strip().splitlines()
                    raise WorkerCrashed(f"{TRIES} jobs ended in turn without an answer: {said[0]}") from error
            finally:
                if not ended:
                    job.cancel(check=False)
                told.unlink(missing_ok=True)
        raise AssertionError("the last try returns or raises")

    def _follow(self, job: Any, told: Path) -> Iterator[dict[str, Any]]:
        """Yield what a job tells until it has ended."""
        place = 0
        while True:
            if self._closed:
                raise KeyboardInterrupt
            done = job.done()
            with told.open("rb") as file:
                file.seek(place)
                *lines, _ = file.read().split(b"\n")
            place += sum(len(line) + 1 for line in lines)
            yield from map(json.loads, lines)
            if done:
                return
            yield {"kind": "tick"}
            time.sleep(POLL_S)

    def close(self) -> None:
        """See `Pool.close`."""
        self._closed = True
        shutil.rmtree(self._folder, ignore_errors=True)


def _on_node(task: dict[str, Any], told: str) -> dict[str, Any]:
    """Do a task on a node; the child is ended when the run that asked for it, and with it the file, is gone."""
    path = Path(told)

    def send(event: dict[str, Any]) -> None:
        if event["kind"] != "tick" and path.exists():
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(event) + "\n")

    return do_task(task, send, wanted=path.exists)


def parameters(given: Iterable[str]) -> dict[str, Any]:
    """Return submitit's parameters from texts such as timeout_min=60; raises ConfigError."""
    found: dict[str, Any] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name.isidentifier():
            raise ConfigError(f"parameter '{text}' has no name and value; give one such as timeout_min=60")
        found[name] = int(value) if re.fullmatch("-?[0-9]{1,18}", value) else value
    return found
