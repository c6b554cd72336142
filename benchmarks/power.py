"""How likely the gate catches a fault: python -m benchmarks.power [FAULT ...] [--only APPROACH] [--save].

Plants a fault in the code, trains the gate's fresh run with it and judges that run. `--save` keeps the means under the
fault in results/reference/planted.csv and writes results/tables/gate_power, the probability to catch each fault.
Without a fault, the command only writes this table, from the kept means. Exit code 1 if a fault was not caught. Needs
the data and, for each fault, as much time as a gate with one fit at a time.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import torch
from torch import Tensor

from bench.cli import FAILED
from bench.cli.main import Parser, guarded
from bench.cli.options import threads
from bench.core.environment import code_state, now
from bench.core.errors import ConfigError, check_known
from bench.core.files import check_writable
from bench.data.splits import load_split
from bench.interface import Approach, Posterior, Split, Task
from bench.judge.gate.checks import FAIL, GateReport
from bench.judge.gate.config import GATE, Gate, load_gate
from bench.judge.gate.fresh import run_fresh
from bench.judge.gate.judge import judge
from bench.judge.gate.samples import Folder
from bench.plan.recipes import build
from bench.run import contexts, fitting, process
from bench.run.progress import Progress
from bench.show.screens import gate as screen
from bench.show.tables.files import write_tables
from bench.show.tables.render import render
from benchmarks.effects import EFFECTS, FAULTS, FaultEffect, caught, power_table, read_effects, save_effects
from implementations.dropout_fcn import DropoutPosterior


def main() -> int:
    """Run the gate with each fault and print what it says."""
    parser = Parser(prog="python -m benchmarks.power", description="How surely the gate catches planted faults.")
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"{', '.join(FAULTS)}; none: only the table")
    parser.add_argument("--only", action="append", metavar="APPROACH", help="only the cells of this approach")
    parser.add_argument("--save", action="store_true", help="keep the effects, and write the table")
    parser.add_argument("--effects", type=Path, default=EFFECTS, metavar="FILE", help=f"default: {EFFECTS.name}")
    parser.add_argument("--gate", type=Path, default=GATE, metavar="FILE", help=f"default: {GATE.name}")
    parser.add_argument("--reference", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="where the table goes")
    parser.add_argument("--threads", type=threads, help="threads of a fit (default: all cores)")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    return guarded(lambda: _main(parser.parse_args()))


def _main(given: argparse.Namespace) -> int:
    check_known("fault", FAULTS, *given.faults)
    if given.only and not given.faults:
        raise ConfigError("--only chooses the cells that a fault is planted in; name a fault too")
    gate = narrowed(load_gate(given.gate), given.only)
    if given.save:
        for folder in (given.effects.parent, given.results / "tables"):
            check_writable(folder)  # before the run, not after it
    missed = []
    for name in given.faults:
        report = measure(name, gate, given)
        sys.stdout.write(f"{FAULTS[name]}\n\n{screen.text(report)}\n")
        if FAIL not in report.states:
            missed.append(name)
        if given.save:
            save_effects(given.effects, effects_of(name, report))
    if given.save or not given.faults:
        gate = load_gate(given.gate)
        rows = caught(gate, Folder.read(given.reference, gate), read_effects(given.effects))
        if not rows:
            raise ConfigError(f"no effect of {given.effects} is of a cell with records in {given.reference}")
        table = power_table(rows)
        write_tables([table], given.results / "tables", below=given.results)
        sys.stdout.write(f"{render(table)}\n")
    return FAILED if missed else 0


def narrowed(gate: Gate, approaches: Sequence[str] | None) -> Gate:
    """Return the gate with the cells of some approaches alone; None: all of them."""
    if not approaches:
        return gate
    kept = tuple(row for row in gate.gated if row.approach in approaches)
    if not kept:
        raise ConfigError(f"no gated cell is of {', '.join(approaches)}")
    names = {cell.name for cell in gate.cells if cell.approach in approaches}
    repeated = tuple(name for name in gate.repeat.cells if name in names)
    return msgspec.structs.replace(
        gate,
        gated=kept,
        repeat=msgspec.structs.replace(gate.repeat, cells=repeated),
        waivers=tuple(waiver for waiver in gate.waivers if waiver.cell in names),
    )


def measure(name: str, gate: Gate, given: argparse.Namespace) -> GateReport:
    """Return what the gate says of a fresh run with a fault."""
    today = datetime.datetime.now(datetime.UTC).date()
    with tempfile.TemporaryDirectory(prefix="bench-power-") as folder:
        with planted(name):  # the fault is in this process only, so "inline" trains here
            run_fresh(gate, Path(folder), given.threads, Progress({}, quiet=given.quiet), executor="inline")
        return judge(gate, given.reference, Path(folder), today)


def effects_of(fault: str, report: GateReport) -> list[FaultEffect]:
    """Return the means that a report of a run with a planted fault has measured."""
    made, commit = now(), code_state().commit
    return [
        FaultEffect(fault, check.cell, check.key, check.shift.design.m, check.shift.fresh_mean, made, commit)
        for check in report.metrics
        if check.shift is not None
    ]


def planted(name: str) -> AbstractContextManager[object]:
    """Return a context in which the code of this process has the fault of that name."""
    return _PLANTS[name]()


def kl_times(factor: float) -> AbstractContextManager[object]:
    """Return a context in which the KL weighs `factor` times as much.

    The task tells the approach fewer training rows; every 1/N of an objective comes from there.
    """

    def told_fewer(*arguments: Any, **named: Any) -> Task:
        task = Task(*arguments, **named)
        return dataclasses.replace(task, n_train=max(1, int(task.n_train / factor)))

    return patch.object(fitting, "Task", told_fewer)


def field_times(name: str, factor: float) -> AbstractContextManager[object]:
    """Return a context in which a field is multiplied, in every approach that has it."""

    def build_changed(*arguments: Any) -> Approach:
        approach = build(*arguments)
        if hasattr(approach, name):  # `uniform` has no such field
            approach = dataclasses.replace(approach, **{name: factor * getattr(approach, name)})
        return approach

    return patch.object(process, "build", build_changed)


@contextlib.contextmanager
def _wrong_split() -> Iterator[None]:
    def test_rows(name: str, seed: int, data_dir: Path | None, task: str) -> Split:
        return dataclasses.replace(load_split("test10k", seed, data_dir, task), name=name)

    def of_all(name: str, seeds: Sequence[int], data_dir: Path | None, task: str) -> tuple[Split, Tensor]:
        split = test_rows(name, seeds[0], data_dir, task)
        return split, torch.arange(len(split)).expand(len(seeds), -1)

    with patch.object(fitting, "load_split", test_rows), patch.object(fitting, "load_shared", of_all):
        yield


def _dropout_on() -> AbstractContextManager[object]:
    def still_dropping(self: Posterior) -> Posterior:
        return self

    return patch.object(DropoutPosterior, "mean_network", still_dropping)


def _seed_ignored() -> AbstractContextManager[object]:
    begin = contexts.RunContext.__init__

    def begin_without(self: contexts.RunContext, *arguments: Any) -> None:
        begin(self, *arguments)
        self.seed = 0

    return patch.object(contexts.RunContext, "__init__", begin_without)


_PLANTS = {
    "kl-scale": lambda: kl_times(2),
    "learning-rate": lambda: field_times("learning_rate", 2),
    "dropout-on": _dropout_on,
    "wrong-split": _wrong_split,
    "seed-ignored": _seed_ignored,
}


if __name__ == "__main__":
    sys.exit(main())
