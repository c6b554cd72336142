"""Planted faults in real runs: each ends as a record with a reason, and the cells after it are done."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.commands.options import INCOMPLETE
from bench.errors import BenchError
from bench.faults import planting
from bench.faults.processes import Run
from bench.store import Store

HEALTHY = "published"
OUTCOMES = {
    "exception": ("failed", "ZeroDivisionError: a planted fault"),
    "segfault": ("failed", "SIGSEGV"),
    "abort": ("failed", "SIGABRT"),
    "killed": ("failed", "SIGKILL"),
    "exit": ("failed", "exit code 3"),
    "memory": ("failed", "MemoryError"),
    "tensor-memory": ("failed", "can't allocate memory"),
    "not-a-number": ("diverged", "is nan in epoch 1"),
    "hang": ("out-of-time", "--time-limit"),
}
"""What a record says of each fault: outcome, and words of its reason."""
SECONDS = "15"  # for the fit that never ends; others need one
LONGEST_ORPHAN_S = 10.0  # on a busy machine
MEMORY_MIB = "65536"  # addresses of a worker


@dataclass
class Planted:
    """What became of every fault: outcome and reason, by the fault's name."""

    ends: dict[str, tuple[str, str]] = field(default_factory=dict)
    orphan_s: float = 0.0  # for which a worker that hangs outlived its run
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the figures for a file."""
        return asdict(self)


def plant(names: Sequence[str] = tuple(OUTCOMES)) -> Planted:
    """Run each fault in a worker of its own, and broken file systems; the healthy cell comes last each time."""
    found, begin = Planted(), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bench-planted-") as name:
        folder = Path(name)
        _copy_approach(folder)
        _broken_fits(folder, names, found)
        _full_disk(folder, found)
        _small_disk(folder, found)
        _no_permission(folder, found)
        _orphan(folder, found)
    found.seconds = time.perf_counter() - begin
    return found


def _copy_approach(folder: Path) -> None:
    """Put the planted approach where a run that starts in `folder` finds its approaches."""
    place = folder / "modules" / "implementations"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text('"""Planted."""\n')
    (source,) = planting.__path__
    for name in ("planted.py", "planted.toml"):
        shutil.copy(Path(source) / name, place / name)


def _run(folder: Path, results: str, recipes: Sequence[str], limit: str = "", *options: str) -> tuple[Run, int]:
    """Run recipes of the planted approach, the healthy one last, and return the ended run and its exit code."""
    given = [word for recipe in [*recipes, HEALTHY] for word in ("--recipe", recipe)]
    arguments = ["-m", "bench", "run", "planted", *given, "--profile", "smoke", "--threads", "1", "--json", *options]
    place = ["--results", str(folder / results)]
    with Run([*arguments, *place], limit=limit, path=[folder / "modules"], folder=folder) as run:
        code = run.wait()
        if "Traceback" in run.errors():
            raise BenchError(f"a traceback in a run with planted faults: {run.errors()[-500:]}")
    return run, code


def _ends(run: Run) -> dict[str, tuple[str, str]]:
    """Return outcome and reason by recipe."""
    return {
        event["cell"].split()[1].removeprefix(f"{HEALTHY}+"): (event["outcome"], event["reason"])
        for event in run.events
        if event["kind"] == "record"
    }


def _broken_fits(folder: Path, names: Sequence[str], found: Planted) -> None:
    limits = ("--time-limit", SECONDS, "--memory-limit", MEMORY_MIB)
    run, code = _run(folder, "fits", [f"{HEALTHY}+{name}" for name in names], "", *limits)
    ends = _ends(run)
    stored = {r["recipe"].removeprefix(f"{HEALTHY}+"): r for r in Store(folder / "fits").all_records()[0]}
    for name in names:
        found.ends[name] = ends.get(name, ("nothing", ""))
        outcome, words = OUTCOMES[name]
        if found.ends[name][0] != outcome or words not in found.ends[name][1]:
            found.faults.append(f"{name}: {found.ends[name]} instead of {outcome} with '{words}'")
        if stored.get(name, {}).get("reason") != found.ends[name][1]:
            found.faults.append(f"{name}: no record has the reason")
    _check_healthy("planted fits", ends, code, found)


def _full_disk(folder: Path, found: Planted) -> None:
    """Not a byte can be written: every cell says so."""
    run, code = _run(folder, "full", [f"{HEALTHY}+large"], "-f 0")
    ends = _ends(run)
    found.ends["no byte can be written"] = ends.get(HEALTHY, ("nothing", ""))
    if code != INCOMPLETE or {outcome for outcome, _ in ends.values()} != {"failed"} or len(ends) != 2:
        found.faults.append(f"no byte can be written: {ends}, exit code {code}")


def _small_disk(folder: Path, found: Planted) -> None:
    """Records can be written, a posterior of one MiB cannot: its cell is measured all the same, with a warning."""
    run, code = _run(folder, "small", [f"{HEALTHY}+large"], "-f 512")  # of 512 or 1024 bytes, as the shell counts
    ends = _ends(run)
    warned = [event["message"] for event in run.events if event["kind"] == "warning"]
    found.ends["the posterior does not fit"] = (ends.get("large", ("nothing", ""))[0], " ".join(warned))
    if code or not warned or {outcome for outcome, _ in ends.values()} != {"done"}:
        found.faults.append(f"the posterior does not fit: {ends}, warnings {warned}, exit code {code}")


def _no_permission(folder: Path, found: Planted) -> None:
    """A file is where the folder of the records should be, which no user, not even root, can write into."""
    place = folder / "denied" / "records"
    place.parent.mkdir()
    place.write_text("in the way")
    run, code = _run(folder, "denied", [])
    ends = _ends(run)
    found.ends["records cannot be written"] = ends.get(HEALTHY, ("nothing", ""))
    if code != INCOMPLETE or ends.get(HEALTHY, ("",))[0] != "failed" or place.read_text() != "in the way":
        found.faults.append(f"records cannot be written: {ends}, exit code {code}")


def _orphan(folder: Path, found: Planted) -> None:
    """A run is killed while its worker hangs: the worker must not go on, since the lock of its fit is free."""
    arguments = ["-m", "bench", "run", "planted", "--recipe", f"{HEALTHY}+hang", "--profile", "smoke", "--json"]
    with Run([*arguments, "--results", str(folder / "orphan")], path=[folder / "modules"], folder=folder) as run:
        run.wait_for(lambda event: event["kind"] == "start")
        run.kill("run")
        run.process.wait()
        found.orphan_s = run.outlived_s()
    if found.orphan_s > LONGEST_ORPHAN_S:
        found.faults.append(f"a worker outlived its run by {found.orphan_s:.0f} s")


def _check_healthy(what: str, ends: dict[str, tuple[str, str]], code: int, found: Planted) -> None:
    if ends.get(HEALTHY, ("",))[0] != "done" or code != INCOMPLETE:
        found.faults.append(f"{what}: the cell after them is {ends.get(HEALTHY)}, exit code {code}")
