"""Time and memory of a whole run from an empty folder, and what `plan` said: python -m benchmarks.whole NEW [PART ...].

Runs `plan` and then `run`, as a user does, in a folder of NEW for each part. A part that is measured already is not
measured again, so that the parts may be run on different days. Writes results/tables/whole. Needs Linux and, for an
hour and a half, a quiet machine.

This module imports no framework, and imports the code of tables only at the end: pages of memory that the run shared
with this process would count only in part.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bench.cli.main import Parser, guarded
from bench.cli.options import count
from bench.core.canonical import plain
from bench.core.errors import BenchError, ConfigError, check_known
from bench.core.files import check_writable, write_atomically
from bench.core.load import OTHERS_MARGIN, machine_worked_s
from bench.core.records import Provenance
from bench.core.sealed import read_json
from bench.core.store import Store
from bench.core.text import THREE, WHOLE, Digits
from tests.stress.processes import check_system, family, proportional_mib, worked_s

if TYPE_CHECKING:
    from bench.show.table import Table


@dataclass(frozen=True)
class Part:
    """A part of the suite that is run, and how long it may take."""

    title: str
    arguments: tuple[str, ...]
    limit_min: float


PARTS = {
    "all": Part("every cell", ("--all",), 75),
    "published": Part("the published column alone", ("--all", "--recipe", "published", "--protocol", "published"), 25),
}
LIMIT_GIB = 2.0
LIMIT_PLAN = 0.3
EVERY_S = 3.0  # seconds between two readings of the memory
RATE = (  # runs in a process of its own, because it needs a framework
    "import torch; from bench.core.timing import matmul_rate;"
    "print(matmul_rate(torch.device('cpu'), torch.get_num_threads()))"
)
COLUMNS = (
    "what",
    "cells",
    "fits at a time",
    "took, min",
    "at most, min",
    "plan said, min",
    "memory, GiB",
    "at most, GiB",
    "cores that others used",
    "products, Gflop/s",
    "beyond its limit",
)
CAPTION = (
    "One seed, from an empty results folder. Memory: the most that all processes of the run had together, a page that "
    f"several of them share counted once (proportional set size), read every {EVERY_S:.0f} s. Cores that others used: "
    "work of other processes on the machine, mean over the run. Products: what all cores reach with one large matrix "
    "product before the run begins. The limits are our own, for two cores; what `plan` said may be off by "
    f"{100 * LIMIT_PLAN:.0f} %."
)


def main() -> int:
    """Measure the parts that are not measured yet, write the table and print it; return the exit code."""
    parser = Parser(prog="python -m benchmarks.whole", description="A whole run from an empty folder.")
    parser.add_argument("new", type=Path, metavar="NEW", help="folder for what is run; kept")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"default: {', '.join(PARTS)}")
    parser.add_argument("--workers", type=count, default=2, metavar="N", help="fits at a time (default: 2)")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    return guarded(lambda: _measure(parser.parse_args()))


def _measure(given: argparse.Namespace) -> int:
    check_known("part", PARTS, *given.parts)
    _check_machine()
    check_writable(given.results / "tables")
    to_do = [name for name in given.parts or PARTS if not _file(given.new, name, given.workers).exists()]
    for name in to_do:
        _check_empty(_file(given.new, name, given.workers).with_suffix(""))
    for name in to_do:
        file = _file(given.new, name, given.workers)
        try:
            found = measure(name, file.with_suffix(""), given.workers)
        except KeyboardInterrupt:
            raise BenchError(f"interrupted; remove {file.with_suffix('')} to measure it anew") from None
        write_atomically(file, json.dumps(found, indent=1).encode())
    files = [file for name in PARTS for file in sorted(given.new.glob(f"{name}-*.json"))]
    made = table([read_json(file, "measurement") for file in files])
    from bench.show.tables.files import write_tables  # here: see the top of this file
    from bench.show.tables.render import render

    write_tables([made], given.results / "tables", below=given.results)
    sys.stdout.write(f"{render(made)}\n")
    return 0


def _file(new: Path, name: str, workers: int) -> Path:
    """Return the file of a part's measurement; its path without the ending is the folder of the run."""
    return new / f"{name}-{workers}.json"


def _check_machine() -> None:
    check_system()
    if not proportional_mib(os.getpid()) or machine_worked_s() is None:
        raise ConfigError("this system does not say what processes share (smaps_rollup) or what all work (/proc/stat)")


