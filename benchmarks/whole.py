"""A whole run from an empty folder, what `plan` said of it, and its memory: python -m benchmarks.whole NEW [PART ...].

Runs `plan` and then `run`, as a user does, in a folder of NEW for each part. What is measured already is not measured
again, so that the parts may be run on different days. Writes results/tables/whole. Needs Linux and, for an hour and a
half, a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench import environment
from bench.commands.options import count
from bench.errors import BenchError, ConfigError, unknown_name
from bench.faults.processes import PACKAGE, check_system, family, proportional_mib, worked_s
from bench.load import machine_worked_s
from bench.report.cells import THREE, WHOLE, Digits, Number, Table, make_table
from bench.report.files import write_tables
from bench.report.records import origin
from bench.report.render import render
from bench.timing import matmul_rate


@dataclass(frozen=True)
class Part:
    """What is run, and how long that may take."""

    title: str
    arguments: tuple[str, ...]
    limit_min: float


PARTS = {
    "all": Part("every cell", ("--all",), 75),
    "published": Part("the published column alone", ("--all", "--recipe", "published", "--protocol", "published"), 25),
}
LIMIT_GIB = 2.0
LIMIT_PLAN = 0.3
EVERY_S = 3.0  # between looks at the processes
FOUND = "whole.json"
TWO = Digits(decimals=2)
COLUMNS = (
    "what",
    "cells",
    "fits at a time",
    "took, min",
    "limit, min",
    "plan said, min",
    "most memory, GiB",
    "limit, GiB",
    "cores that others used",
    "products, Gflop/s",
    "missed",
)
CAPTION = (
    "One seed, from an empty results folder. Memory: of all processes of the run together, a page that several share "
    f"counted once (proportional set size), looked at every {EVERY_S:.0f} s. Cores that others used: work of other "
    "processes on the machine, mean over the run. Products: what all cores reach with one large matrix product before "
    f"it begins. The plan may be off by {LIMIT_PLAN:.0%}."
)


def main() -> None:
    """Measure what is not measured yet, write the table and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.whole", description="A whole run from an empty folder.")
    parser.add_argument("new", type=Path, metavar="NEW", help="folder for what is run; kept")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"default: {', '.join(PARTS)}")
    parser.add_argument("--workers", type=count, default=2, metavar="N", help="fits at a time (default: 2)")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    given = parser.parse_args()
    try:
        _measure(given)
    except BenchError as error:
        parser.error(str(error))


def _measure(given: argparse.Namespace) -> None:
    check_system()
    for name in given.parts:
        if name not in PARTS:
            raise unknown_name("part", name, PARTS)
    for name in given.parts or PARTS:
        folder = given.new / name
        if not (folder / FOUND).exists():
            found = part(PARTS[name], folder, given.workers)
            (folder / FOUND).write_text(json.dumps(found, indent=1) + "\n")
    made = table({name: json.loads(path.read_text()) for name in PARTS if (path := given.new / name / FOUND).exists()})
    write_tables({made.name: made}, given.results / "tables")
    sys.stdout.write(f"{render(made)}\n")


def part(which: Part, folder: Path, workers: int) -> dict[str, Any]:
    """Plan and run a part; raises ConfigError where the folder is not empty, BenchError where the run fails."""
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(
            f"{folder} is not empty, and a run that was begun does not measure a whole one; name a new one"
        )
    folder.mkdir(parents=True, exist_ok=True)
    arguments = [*which.arguments, "--seeds", "0,", "--workers", str(workers), "--results", str(folder.resolve())]
    plan = _bench(["plan", *arguments, "--json"], subprocess.PIPE)
    planned = json.loads(plan.communicate()[0])
    rate = matmul_rate(torch.device("cpu"), torch.get_num_threads())
    made = environment.describe(torch.get_num_threads())
    start, machine_s = time.monotonic(), machine_worked_s() or 0.0
    with _bench(["run", *arguments], subprocess.DEVNULL) as process:
        most_mib, own_s = watch(process)
    elapsed_s, machine_s = time.monotonic() - start, (machine_worked_s() or 0.0) - machine_s
    if process.returncode:
        raise BenchError(f"the run in {folder} ended with exit code {process.returncode}")
    return {
        "cells": len(planned["cells"]),
        "workers": workers,
        "elapsed_s": elapsed_s,
        "planned_s": planned["expected_s"],
        "memory_mib": most_mib,
        "others_cores": max(0.0, machine_s - own_s) / elapsed_s,
        "matmul_rate": rate,
        "provenance": made,
    }


def _bench(arguments: Sequence[str], output: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "bench", *arguments], stdout=output, text=True, cwd=PACKAGE)


def watch(process: subprocess.Popen[str], every_s: float = EVERY_S) -> tuple[float, float]:
    """Wait for a process; return the most MiB of it and its descendants together, and the seconds that all worked."""
    most_mib, seconds = 0.0, {}
    while True:
        alive = family(process.pid)
        most_mib = max(most_mib, sum(map(proportional_mib, alive)))
        seconds.update({pid: worked_s(pid) for pid in alive})
        try:
            process.wait(every_s)
            return most_mib, sum(seconds.values())
        except subprocess.TimeoutExpired:
            pass


def missed(found: Mapping[str, Any], limit_min: float) -> str:
    """Return which limits a part is beyond."""
    beyond = {
        "time": found["elapsed_s"] > 60 * limit_min,
        "memory": found["memory_mib"] > 1024 * LIMIT_GIB,
        "plan": abs(found["planned_s"] - found["elapsed_s"]) > LIMIT_PLAN * found["elapsed_s"],
    }
    return ", ".join(name for name in beyond if beyond[name]) or "none"


def table(parts: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the table of what `part` found, by the names of `PARTS`."""
    lines = [
        [
            PARTS[name].title,
            Number(found["cells"], WHOLE),
            Number(found["workers"], WHOLE),
            Number(found["elapsed_s"] / 60, THREE),
            Number(PARTS[name].limit_min, WHOLE),
            Number(found["planned_s"] / 60, THREE),
            Number(found["memory_mib"] / 1024, TWO),
            Number(LIMIT_GIB, WHOLE),
            Number(found["others_cores"], TWO),
            Number(found["matmul_rate"] / 1e9, WHOLE),
            missed(found, PARTS[name].limit_min),
        ]
        for name, found in parts.items()
    ]
    return make_table("whole", "A whole run", CAPTION, COLUMNS, lines, origin(list(parts.values())))


if __name__ == "__main__":
    main()
