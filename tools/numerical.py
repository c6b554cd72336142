"""Run the tests of numbers as on other processors: `python -m tools.numerical` in every configuration.

`python -m tools.numerical NAME ...` runs some of them; `--chosen` runs one, which the commit's hash chooses, so that
all have their turn; `--list` prints their names. What follows `--` goes to pytest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from bench.core.project import TOP

TESTS = (
    *("tests/core/test_noise.py", "tests/core/test_precision.py", "tests/core/test_noise.py"),
    *("tests/implementations", "tests/measure", "tests/plan/test_golden.py"),
)
THREADS = "BNN_BENCH_TEST_THREADS"  # read by tests/conftest.py
CONFIGURATIONS = {
    "as-it-is": {},
    "torch-default": {"ATEN_CPU_CAPABILITY": "default"},
    "onednn-avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "mkl-avx2": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "mkl-sse4.2": {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "numba-generic": {"NUMBA_CPU_NAME": "generic"},
    "openblas-haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "one-thread": {THREADS: "1", "OMP_NUM_THREADS": "1"},
    "three-threads": {THREADS: "3", "OMP_NUM_THREADS": "3"},
    "all-old": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "NUMBA_CPU_NAME": "generic",
        "OPENBLAS_CORETYPE": "Haswell",
    },
}
"""Name -> environment variables of PyTorch, oneDNN, MKL, numba, OpenBLAS and OpenMP."""


def chosen() -> str:
    """Return the configuration, other than `as-it-is`, that the hash of the present commit chooses."""
    command = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True).stdout.strip()
    others = list(CONFIGURATIONS)[1:]
    return others[int(commit, 16) % len(others)]


def run(name: str, options: list[str]) -> bool:
    """Run the tests in a configuration; return whether they pass."""
    variables = CONFIGURATIONS[name]
    print(f"== {name}: {' '.join(f'{key}={value}' for key, value in variables.items())}", flush=True)
    command = [sys.executable, "-m", "pytest", *options, *TESTS]
    return subprocess.run(command, cwd=TOP, env={**os.environ, **variables}, check=False).returncode == 0


def main() -> int:
    """Run what is asked for; return 1 if a test failed, and name the configurations in which it did."""
    given = sys.argv[1:]
    end = given.index("--") if "--" in given else len(given)
    parser = argparse.ArgumentParser(prog="python -m tools.numerical", description=__doc__, allow_abbrev=False)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CONFIGURATIONS))
    parser.add_argument("--chosen", action="store_true", help="the one that the commit's hash chooses")
    parser.add_argument("--list", action="store_true", help="print the names")
    arguments = parser.parse_args(given[:end])
    if arguments.list:
        print("\n".join(CONFIGURATIONS))
        return 0
    if arguments.chosen and arguments.names:
        parser.error("--chosen takes no names: give one of the two")
    if unknown := sorted(set(arguments.names) - set(CONFIGURATIONS)):
        parser.error(f"no configuration is named {unknown[0]}; known: {', '.join(CONFIGURATIONS)}")
    names = arguments.names or ([chosen()] if arguments.chosen else list(CONFIGURATIONS))
    failed = [name for name in names if not run(name, given[end + 1 :])]
    if failed:
        print(f"failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
