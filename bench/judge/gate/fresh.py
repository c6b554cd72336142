"""The fresh run: every gated trained run with its fresh seeds; and whether a seed of the baseline repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bench.core.canonical import digest
from bench.core.environment import versions
from bench.core.errors import ConfigError
from bench.core.files import write_atomically
from bench.core.records import Record
from bench.core.store import Store
from bench.judge.gate.config import Gate
from bench.judge.gate.judge import Folder
from bench.plan.trained_runs import TrainedRun
from bench.run.alike import code_and_data
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
    planned: Sequence[TrainedRun] | None = None,
    adds: bool = False,
) -> None:
    """Run all that the gate compares, or what is `planned`, into a folder without records.

    If it `adds`, the folder may have those of a first run of the same code, data and packages, which are kept.

    Raises:
        ConfigError: the folder has other records already, which could not be told from fresh ones.
    """
    mark = root / f"made-by-{_made_by(gate)}"
    if Store(root).has_records():
        if not adds:
            raise ConfigError(f"{root} has records already; give an empty folder, or judge these with --fresh {root}")
        if not mark.exists():
            raise ConfigError(f"{root} has records that other code, data or packages made; give an empty folder")
    write_atomically(mark, b"")
    share = threads_of_a_fit(executor, threads, workers)
    # No posterior is kept: a gate measures once, and a full disk would look like a fault of the code.
    options = Options(root=str(root.resolve()), threads=share, retain=False)
    chosen = fresh_trained_runs(gate) if planned is None else planned
    run(chosen, Store(root), options, watcher, open_executor(executor, workers=workers))


def _made_by(gate: Gate) -> str:
    """Return a hash of what affects the numbers of a gate: code, data and packages."""
    approaches = sorted({one.approach for one in gate.trained_runs})
    return digest([versions(), *(code_and_data(name, None) for name in approaches)])


Train = Callable[[Sequence[TrainedRun]], None]  # makes records


def repeats(gate: Gate, names: Iterable[str], baseline: Path, root: Path, train: Train) -> bool:
    """Return whether the baseline's first seed of some trained runs gives all its numbers again, to the last bit.

    `train` makes the new records in `root`. If all repeat, neither the code nor the machine moved a number, and another
    mean of other seeds is probably chance.
    """
    known, chosen = Folder.read(baseline, gate), [gate.trained_run(name) for name in names]
    done = [(one, [old for old in known.trained_run(one) if old.outcome == "done"][:1]) for one in chosen]
    first = [(one, record) for one, records in done for record in records]
    train([planned for one, record in first for planned in gate.planned(one, [record.seed])])
    found = Folder.read(root, gate)
    pairs = [(_numbers(old), _numbers(new)) for one, old in first for new in found.trained_run(one)]
    return len(pairs) == len(chosen) and all(old.items() <= new.items() for old, new in pairs)


def _numbers(record: Record) -> dict[tuple[int, str], float | None]:
    """Return the numbers of a record and of its epochs, by number of the epoch (0: of the record) and key."""
    of_epochs = {(epoch.epoch, key): value for epoch in record.epochs for key, value in epoch.metrics.items()}
    return {**{(0, key): value for key, value in record.metrics.items()}, **of_epochs}


def fresh_trained_runs(gate: Gate) -> list[TrainedRun]:
    """Return the gated trained runs with their fresh seeds."""
    return [
        planned
        for trained_run in gate.trained_runs
        for planned in gate.planned(trained_run, gate.seeds_of(trained_run))
    ]
