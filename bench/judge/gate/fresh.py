"""The fresh run: every gated trained run with its fresh seeds."""

from __future__ import annotations

from pathlib import Path

from bench.core.errors import ConfigError
from bench.core.store import Store
from bench.judge.gate.config import Gate
from bench.plan.trained_runs import TrainedRun
from bench.run.events import Options
from bench.run.executors import open_executor, threads_of_a_fit
from bench.run.runner import Watcher, run


def run_fresh(
    gate: Gate,
    root: Path,
    threads: int | None,
    watcher: Watcher,
    executor: str = "process",
    workers: int | None = None,
) -> None:
    """Run all that the gate compares, into a folder without records.

    Raises:
        ConfigError: the folder has records already, which could not be told from fresh ones.
    """
    if Store(root).has_records():
        raise ConfigError(f"{root} has records already; give an empty folder, or judge these with --fresh {root}")
    share = threads_of_a_fit(executor, threads, workers)
    # No posterior is kept: a gate measures once, and a full disk would look like a fault of the code.
    options = Options(root=str(root.resolve()), threads=share, retain=False)
    run(fresh_trained_runs(gate), Store(root), options, watcher, open_executor(executor, workers=workers))


def fresh_trained_runs(gate: Gate) -> list[TrainedRun]:
    """Return the gated trained runs with their fresh seeds."""
    return [
        planned
        for trained_run in gate.trained_runs
        for planned in gate.planned(trained_run, gate.seeds_of(trained_run))
    ]
