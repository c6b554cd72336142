"""Which modules of the suite a run has loaded when its last record is stored: those of its process and its children."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOOK = """
import os, sys

def _note(event, arguments):
    # a child renames its record to its final name; then the run removes the note of the fit's lock
    if event not in ("os.rename", "os.remove"):
        return
    path = os.fsdecode(arguments[1 if event == "os.rename" else 0])
    if path.endswith(".json") and ("records" if event == "os.rename" else "locks") in path:
        names = [name for name in list(sys.modules) if name.split(".")[0] in ("bench", "implementations")]
        with open(os.path.join(os.environ["LOADED"], f"{event}-{os.getpid()}"), "w") as file:
            file.write("\\n".join(names))

if "LOADED" in os.environ:
    sys.addaudithook(_note)
"""


def loaded(folder: Path, *words: str) -> dict[str, set[str]]:
    """Run a command of `bench` and return the loaded modules of the run itself and of its children."""
    for name in ("hook", "found"):
        (folder / name).mkdir()
    (folder / "hook" / "sitecustomize.py").write_text(HOOK)
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [folder / "hook", ROOT])),
        "LOADED": str(folder / "found"),
    }
    command = [sys.executable, "-m", "bench", *words, "--results", str(folder / "results")]
    subprocess.run(command, check=True, env=environ, cwd=folder, capture_output=True)
    found: dict[str, set[str]] = {"run": set(), "children": set()}
    for file in (folder / "found").iterdir():
        found["run" if file.name.startswith("os.remove") else "children"].update(file.read_text().split())
    return found


def n_lines(names: set[str]) -> int:
    """Return the lines of modules' files."""
    files = [ROOT / f"{name.replace('.', '/')}.py" for name in names]
    packages = [ROOT / name.replace(".", "/") / "__init__.py" for name in names]
    return sum(len(path.read_text().splitlines()) for path in (*files, *packages) if path.is_file())