def _check_empty(folder: Path) -> None:
    check_writable(folder)
    if any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty, so the run would not be a whole one; remove it")


def measure(name: str, folder: Path, workers: int) -> dict[str, Any]:
    """Plan and run a part in an empty folder; raises ConfigError where a cell cannot run, BenchError if one fails."""
    arguments = [*PARTS[name].arguments, "--workers", str(workers), "--results", str(folder)]
    planned = json.loads(_output(["-m", "bench", "plan", *arguments, "--json"]))
    cannot = [row["cell"] for row in planned["cells"] if row["state"] == "cannot run here"]
    if cannot or planned["cells_of_unknown_length"]:
        raise ConfigError(f"{cannot[0] if cannot else 'a cell without known length'} would not be measured; see `plan`")
    rate = float(_output(["-c", RATE]))
    start, machine_s = time.monotonic(), machine_worked_s() or 0.0
    with subprocess.Popen([sys.executable, "-m", "bench", "run", *arguments], stdout=subprocess.DEVNULL) as process:
        memory_mib, ours_s = watch(process)
    elapsed_s = time.monotonic() - start
    if process.returncode:
        raise BenchError(f"the run in {folder} ended with exit code {process.returncode}")
    others_s = (machine_worked_s() or 0.0) - machine_s - ours_s
    records = Store(folder).all_records()[0]
    return {
        "part": name,
        "cells": len(records),
        "workers": workers,
        "elapsed_s": elapsed_s,
        "planned_s": planned["expected_s"],
        "memory_mib": memory_mib,
        "others_cores": max(0.0, others_s) / elapsed_s,
        "matmul_rate": rate,
        "provenance": [plain(record.provenance) for record in records],
    }


def _output(arguments: Sequence[str]) -> str:
    found = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode:
        raise BenchError(f"python {' '.join(arguments)} ended with exit code {found.returncode}")
    return found.stdout


def watch(process: subprocess.Popen[bytes], every_s: float = EVERY_S) -> tuple[float, float]:
    """Wait for a process; return the largest memory of it and its descendants together, MiB, and their seconds of work.

    The seconds include the work of this process. A parent is read before its children. So a child that ends meanwhile
    may be missed in one reading, but is never counted twice; the largest reading makes up for that.
    """
    before_s = worked_s(os.getpid())
    memory_mib, seconds = 0.0, 0.0
    while process.returncode is None:
        run = family(process.pid)
        seconds = max(seconds, sum(map(worked_s, [os.getpid(), *run])) - before_s)
        memory_mib = max(memory_mib, sum(map(proportional_mib, run)))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(every_s)
    return memory_mib, max(seconds, worked_s(os.getpid()) - before_s)


def beyond(found: Mapping[str, Any]) -> str:
    """Return the limits that a measurement exceeds, "none" if there are none."""
    wrong = {
        "time": found["elapsed_s"] > 60 * PARTS[found["part"]].limit_min,
        "memory": found["memory_mib"] > 1024 * LIMIT_GIB,
        "plan": abs(found["planned_s"] - found["elapsed_s"]) > LIMIT_PLAN * found["elapsed_s"],
    }
    return ", ".join(name for name in wrong if wrong[name]) or "none"


def table(measured: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of what `measure` found."""
    from bench.judge.results import origin_of  # here: see the top of this file
    from bench.show.table import Number, Table

    lines = [
        [
            PARTS[found["part"]].title,
            Number(found["cells"], WHOLE),
            Number(found["workers"], WHOLE),
            Number(found["elapsed_s"] / 60, THREE),
            Number(PARTS[found["part"]].limit_min, WHOLE),
            Number(found["planned_s"] / 60, THREE),
            Number(found["memory_mib"] / 1024, THREE),
            Number(LIMIT_GIB, WHOLE),
            Number(found["others_cores"], Digits(decimals=2)),
            Number(found["matmul_rate"] / 1e9, WHOLE),
            beyond(found),
        ]
        for found in measured
    ]
    disturbed = [
        f"The time of {PARTS[found['part']].title}, {found['workers']} at a time, does not count: other work beside it."
        for found in measured
        if found["others_cores"] > OTHERS_MARGIN
    ]
    made = [msgspec.convert(one, Provenance) for found in measured for one in found["provenance"]]
    return Table("whole", "A whole run", CAPTION, COLUMNS, lines, [*disturbed, *origin_of(made)])


if __name__ == "__main__":
    sys.exit(main())
