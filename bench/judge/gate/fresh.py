"""The fresh run: every gated cell with its fresh seeds, and some cells twice with a seed of the reference."""

from __future__ import annotations

from pathlib import Path

from bench.core.errors import ConfigError
from bench.core.store import Store
from bench.judge.gate.config import Gate, GatedCell
from bench.plan.cells import Cell
from bench.run.executors import Executor, open_executor, threads_of_a_fit
from bench.run.options import Options
from bench.run.runner import Watcher, run

AGAIN = "again"  # folder in that of the fresh run, for the second run of the repeated cells
BLIND = "uniform"  # the approach that answers 1/K for every class, so its scores are known


def run_fresh(
    gate: Gate,
    root: Path,
    threads: int | None,
    watcher: Watcher,
    executor: str = "process",
    workers: int | None = None,
) -> None:
    """Run all that the gate compares, into a folder without records.

    Several cells may run at a time. But repeated cells run one after the other, each with all `threads`: another number
    of threads rounds differently, and these are compared to the last bit.

    Raises:
        ConfigError: the folder has records already, which could not be told from fresh ones.
    """
    if Store(root).has_records():
        raise ConfigError(f"{root} has records already; give an empty folder, or judge these with --fresh {root}")
    share = threads_of_a_fit(executor, threads, workers)
    _run([*fresh_cells(gate), *blind_cells(gate)], root, share, watcher, open_executor(executor, workers=workers))
    for place in (root, root / AGAIN):
        _run(repeated_cells(gate), place, threads, watcher, open_executor(executor))


def fresh_cells(gate: Gate) -> list[Cell]:
    """Return the gated cells with their fresh seeds."""
    return [planned for cell in gate.cells for planned in gate.planned(cell, gate.seeds_of(cell))]


def repeated_cells(gate: Gate) -> list[Cell]:
    """Return the cells that run twice. Each seed runs by itself, so that both runs compute in the same way."""
    names, seed = gate.repeat.cells, gate.repeat.seed
    return [planned for name in names for planned in gate.planned(gate.cell(name), [seed], apart=True)]


def blind_cells(gate: Gate) -> list[Cell]:
    """Return the cell of the blind network."""
    return gate.planned(GatedCell(BLIND, "published", "common", 1, ()), gate.fresh_seeds[:1])


def _run(chosen: list[Cell], root: Path, threads: int | None, watcher: Watcher, executor: Executor) -> None:
    # No posterior is kept: a gate measures once, and a full disk would look like a fault of the code.
    options = Options(root=str(root.resolve()), threads=threads, retain=False)
    run(chosen, Store(root), options, watcher, executor)
