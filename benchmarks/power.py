"""Whether the gate catches a fault in the code: python -m benchmarks.power FAULT [FAULT ...].

Plants a fault in the code of this process, makes the gate's fresh run with it and judges that run, which must fail. The
gate sees an edited recipe at once, by its key; with a fault in the code, `plan` shows no difference. Exit code 1 if a
fault was not caught. Needs the data and, for each fault, as much time as a gate with one fit at a time.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.cli import FAILED
from bench.cli.main import Parser, guarded
from bench.cli.options import threads
from bench.core.errors import check_known
from bench.interface import Approach, Posterior, Task
from bench.judge.gate.baseline import run_fresh
from bench.judge.gate.config import GATE, Gate, load_gate
from bench.judge.gate.judge import FAIL, GateReport, judge
from bench.plan.recipes import build
from bench.run import fitting, process
from bench.run.progress import Progress
from bench.show.screens import gate as screen
from implementations.dropout_fcn import DropoutPosterior

FAULTS = {
    "kl-scale": "the KL weighs twice as much",
    "learning-rate": "the learning rate is twice as high",
    "dropout-on": "dropout stays on where it should be off",
}
"""Each fault by name, with what it does."""


def main() -> int:
    """Run the gate with each fault and print what it says."""
    parser = Parser(
        prog="python -m benchmarks.power", description="Does the gate catch faults in the code?", allow_abbrev=False
    )
    parser.add_argument("faults", nargs="+", metavar="FAULT", help=", ".join(FAULTS))
    parser.add_argument("--gate", type=Path, default=GATE, metavar="FILE", help=f"default: {GATE.name}")
    parser.add_argument("--baseline", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    parser.add_argument("--threads", type=threads, help="threads of a fit (default: all cores)")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    return guarded(lambda: _main(parser.parse_args()))


def _main(given: argparse.Namespace) -> int:
    check_known("fault", FAULTS, *given.faults)
    gate = load_gate(given.gate)
    missed = []
    for name in given.faults:
        report = _measure(name, gate, given)
        sys.stdout.write(f"{FAULTS[name]}\n\n{screen.text(report)}\n")
        if FAIL not in report.states:
            missed.append(name)
    return FAILED if missed else 0


def _measure(name: str, gate: Gate, given: argparse.Namespace) -> GateReport:
    """Return what the gate says of a fresh run with a fault."""
    with tempfile.TemporaryDirectory(prefix="bench-power-") as folder:
        with planted(name):  # the fault is in this process only, so "inline" trains here
            run_fresh(gate, Path(folder), given.threads, Progress({}, quiet=given.quiet), executor="inline")
        return judge(gate, given.baseline, Path(folder))


def planted(name: str) -> AbstractContextManager[object]:
    """Return a context in which the code of this process has the fault of that name."""
    return _PLANTS[name]()


def _kl_twice() -> AbstractContextManager[object]:
    """Tell the approach half as many training rows; every 1/N of an objective comes from there."""

    def told_fewer(*arguments: Any, **named: Any) -> Task:
        task = Task(*arguments, **named)
        return dataclasses.replace(task, n_train=max(1, task.n_train // 2))

    return patch.object(fitting, "Task", told_fewer)


def _rate_twice() -> AbstractContextManager[object]:
    def build_changed(*arguments: Any) -> Approach:
        approach = build(*arguments)
        if hasattr(approach, "learning_rate"):  # `uniform` has none
            approach = dataclasses.replace(approach, learning_rate=2 * approach.learning_rate)
        return approach

    return patch.object(process, "build", build_changed)


def _dropout_on() -> AbstractContextManager[object]:
    def still_dropping(self: Posterior) -> Posterior:
        return self

    return patch.object(DropoutPosterior, "mean_network", still_dropping)


_PLANTS = {
    "kl-scale": _kl_twice,
    "learning-rate": _rate_twice,
    "dropout-on": _dropout_on,
}


if __name__ == "__main__":
    sys.exit(main())
