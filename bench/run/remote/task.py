"""Do one fit on a worker of a cluster: unpack the caller's files, start a child process, and pack its files.

This module imports no framework. So a worker needs little memory, and a crash of a framework ends only the child.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from bench.core.errors import BenchError, FitCrashed, FitEnded, OutOfTime
from bench.core.files import write_atomically
from bench.run.events import Send
from bench.run.jobs import WorkJob
from bench.run.supervisor import supervise

FOLDERS = ("records", "fits")


class FitTask(msgspec.Struct, frozen=True):
    """The input of `do_task`."""

    job: WorkJob
    files: dict[str, bytes]  # posteriors and checkpoint of the caller's store, by path below its root
    python: str = ""  # another interpreter on the worker; "": the worker's own
    limit_s: float | None = None  # most seconds of the child


class FitAnswer(msgspec.Struct, frozen=True):
    """The result of a task, even if some of its cells failed."""

    files: dict[str, bytes]  # new files, by path below a store's root
    failure: str = ""  # why some cells have no record
    out_of_time: bool = False  # the time limit is the reason
    printed: str = ""  # the end of the child's output, if it failed


def do_task(
    task: FitTask, send: Send, scratch: str | None = None, wanted: Callable[[], bool] = lambda: True
) -> FitAnswer:
    """Do a job in a temporary folder.

    Args:
        task: what to do.
        send: takes the child's events.
        scratch: where to make the folder; None for the system's default.
        wanted: called at each event; if it returns False, the child is ended.
    """
    failure, out_of_time, printed = "", False, ""
    with tempfile.TemporaryDirectory(prefix="bnn-bench-", dir=scratch) as root:
        for name, content in task.files.items():
            write_atomically(Path(root, name), content)
        job = msgspec.structs.replace(task.job, options=dataclasses.replace(task.job.options, root=root))
        try:
            with contextlib.closing(supervise(job, task.python or sys.executable, task.limit_s)) as events:
                for event in events:
                    if not wanted():
                        raise FitCrashed("the run does not wait for it any more")
                    send(event)
        except BenchError as error:
            failure, out_of_time = str(error), isinstance(error, OutOfTime)
            printed = error.printed if isinstance(error, FitEnded) else ""
        return FitAnswer(_pack(Path(root), task.files), failure, out_of_time, printed)


def _pack(root: Path, known: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files that the caller does not have, without half-written ones, whose names start with a dot."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_file() and not path.name.startswith("."):
                content = path.read_bytes()
                if known.get(name) != content:
                    found[name] = content
    return found
