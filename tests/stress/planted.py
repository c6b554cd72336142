"""Planted faults in real runs: each ends as a record with a reason, and the trained runs after it are done."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.cli import INCOMPLETE
from bench.core.reasons import in_words
from bench.core.store import Store
from tests.stress import planting
from tests.stress.processes import Run

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
LARGE, LAST = "large", "orphan"  # recipes that are no faults by themselves
NOTHING = ("nothing", "")
FILES_OF_256_KIB, FILES_OF_HALF_A_KIB = "-f 512", "-f 1"  # of blocks of 512 bytes, as POSIX has it
SECONDS = "15"  # for the fit that never ends; others need one
LONGEST_ORPHAN_S = 10.0  # on a busy machine
MEMORY_MIB = "65536"  # addresses of a child process


@dataclass
class Planted:
    """What became of every fault: outcome and reason, by the fault's name."""

    ends: dict[str, tuple[str, str]] = field(default_factory=dict)
    orphan_s: float = 0.0  # for which a child process that hangs outlived its run
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the figures in words."""
        orphan = f"a child process that hangs outlived its killed run by {self.orphan_s:.2f} s"
        return [
            *(f"{name}: {outcome}, {reason}" for name, (outcome, reason) in self.ends.items()),
            f"{len(self.ends)} faults, the other trained runs went on; {orphan} ({self.seconds:.0f} s)",
        ]


def plant(names: Sequence[str], disks: bool) -> Planted:
    """Run each fault in a child process of its own, with healthy runs among them; `disks`: broken file systems too."""
    found, begin = Planted(), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bench-planted-") as name:
        folder = Path(name)
        _copy_approach(folder)
        _broken_fits(folder, names, found)
        if disks:
            _full_disk(folder, found)
            _no_permission(folder, found)
        found.ends = {what: (outcome, reason.replace(name, "...")) for what, (outcome, reason) in found.ends.items()}
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


def _run(folder: Path, results: str, recipes: Sequence[str], limit: str, *options: str) -> Run:
    """Start a run of recipes of the planted approach, in this order."""
    given = [word for recipe in recipes for word in ("--recipe", recipe)]
    arguments = ["-m", "bench", "run", "planted", *given, "--profile", "smoke", "--threads", "1", "--json", *options]
    place = ["--results", str(folder / results)]
    return Run([*arguments, *place], limit=limit, path=[folder / "modules"], folder=folder)


def _fault(name: str) -> str:
    return f"{HEALTHY}+{name}"


def _ends(run: Run) -> dict[str, tuple[str, str]]:
    """Return outcome and reason by recipe."""
    return {
        event["trained run"].split()[1].removeprefix(f"{HEALTHY}+"): (event["outcome"], event["reason"])
        for event in run.events
        if event["kind"] == "record"
    }


def _broken_fits(folder: Path, names: Sequence[str], found: Planted) -> None:
    """Run the faults, then a fit whose posterior is too large for the disk, a healthy one, and one that hangs.

    While that hangs the run is killed: the child process must not go on, since the lock of its fit is free.
    """
    recipes = [*map(_fault, names), _fault(LARGE), HEALTHY, _fault(LAST)]
    limits = ("--time-limit", SECONDS, "--memory-limit", MEMORY_MIB)
    with _run(folder, "fits", recipes, FILES_OF_256_KIB, *limits) as run:
        run.wait_for(lambda event: event["kind"] == "start" and _fault(LAST) in event["trained run"])
        run.kill("run")
        run.process.wait()
        found.orphan_s = run.outlived_s()
        run.wait()
    if "Traceback" in run.errors():
        found.faults.append(f"a traceback: {run.errors()[-500:]}")
    if found.orphan_s > LONGEST_ORPHAN_S:
        found.faults.append(f"a child process outlived its run by {found.orphan_s:.0f} s")
    ends = _ends(run)
    stored = {r.recipe.removeprefix(f"{HEALTHY}+"): r for r in Store(folder / "fits").all_records()[0]}
    for name in names:
        found.ends[name] = ends.get(name, NOTHING)
        outcome, words = OUTCOMES[name]
        if found.ends[name][0] != outcome or words not in found.ends[name][1]:
            found.faults.append(f"{name}: {found.ends[name]} instead of {outcome} with '{words}'")
        if name not in stored or in_words(stored[name].reason) != found.ends[name][1]:
            found.faults.append(f"{name}: no record has the reason")
    warned = [event["message"] for event in run.events if event["kind"] == "warning"]
    found.ends["a posterior that does not fit on the disk"] = (ends.get(LARGE, NOTHING)[0], " ".join(warned))
    if ends.get(LARGE, NOTHING)[0] != "done" or len(warned) != 1:
        found.faults.append(f"a posterior that does not fit: {ends.get(LARGE)}, warnings {warned}")
    if ends.get(HEALTHY, NOTHING)[0] != "done":
        found.faults.append(f"the trained run after the faults: {ends.get(HEALTHY)}")


def _full_disk(folder: Path, found: Planted) -> None:
    """No record can be written: every trained run says so."""
    with _run(folder, "full", [_fault(LARGE), HEALTHY], FILES_OF_HALF_A_KIB) as run:
        code = run.wait()
    _check_failures("a full disk", run, code, 2, found)


def _no_permission(folder: Path, found: Planted) -> None:
    """A file is where the folder of the records should be, which no user, not even root, can write into."""
    place = folder / "denied" / "records"
    place.parent.mkdir()
    place.write_text("in the way")
    with _run(folder, "denied", [HEALTHY], "") as run:
        code = run.wait()
    _check_failures("a folder that cannot be written", run, code, 1, found)
    if place.read_text() != "in the way":
        found.faults.append("what was in the way is gone")


def _check_failures(what: str, run: Run, code: int, n_trained_runs: int, found: Planted) -> None:
    """Ask that all trained runs have failed with a reason, in order."""
    ends = _ends(run)
    found.ends[what] = ends.get(HEALTHY, NOTHING)
    fine = len(ends) == n_trained_runs and all(outcome == "failed" and reason for outcome, reason in ends.values())
    if not fine or code != INCOMPLETE or "Traceback" in run.errors():
        found.faults.append(f"{what}: {ends}, exit code {code}, {run.errors()[-500:]}")
