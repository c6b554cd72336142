"""Small faults for the trial of the verdicts: python -m benchmarks.planted [FAULT/APPROACH ...] [--seeds N] [--save].

Plants a fault in the code, trains one epoch by the published recipe and prints what the published protocol measures.
`--save` keeps the numbers in results/reference/planted_runs.csv, and `python -m bench verdict --trial` judges them like
reported numbers. The seeds differ from those of the records that judge.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from bench.cli.main import Parser, guarded
from bench.cli.options import count
from bench.core.environment import code_state, now
from bench.core.errors import ConfigError, check_known
from bench.core.files import check_writable
from bench.core.records import Record
from bench.core.store import Store
from bench.judge.alternatives.trial import RUNS, PlantedRun, read_runs
from bench.plan.cells import Selection, cells
from bench.run.options import Options
from bench.run.progress import Progress
from bench.run.runner import run
from benchmarks.effects import write_rows
from benchmarks.power import field_times, kl_times

FIRST_SEED = 1000  # far from 0, 1, 2, ..., which judge
Planting = Callable[[], AbstractContextManager[object]]
FAULTS: dict[str, tuple[Planting, tuple[str, ...]]] = {
    "learning rate x 1.1": (lambda: field_times("learning_rate", 1.1), ("mlp", "linear_bbb")),
    "KL x 1.1": (lambda: kl_times(1.1), ("linear_bbb",)),
    "dropout .45 instead of .5": (lambda: field_times("hidden_dropout", 0.9), ("dropout_fcn",)),
}
PLANTS = {f"{fault}/{approach}": (fault, approach) for fault, (_, some) in FAULTS.items() for approach in some}


def main() -> int:
    """Run what is chosen and print its numbers."""
    parser = Parser(prog="python -m benchmarks.planted", description="Runs with small planted faults.")
    parser.add_argument("plants", nargs="*", metavar="FAULT/APPROACH", help=f"default: all of {', '.join(PLANTS)}")
    parser.add_argument("--seeds", type=count, default=5, metavar="N", help="how many (default: 5)")
    parser.add_argument("--save", action="store_true", help=f"keep the numbers in {RUNS.name}")
    return guarded(lambda: _main(parser.parse_args()))


def _main(given: argparse.Namespace) -> int:
    check_known("planted fault", PLANTS, *given.plants)
    if given.save:
        check_writable(RUNS.parent)  # before the runs, not after them
    for name in given.plants or PLANTS:
        fault, approach = PLANTS[name]
        found = runs(fault, approach, range(FIRST_SEED, FIRST_SEED + given.seeds))
        for one in found:
            sys.stdout.write(f"{one.fault}, {one.approach}, seed {one.seed}: {one.key} {one.value:.6g}\n")
        if given.save:
            save(found)
    return 0


def runs(fault: str, approach: str, seeds: Sequence[int]) -> list[PlantedRun]:
    """Return the numbers of the first epoch with a fault."""
    chosen = Selection(
        approaches=(approach,), recipes=("published",), protocols=("published",), seeds=tuple(seeds), profile="epoch1"
    )
    with tempfile.TemporaryDirectory(prefix="bench-planted-") as folder:
        store = Store(Path(folder))
        with FAULTS[fault][0]():  # the fault is in this process only, so "inline" trains here
            run(cells(chosen), store, Options(root=folder, retain=False), Progress({}, quiet=True), "inline")
        return [one for record in store.all_records()[0] for one in _numbers(fault, record)]


def _numbers(fault: str, record: Record) -> list[PlantedRun]:
    if record.outcome != "done":
        raise ConfigError(f"{record.approach}, seed {record.seed}, is {record.outcome}: {fault} gives no numbers")
    made, commit = now(), code_state().commit or ""
    return [
        PlantedRun(fault, record.approach, record.seed, key, value, made, commit)
        for key, value in sorted(record.epochs[0].metrics.items())
        if "/" in key and value is not None
    ]


def save(found: Sequence[PlantedRun], path: Path = RUNS) -> None:
    """Add runs to the file, in place of older ones of the same fault, approach, seed and number."""
    kept = {(one.fault, one.approach, one.seed, one.key): one for one in [*read_runs(path), *found]}
    write_rows(path, PlantedRun, [one for _, one in sorted(kept.items())])


if __name__ == "__main__":
    sys.exit(main())
