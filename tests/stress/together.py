"""Several runs on one results folder at once, one of them killed: every trained run is done once, nothing is harmed."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.core import locks
from tests.stress import processes
from tests.stress.processes import Run

TRAINED_RUNS = ("toy_bbb", "toy_mlp", "--profile", "smoke", "--seeds", "3", "--apart")
N_RUNS = 3


@dataclass
class Together:
    """The figures of a trial."""

    runs: int = 0
    killed: int = 0
    trained_runs: int = 0
    done_by: list[int] = field(default_factory=list)  # trained runs that each run has done
    done_twice: int = 0
    named: int = 0  # working processes that the locks' notes named, as `status` shows them
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the figures in words."""
        return [
            f"{self.runs} runs on one folder, {self.killed} of them killed: {self.trained_runs} trained runs "
            f"({', '.join(map(str, self.done_by))}), {self.done_twice} done twice; the locks named {self.named} of "
            f"the processes ({self.seconds:.0f} s)"
        ]


def run_together() -> Together:
    """Let `N_RUNS` processes share the trained runs of one folder, and kill the first of them when it has begun."""
    found, begin = Together(runs=N_RUNS), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bench-together-") as folder:
        root = Path(folder)
        arguments = ["-m", "bench", "run", *TRAINED_RUNS, "--threads", "1", "--json", "--results", folder]
        runs = [Run(arguments) for _ in range(N_RUNS)]
        try:
            if runs[0].wait_for(lambda event: event["kind"] == "start") is not None:
                notes = [locks.holder(root, path.stem) for path in (root / locks.FOLDER).glob("*.json")]
                named = {note.pid for note in notes if note is not None}
                found.named = len(named)
                strangers = named - {run.pid for run in runs}
                found.faults += [f"a lock's note names process {pid}, which is none of the runs" for pid in strangers]
                found.killed = int(runs[0].kill("all"))
            codes = [run.wait() for run in runs]
            found.faults += [f"a run ended with code {code}" for code in codes[1:] if code]
            found.faults += [f"a traceback: {run.errors()[-300:]}" for run in runs if "Traceback" in run.errors()]
            _count(found, runs)
        finally:
            for run in runs:
                run.close()
        found.faults += processes.faults(root)
    found.seconds = time.perf_counter() - begin
    return found


def _count(found: Together, runs: list[Run]) -> None:
    done = [[event["key"] for event in run.events if _is_done(event)] for run in runs]
    times = Counter(key for keys in done for key in keys)
    found.done_by = [len(keys) for keys in done]
    found.trained_runs = len(times)
    found.done_twice = sum(count > 1 for count in times.values())
    if found.done_twice:
        found.faults.append(f"{found.done_twice} trained runs were done twice")
    expected = max(event["done"] + event["to_do"] for run in runs for event in run.events if event["kind"] == "begin")
    # The run that was killed may have written a record and not reported it.
    if not expected - 1 <= found.trained_runs <= expected:
        found.faults.append(f"{found.trained_runs} of {expected} trained runs were done")


def _is_done(event: dict[str, Any]) -> bool:
    return event["kind"] == "record" and event["outcome"] == "done" and not event.get("was_there", False)
