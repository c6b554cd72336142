"""The process that a soak watches: trained runs in a loop, each round in a new folder, and its memory after each.

Started as `python -m tests.stress.looping FOLDER PROFILE APPROACH...`; it goes on with the last round that it finds.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.core.store import Store
from bench.plan.trained_runs import Selection, trained_runs
from bench.run.events import Options
from bench.run.progress import Progress
from bench.run.runner import run
from tests.stress.processes import children, resident_mib


def loop(folder: Path, profile: str, approaches: Sequence[str]) -> None:
    """Run for ever."""
    rounds = [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
    number = max(rounds, default=0)
    selected = trained_runs(Selection(approaches=tuple(approaches), profile=profile))
    while True:
        root = folder / str(number)
        calls = 0
        while True:
            results = run(selected, Store(root), Options(str(root), threads=1), Progress({}, quiet=True))
            calls += 1
            bad = [result for result in results if result.outcome != "done"]
            if all(result.outcome == "skipped" for result in bad):
                break
            _tell({"kind": "again", "round": number, "reasons": sorted({result.reason for result in bad})})
        servers = children(os.getpid())
        _tell(
            {
                "kind": "round",
                "round": number,
                "calls": calls,
                "trained runs": len(results),
                "run_mib": resident_mib(),
                "servers_mib": sum(resident_mib(server) for server in servers),
            }
        )
        number += 1


def _end_with_watcher() -> None:
    """End this process, and so its child processes, when whoever watches it is gone: nobody else would end the loop."""

    def watch() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _tell(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _end_with_watcher()
    loop(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
