"""`python -m bench.remote`: do the one job of standard input, telling of it in JSON lines on standard output.

Started by `bench.remote.child`. The last line is {"kind": "end"}; {"kind": "refused"} says why nothing more comes.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any, TextIO

from bench.errors import BenchError, StoreError

ORPHANED = 1


def main() -> None:
    """Do the job; why it was not done is an event, and what became of its cells is in their records."""
    lines = _own_output()

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


def _own_output() -> TextIO:
    """Return what was standard output, and lead there what frameworks print, so that it gets between no lines."""
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return lines


def _do(job: dict[str, Any], send: Any) -> None:
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    send({"kind": "place", "host": socket.gethostname(), "pid": os.getpid(), "parent": os.getppid(), "gpu": gpu})
    from bench.remote import jobs  # takes seconds, as it imports torch

    if job["kind"] == "plan":
        from bench.environment import harness_hash
        from bench.plan import cells

        if job["harness"] != harness_hash():
            raise BenchError(f"the harness that {sys.executable} imports is of another version")
        found = cells(jobs.selection_of(job["selection"]))
        send({"kind": "cells", "cells": jobs.plain_cells(found)})
        return
    from bench.contexts import OrphanedError
    from bench.worker import work

    todo, options = jobs.cells_of(job["cells"]), jobs.options_of(job["options"])
    jobs.check(job["expected"], jobs.here(todo[0].approach, jobs.data_folder(options)))
    try:
        work(todo, options, send)
    except OrphanedError:
        os._exit(ORPHANED)


if __name__ == "__main__":
    main()
    os._exit(0)  # all is said and written; frameworks take a second to end in order
