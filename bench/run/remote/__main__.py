"""`python -m bench.run.remote [OWNER]`: do the one job of standard input and report it as JSON lines.

It ends with the process of the number OWNER (default: its parent). `bench.run.remote.child` starts it. The last line
is {"kind": "end"}; {"kind": "refused"} says why nothing more comes.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from typing import Any, TextIO

from bench.core.errors import BenchError, StoreError
from bench.plan import plugins

ORPHANED = 1
WATCH_S = 0.25


def main() -> None:
    """Do the job; why it was not done is an event, and what became of its cells is in their records."""
    lines = _own_output()
    owner = int(sys.argv[1]) if len(sys.argv) > 1 else os.getppid()
    threading.Thread(target=_die_with, args=(owner,), daemon=True, name="die with owner").start()

    def send(event: dict[str, Any]) -> None:
        try:
            lines.write(json.dumps(event, default=float) + "\n")
            lines.flush()
        except BrokenPipeError:  # nobody listens; at once, as whatever is raised here would become a cell's record
            os._exit(ORPHANED)

    try:
        _do(json.loads(sys.stdin.readline()), send)
    except StoreError as error:
        send({"kind": "error", "message": str(error)})
    except BenchError as error:
        send({"kind": "refused", "reason": str(error)})
    except Exception as error:  # noqa: BLE001 - such as a device that this machine lacks: each cell's record says it
        send({"kind": "refused", "reason": f"{type(error).__name__}: {error}".splitlines()[0]})
    else:
        send({"kind": "end"})


def _die_with(owner: int) -> None:
    """End this process as soon as the one that holds the lock of its fit is gone.

    The parent may be another: a script in the place of an interpreter.
    """
    parent = os.getppid()
    while os.getppid() == parent and _exists(owner):
        time.sleep(WATCH_S)
    os._exit(ORPHANED)


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is there, and another's
        return True
    return True


def _own_output() -> TextIO:
    """Return what was standard output, and lead there what frameworks print, so that it gets between no lines."""
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return lines


def _do(job: dict[str, Any], send: Any) -> None:
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    send({"kind": "place", "host": socket.gethostname(), "pid": os.getpid(), "parent": os.getppid(), "gpu": gpu})
    from bench.run.remote import jobs  # takes seconds, as it imports torch

    if job["kind"] == "plan":
        from bench.core.environment import harness_hash
        from bench.plan.cells import cells

        if job["harness"] != harness_hash():
            raise BenchError(f"the harness that {sys.executable} imports is of another version")
        found = cells(jobs.selection_of(job["selection"]))
        send({"kind": "cells", "cells": jobs.plain_cells(found)})
        return
    from bench.core.heap import tidying
    from bench.plan.registry import manifests
    from bench.run.contexts import OrphanedError
    from bench.run.process import bound_memory, work

    todo, options = jobs.cells_of(job["cells"]), jobs.options_of(job["options"])
    for place in options.approaches.split(os.pathsep):
        if os.path.exists(place):  # the caller's, where this machine has it too
            plugins.add_to_path(place)
    bound_memory(options)
    if todo[0].approach not in manifests():
        raise BenchError(
            f"approach '{todo[0].approach}' is not known on {socket.gethostname()}; install its package there, or "
            f"start the workers with {plugins.VARIABLE}"
        )
    jobs.check(job["expected"], jobs.here(todo[0].approach, jobs.data_folder(options)))
    try:
        work(todo, options, tidying(send))
    except OrphanedError:
        os._exit(ORPHANED)


if __name__ == "__main__":
    main()
    os._exit(0)  # all is said and written; frameworks take a second to end in order
