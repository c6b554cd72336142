"""A run loads and calls few modules of the suite: what judges and shows is imported after the last record is stored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
HOOK = """
import os, sys, threading

SUITE = ("bench", "implementations")
CO_OPTIMIZED = 1  # a function's code has it; that of a class or a module has not
called = set()

def _call(frame, event, argument):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and frame.f_code.co_flags & CO_OPTIMIZED and name.split(".")[0] in SUITE:
        called.add(name)

def _note(event, arguments):
    # a child renames its record to its final name; then the run removes the note of the fit's lock
    if event not in ("os.rename", "os.remove"):
        return
    path = os.fsdecode(arguments[1 if event == "os.rename" else 0])
    if path.endswith(".json") and ("records" if event == "os.rename" else "locks") in path:
        names = [name for name in list(sys.modules) if name.split(".")[0] in SUITE]
        for kind, found in (("loaded", names), ("called", called)):
            with open(os.path.join(os.environ["FOUND"], f"{kind}-{event}-{os.getpid()}"), "w") as file:
                file.write("\\n".join(found))

if "FOUND" in os.environ:
    sys.addaudithook(_note)
    threading.setprofile(_call)
    sys.setprofile(_call)
"""


class Modules(NamedTuple):
    """Names of modules."""

    of_run: set[str]  # loaded by the run's own process
    of_children: set[str]  # loaded by the processes that train
    called: set[str]  # of which a function was called, by any of them


def modules(folder: Path, *words: str) -> Modules:
    """Run a command of `bench` and return the modules that it has loaded and called."""
    for name in ("hook", "found"):
        (folder / name).mkdir()
    (folder / "hook" / "sitecustomize.py").write_text(HOOK)
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [folder / "hook", ROOT])),
        "FOUND": str(folder / "found"),
    }
    command = [sys.executable, "-m", "bench", *words, "--results", str(folder / "results")]
    subprocess.run(command, check=True, env=environ, cwd=folder, capture_output=True)
    found = Modules(set(), set(), set())
    for file in (folder / "found").iterdir():
        kind, event, _ = file.name.split("-")
        at_work = found.called if kind == "called" else found.of_run if event == "os.remove" else found.of_children
        at_work.update(file.read_text().split())
    return found


def n_lines(names: set[str]) -> int:
    """Return the lines of modules' files."""
    files = [ROOT / f"{name.replace('.', '/')}.py" for name in names]
    packages = [ROOT / name.replace(".", "/") / "__init__.py" for name in names]
    return sum(len(path.read_text().splitlines()) for path in (*files, *packages) if path.is_file())


MOST_MODULES, MOST_LINES, MOST_CALLED = 85, 10_000, 60
AFTER = ("bench.judge", "bench.show", "bench.api", "bench.run.remote", "bench.cli.table", "bench.cli.ending")
AFTER += ("bench.run.scoring", "bench.measure.given", "bench.cli.data", "bench.run.own", "bench.cli.new")


def test_a_run_loads_and_calls_what_training_measuring_and_storing_need(tmp_path):
    found = modules(tmp_path, "run", "mlp", "--profile", "smoke")
    assert {"bench.cli.run", "bench.run.supervisor"} <= found.of_run
    assert {"bench.run.process", "bench.measure.protocols", "implementations.mlp"} <= found.of_children
    every = found.of_run | found.of_children
    assert [name for name in sorted(every) if name.startswith(AFTER)] == []
    assert len(every) <= MOST_MODULES, sorted(every)
    assert n_lines(every) <= MOST_LINES
    assert {"bench.run.supervisor", "bench.run.child", "implementations.mlp"} <= found.called
    assert len(found.called) <= MOST_CALLED, sorted(found.called)
