"""Describe the machine and the code, for the provenance of a record."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from bench.core.project import COMMIT, IS_CLONE, PACKAGE, TOP
from bench.core.records import Provenance

PACKAGES = ("torch", "numpy", "scipy", "pandas", "pyro-ppl", "mxnet", "torchvision", "safetensors")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that can change a number ('absent' where not installed)."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


@cache
def cpu_name() -> str:
    """Return the processor's name, as the system gives it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(TOP), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


class CodeState(NamedTuple):
    """The commit of the code, and whether the code (not the results) differs from it."""

    commit: str  # "" outside a git checkout
    dirty: bool


@cache
def code_state() -> CodeState:
    """Return the state of this package's code.

    A wheel has a file with the commit that it was built from. setup.py puts "+" after the commit if the files of the
    clone differed from it.
    """
    is_clone = IS_CLONE and _git("rev-parse", "--show-toplevel") == str(TOP.resolve())
    if not is_clone:  # an installed package, or unpacked sources, may lie inside an unrelated git repository
        built = COMMIT.read_text(encoding="ascii").strip() if COMMIT.is_file() else ""
        return CodeState(built.removesuffix("+"), built.endswith("+"))
    changed = _git("status", "--porcelain", "--", "bench", "implementations", "datasets", "pyproject.toml")
    return CodeState(_git("rev-parse", "HEAD"), bool(changed))


def source_hash(files: list[Path]) -> str:
    """Return the SHA-256 over the texts of source files, in the given order."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def harness_hash() -> str:
    """Return the SHA-256 over the source of `bench`, without the approaches."""
    return source_hash(sorted(PACKAGE.rglob("*.py")))


def thread_variables(threads: int | None) -> dict[str, str]:
    """Return the environment variables that limit the threads of frameworks that are imported later.

    MXNet gets half of the threads, because its Python thread works too. Without a limit, it takes half of the
    processors.

    Args:
        threads: the limit; None or 0: no limit.
    """
    if not threads:
        return {}
    return {**dict.fromkeys(THREAD_VARIABLES, str(threads)), "MXNET_OMP_MAX_THREADS": str(max(1, threads // 2))}


def load_average() -> float:
    """Return the one-minute load average, or -1 where the system has none."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return -1.0


def now() -> str:
    """Return the time in UTC, to the second, ISO 8601."""
    return datetime.now(UTC).replace(microsecond=0).isoformat()


def describe(threads: int | None) -> Provenance:
    """Return the part of the provenance that is the same for all records of a process."""
    code = code_state()
    return Provenance(
        commit=code.commit,
        dirty=code.dirty,
        versions=versions(),
        cpu=cpu_name(),
        cores=os.cpu_count(),
        threads=threads,
        platform=platform.platform(),
    )
