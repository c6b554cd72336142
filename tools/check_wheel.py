"""Check that a wheel of this project works on its own: `python -m tools.check_wheel`; it takes a few minutes.

Builds the wheel, installs it with the constraints into an empty environment, and runs the commands in an empty folder.
The auditor is tried in two more environments, without the wheel's dependencies: beside NumPy, and beside PyTorch too.
The commands may write into that folder only: the installed package and the home folder must have the same files before
and after, except caches of compiled code.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image, ImageDraw

TOP = Path(__file__).resolve().parents[1]
CACHES = ("__pycache__", ".nbi", ".nbc")  # compiled code of Python and of numba
COMMANDS = (
    "list",
    "env",
    "plan mlp",
    "plan mlp --profile smoke --results R",
    "run mlp --profile smoke --results R --quiet",
    "status mlp --profile smoke --results R",
    "verdict",
    "verdict --results R --profile smoke",
    "table",
    "table refusal --results R",
    "table calibration --results R --profile smoke --only mine",
    "ablation mlp",
    "predict three.png",
    "predict three.png --recipe corrected --figure answers.png",
    "figures --list",
    "figures mistakes",
    "report",
    "table --write",
    "ablation mlp --write",
    "audit --rules",
    "audit records",
    "compare R R",
    "new my_cnn",
    "run my_cnn --approach-path . --profile smoke --results R --quiet",
)
REFUSED = (
    "baseline epoch1 --run",
    "data fetch notmnist459 --from .",
    "run mlp --profile smoke --results {shipped}",
)
"""Commands that would write into the installed package. Each must end with one line and exit code 2."""


def main() -> int:
    """Check the wheel; return 0 if all is well."""
    with tempfile.TemporaryDirectory(prefix="bnn-bench-wheel-") as made:
        place = Path(made)
        program = _installed(place)
        failures = _auditor_alone(place)
        folder = place / "empty"
        home = place / "home"
        folder.mkdir()
        home.mkdir()
        _draw_three(folder / "three.png")
        packages = next((place / "venv" / "lib").glob("python*")) / "site-packages"
        before = {**_hashes(packages), **_hashes(home)}
        failures += [text for command in COMMANDS if (text := _failure(program, command, folder, home))]
        shipped = packages / "bench" / "_data" / "results"
        for command in REFUSED:
            failures += _not_refused(program, command.format(shipped=shipped), folder, home)
        after = {**_hashes(packages), **_hashes(home)}
        changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        failures += [f"written outside of the folder: {name}" for name in sorted(changed)]
    print("\n".join(["", *failures, f"{len(failures)} failures"]))
    return 1 if failures else 0


def _installed(place: Path) -> Path:
    """Build and install the wheel, and return the command that it brings."""
    _must([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(place), str(TOP)])
    (wheel,) = place.glob("*.whl")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    _must([sys.executable, "-m", "venv", str(place / "venv")])
    python = place / "venv" / "bin" / "python"
    constraints = str(TOP / "constraints.txt")
    _must([str(python), "-m", "pip", "install", "-q", "-c", constraints, f"{wheel}[pyro]"])
    return place / "venv" / "bin" / "bnn-bench"


def _auditor_alone(place: Path) -> list[str]:
    """Run an audit beside NumPy alone, then the first example of docs/elbo-audit.md beside PyTorch and NumPy."""
    (wheel,) = place.glob("*.whl")
    example = place / "example.py"
    example.write_text((TOP / "docs" / "elbo-audit.md").read_text().split("```python\n")[1].split("```")[0])
    small = TOP / "tests" / "elbo_audit" / "quadratic.py"
    failures = []
    for name, needs, program in (("numpy", ["numpy"], small), ("torch", ["numpy", "torch"], example)):
        python = place / name / "bin" / "python"
        _must([sys.executable, "-m", "venv", str(place / name)])
        _must([str(python), "-m", "pip", "install", "-q", "-c", str(TOP / "constraints.txt"), *needs])
        _must([str(python), "-m", "pip", "install", "-q", "--no-deps", str(wheel)])
        done = subprocess.run([str(python), str(program)], cwd=place, capture_output=True, text=True, check=False)
        if done.returncode or "kl-scale" not in done.stdout:
            failures.append(f"an audit beside {' and '.join(needs)}: exit code {done.returncode}\n{done.stderr}")
    return failures


def _must(words: list[str]) -> None:
    print(" ".join(words), flush=True)
    subprocess.run(words, check=True)


def _draw_three(path: Path) -> None:
    """Draw a digit as two half circles, black on white."""
    image = Image.new("L", (200, 280), 255)
    pen = ImageDraw.Draw(image)
    for top in (30, 130):
        pen.arc((50, top, 150, top + 110), -150, 120, fill=0, width=18)
    image.save(path)


def _run(program: Path, command: str, folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    start = time.monotonic()
    settings = {**os.environ, "HOME": str(home), "MPLCONFIGDIR": str(folder / ".matplotlib")}
    settings = {name: value for name, value in settings.items() if not name.startswith(("PYTHON", "BNN_BENCH"))}
    words = [str(program), *command.split()]
    done = subprocess.run(words, cwd=folder, env=settings, capture_output=True, text=True, check=False)
    print(f"bnn-bench {command}: exit code {done.returncode}, {time.monotonic() - start:.1f} s", flush=True)
    return done


def _failure(program: Path, command: str, folder: Path, home: Path) -> str:
    """Return what is wrong with how a command ended, '' if nothing."""
    done = _run(program, command, folder, home)
    return "" if done.returncode == 0 else f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}"


def _not_refused(program: Path, command: str, folder: Path, home: Path) -> list[str]:
    """Return what is wrong with how a command was refused."""
    done = _run(program, command, folder, home)
    is_line = done.stderr.count("\n") == 1 and done.stderr.startswith("error: ")
    return [] if done.returncode == 2 and is_line else [f"{command}: exit code {done.returncode}\n{done.stderr}"]


def _hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder, without caches."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.endswith(CACHES) for part in path.parts)
    }


if __name__ == "__main__":
    sys.exit(main())
