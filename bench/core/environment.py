"""Describe the machine and the code, for the provenance of a record; tell whether other processes disturbed a time.

The load average is too coarse. It covers a minute, so it still contains the previous fit; and on several cores one more
process is within any margin. Instead, `OtherLoad` takes the system's count of working seconds and subtracts the seconds
of this process and of its ended children.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import resource
import subprocess
import time
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.core.project import COMMIT, IS_CLONE, PACKAGE, TOP
from bench.core.reasons import OTHER_LOAD, Reason
from bench.core.records import Provenance

PACKAGES = ("torch", "numpy", "scipy", "pandas", "pyro-ppl", "mxnet", "torchvision", "safetensors")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
OTHERS_MARGIN = 0.2  # of one core: ten times what the system itself and the run's parent process take
COARSE_S = 0.1  # tolerance: both counts move in ticks of 10 ms, for each core
LOAD_MARGIN = 0.75  # allowed load average beyond this process's threads, on systems without the count
WATCH_S = 0.3
BUSY_MARGIN = 0.5  # of one core: above it, a thread becomes visibly slower
REASON = Reason(OTHER_LOAD)
_WORKING = ("user", "nice", "system", "irq", "softirq", "steal")  # kinds of time that are not idle; guests are in user


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


def usable_threads() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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


class OtherLoad:
    """Tells whether other processes disturbed the times since it was made."""

    def __init__(self, threads: int) -> None:
        """Begin; `threads` of the timed work may add to the load average."""
        self._threads = threads
        self._load_before = load_average()
        self._start = time.monotonic()
        self._others_before = _others_s()

    def reasons(self) -> list[Reason]:
        """Return why the times since the beginning do not count; [] if they count."""
        others_s, elapsed_s = _others_s(), time.monotonic() - self._start
        if others_s is None or self._others_before is None:
            load = max(self._load_before, load_average())
            return [REASON] if load > self._threads + LOAD_MARGIN else []
        return [REASON] if others_s - self._others_before > OTHERS_MARGIN * elapsed_s + COARSE_S else []


def busy_cores(threads: int) -> float | None:
    """Return how many cores other processes keep busy; None if enough are left for `threads`, or if it is not known.

    This process sleeps while it counts, so that its own work is not counted.
    """
    before, start = machine_worked_s(), time.monotonic()
    time.sleep(WATCH_S)
    after, elapsed_s = machine_worked_s(), time.monotonic() - start
    cores = psutil.cpu_count()
    if before is None or after is None or cores is None:
        return None
    busy = (after - before) / elapsed_s
    return busy if busy > max(0, cores - threads) + BUSY_MARGIN else None


def machine_worked_s() -> float | None:
    """Return the seconds, over all cores, that the machine has worked since it started; None if not known."""
    try:
        times = psutil.cpu_times()
    except (OSError, ValueError, RuntimeError):  # for example in a container without /proc/stat
        return None
    return float(sum(getattr(times, kind, 0.0) for kind in _WORKING))


def _others_s() -> float | None:
    """Return the seconds that other processes have worked since the machine started; None if not known."""
    worked = machine_worked_s()
    return None if worked is None else worked - _own_s()


def _own_s() -> float:
    """Return the seconds, over all cores, that this process and its ended children have worked."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)
