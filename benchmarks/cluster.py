"""How long a task of a cluster takes beyond its fit, with a worker on this machine: python -m benchmarks.cluster.

It prints milliseconds per task, one task at a time on one worker: least, median and greatest. The files that travel are
as large as eight fitted networks.
"""

from __future__ import annotations

import contextlib
import os
import stat
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cli.main import Parser, guarded
from bench.plan.cells import Selection, cells
from bench.run.jobs import WorkJob, work_job
from bench.run.options import Options
from bench.run.remote.task import FitTask

if TYPE_CHECKING:
    from bench.run.remote.dask_pool import DaskPool

PARCEL_BYTES = 40 * 2**20  # eight networks of 1.2 million parameters in float32, and their scores


def main() -> int:
    """Print the table, and return the exit code."""
    return guarded(_measure)


def _measure() -> int:
    Parser(
        prog="python -m benchmarks.cluster", description="What a task of a cluster costs beyond its fit."
    ).parse_args()
    from bench.run.remote.dask_pool import start_local  # here: without Dask it raises ConfigError

    job = work_job(cells(Selection(approaches=("uniform",), profile="smoke")), Options("elsewhere", threads=1))
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(start_local(1)) as pool:
        said = _program(Path(folder) / "said", 'echo \'{"kind":"end"}\'')
        parcel = {"fits/0/posterior.safetensors": os.urandom(PARCEL_BYTES)}
        back = _program(
            Path(folder) / "back",
            f'read job; root=$(echo "$job" | sed \'s/.*"root":"\\([^"]*\\)".*/\\1/\'); mkdir -p $root/records; '
            f'head -c {PARCEL_BYTES} /dev/zero > $root/records/all; echo \'{{"kind": "end"}}\'',
        )
        _show("Dask alone", 200, lambda: pool.client.submit(os.getpid, pure=False).result())
        _show("with a child process that prints one line", 50, lambda: _do(pool, job, {}, said))
        _show(f"the same, and {PARCEL_BYTES >> 20} MiB sent to the worker", 10, lambda: _do(pool, job, parcel, said))
        _show(f"the same, and {PARCEL_BYTES >> 20} MiB sent back", 10, lambda: _do(pool, job, {}, back))
        _show("with a child process that imports what a fit needs", 5, lambda: _do(pool, job, {}, sys.executable))
    return 0


def _program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def _do(pool: DaskPool, job: WorkJob, files: dict[str, bytes], python: str) -> None:
    for _ in pool.do(FitTask(job, files, python)):
        pass


def _show(what: str, repeats: int, action: Callable[[], object]) -> None:
    action()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    low, middle, high = (1000 * value for value in (min(seconds), statistics.median(seconds), max(seconds)))
    sys.stdout.write(f"{what}: least {low:.1f} ms, median {middle:.1f} ms, greatest {high:.1f} ms ({repeats} tasks)\n")


if __name__ == "__main__":
    sys.exit(main())
