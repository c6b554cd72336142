"""A real run in a process of its own, as a user starts it: its events, its children, its end. Needs Linux's /proc."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from bench.core.canonical import canonical
from bench.core.errors import BenchError, ConfigError
from bench.core.files import PART
from bench.core.reasons import RESUMED
from bench.core.store import Store, tensor_hash

PACKAGE = Path(__file__).resolve().parents[2]  # the folder that `bench` is imported from
ORPHAN_S = 60.0  # for which a child process without its run is waited for
MIB = 2**20
PATIENCE_S = 900.0  # for anything that a run is waited for; a machine may be busy


def check_system() -> None:
    """Raise ConfigError where processes cannot be looked at."""
    if not Path("/proc/self/status").exists():
        raise ConfigError("this command looks at processes in /proc, which this system lacks; run it on Linux")


def resident_mib(pid: int | None = None) -> float:
    """Return the resident MiB of a process, by default of this one; 0 if it is gone."""
    with _gone():
        return psutil.Process(pid).memory_info().rss / MIB
    return 0.0


def peak_mib() -> float:
    """Return the most MiB that this process has had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts it in KiB


def addresses_mib() -> float:
    """Return the MiB of addresses of this process."""
    return psutil.Process().memory_info().vms / MIB


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that still live."""
    with _gone():
        return [child.pid for child in psutil.Process(pid).children() if is_alive(child.pid)]
    return []


def grandchildren(pid: int) -> list[int]:
    """Return the child processes of a run: the children of its fork server."""
    return [child for server in children(pid) for child in children(server)]


def is_alive(pid: int) -> bool:
    """Return whether a process still runs."""
    with _gone():
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def _gone() -> contextlib.suppress:
    """Let a question about a process that has just ended have no answer."""
    return contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied)


class Run:
    """A process of this package that writes events as lines of JSON; in a process group of its own."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        limit: str = "",
        path: Sequence[Path] = (),
        folder: Path | None = None,
    ) -> None:
        """Start `python ARGUMENTS` in `folder`, under a limit of `ulimit`, `path` first among its modules."""
        modules = os.pathsep.join(map(str, [*path, PACKAGE]))
        limited = ["/bin/sh", "-c", f'ulimit {limit} && exec "$@"', "sh"] if limit else []
        self.process = subprocess.Popen(
            [*limited, sys.executable, *arguments],
            stdin=subprocess.PIPE,  # ends when this process does, however it ends: see looping
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": modules},
            cwd=folder,
            start_new_session=True,
            text=True,
            errors="replace",
        )
        self.pid = self.process.pid
        self.events: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._ended = False
        self._errors: list[str] = []
        self._children_then: list[int] = []  # those that lived when this was killed
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self._errors.extend(self.process.stderr)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(ValueError), self._news:  # a line that a kill cut short
                self.events.append({"at": time.monotonic(), **json.loads(line)})
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def wait_for(self, good: Callable[[Mapping[str, Any]], bool], start: int = 0) -> int | None:
        """Return the place of the first good event from number `start`, or None if the run ended without one."""
        deadline = time.monotonic() + PATIENCE_S
        with self._news:
            while True:
                for place in range(start, len(self.events)):
                    if good(self.events[place]):
                        return place
                if self._ended:
                    return None
                if not self._news.wait(max(0.0, deadline - time.monotonic())):
                    raise BenchError(f"the run {self.pid} said nothing for {PATIENCE_S:.0f} s: {self.errors()[-500:]}")

    def kill(self, victim: str) -> bool:
        """End the `child`, the `run` itself or `all` processes with SIGKILL; return whether one was there to end."""
        self._children_then = grandchildren(self.pid)
        found = {"child": self._children_then[:1], "run": [self.pid], "all": [-self.pid]}[victim]
        killed = False
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed = True
        return killed

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise BenchError(f"the run {self.pid} did not end within {PATIENCE_S:.0f} s") from None
        if self.process.stdin is not None:
            self.process.stdin.close()
        for reader, pipe in zip(self._readers, (self.process.stdout, self.process.stderr), strict=True):
            reader.join(PATIENCE_S)
            if pipe is not None and not reader.is_alive():
                pipe.close()
        return code

    def outlived_s(self) -> float:
        """Return for how long child processes go on after their run was killed, at most `ORPHAN_S`."""
        start = time.monotonic()
        while any(map(is_alive, self._children_then)) and time.monotonic() - start < ORPHAN_S:
            time.sleep(0.01)
        return time.monotonic() - start

    def errors(self) -> str:
        """Return what the run has written on stderr so far."""
        return "".join(self._errors)

    def close(self) -> None:
        """End what is left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


NUMBERS = ("metrics", "missing", "arrays", "model", "recipe_values", "scores_sha256", "outcome")

Contents = dict[str, str]
"""What was measured or fitted, by name, as text that differs if a bit differs."""


def contents(root: Path) -> Contents:
    """Return all numbers of a results folder: every record with its curve and scores, and every fitted posterior."""
    store = Store(root)
    found = {}
    for record in store.all_records()[0]:
        epochs = [[epoch.epoch, epoch.metrics] for epoch in record.epochs]
        found[record.key] = canonical([[getattr(record, name) for name in NUMBERS], epochs])
    for path in sorted(root.glob("fits/*/posterior.safetensors")):
        read = store.read_tensors(path)
        if read is not None:
            found[path.parent.name] = tensor_hash(read[0], "")
    return found


def faults(root: Path) -> Iterator[str]:
    """Yield what is wrong with a results folder after a kill: whatever cannot be read."""
    store = Store(root)
    yield from (problem.reason for problem in store.all_records()[1])
    yield from (f"damaged: {path}" for path in root.glob("fits/*/*.safetensors") if store.read_tensors(path) is None)
    for record in store.all_records()[0]:
        if store.has_damaged_scores(record):
            yield f"damaged scores: {record.title}"


def unfinished(root: Path) -> set[Path]:
    """Return the files that killed processes were just writing."""
    return {path for path in root.rglob(".*") if PART.fullmatch(path.name)}


def differences(left: Contents, right: Contents) -> list[str]:
    """Return the names of all that is not in both folders, or differs."""
    return sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))


def resumed(root: Path) -> set[str]:
    """Return the fit keys of the records that say that their fit was interrupted."""
    records = Store(root).all_records()[0]
    return {record.fit_key for record in records if any(why.kind == RESUMED for why in record.timings.reasons)}
