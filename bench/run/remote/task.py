"""What a worker of a cluster does for one fit: files in, a child process, files out.

Imports the standard library alone, so that a worker is small and a crashing framework ends the child, not the worker.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.core.environment import thread_variables
from bench.core.errors import OutOfTime, StoreError, WorkerCrashed
from bench.core.files import write_atomically
from bench.run.remote.child import in_child

FOLDERS = ("records", "fits")


def make_task(
    job: Mapping[str, Any], files: Mapping[str, bytes], python: str = "", limit_s: float | None = None
) -> dict[str, Any]:
    """Return what `do_task` needs, of plain types.

    Args:
        job: see `bench.run.remote.jobs.work_job`.
        files: what the caller's store has of the fit already, by path below its root.
        python: another interpreter on the worker; "" for the worker's own.
        limit_s: most seconds for the child.
    """
    return {"job": dict(job), "files": dict(files), "python": python, "limit_s": limit_s}


def do_task(
    task: Mapping[str, Any],
    send: Callable[[dict[str, Any]], object],
    scratch: str | None = None,
    wanted: Callable[[], bool] = lambda: True,
) -> dict[str, Any]:
    """Do a job in a folder of its own, which is gone afterwards.

    Args:
        task: see `make_task`.
        send: takes the child's events while it works.
        scratch: where the folder is made; None for the system's place.
        wanted: asked now and then; on False the child is ended.

    Returns:
        `files` by path below a store's root, also those of cells that were done before the rest failed; `failure`, why
        the rest has no record, or ""; `out_of_time`, whether the limit was the reason.
    """
    answer: dict[str, Any] = {"files": {}, "failure": "", "out_of_time": False}
    with tempfile.TemporaryDirectory(prefix="bnn-bench-", dir=scratch) as root:
        _unpack(Path(root), task["files"])
        job = {**task["job"], "options": {**task["job"]["options"], "root": root}}
        environ = thread_variables(job["options"]["threads"])
        events = in_child(task["python"] or sys.executable, job, task["limit_s"], environ)
        try:
            for event in events:
                if not wanted():
                    raise WorkerCrashed("nobody waits for it any more")
                send(event)
        except OutOfTime as error:
            answer.update(failure=str(error), out_of_time=True)
        except (WorkerCrashed, StoreError) as error:
            answer.update(failure=str(error))
        finally:
            events.close()
        answer["files"] = _pack(Path(root), task["files"])
    return answer


def _unpack(root: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        write_atomically(root / name, content)


def _pack(root: Path, known: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of the folder that the caller does not have; half-written ones are hidden and stay."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_file() and not path.name.startswith("."):
                content = path.read_bytes()
                if known.get(name) != content:
                    found[name] = content
    return found
