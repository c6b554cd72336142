"""The loop of the fuzzers: inputs that hypothesis makes from a seed, bounded time and memory, and what is counted.

A finding holds the smallest input that hypothesis found to show it.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis.errors import Flaky
from hypothesis.strategies import SearchStrategy

from bench.core.errors import BenchError
from tests.stress.processes import addresses_mib, peak_mib

HANG_S = 5.0  # of the processor, for one input
ROOM_MIB = 1024  # address space beyond what the process has when it begins
LONGEST_LINE = 2_000  # characters of an error
SHOWN = 300  # characters of an input in a finding
BATCH = 1_000  # inputs that hypothesis remembers: its memory must not grow with the campaign


@dataclass(frozen=True)
class Target:
    """Something that reads input from outside."""

    name: str
    inputs: SearchStrategy[Any]
    read: Callable[[Any], object]  # reads one input; a BenchError in one line is a good answer
    share: float = 1.0  # of the inputs, relative to the other targets; those of a campaign add up to about 100


@dataclass
class Tried:
    """What fuzzing one target came to."""

    target: str
    inputs: int = 0
    accepted: int = 0  # read without an error; the rest was refused in one line
    seconds: float = 0.0
    slowest_s: float = 0.0  # of the processor, for one input
    peak_mib: float = 0.0  # growth of the process's largest resident memory while this target was fuzzed
    findings: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Return the figures in words."""
        return (
            f"{self.target}: {self.inputs:,} inputs, {self.accepted:,} accepted, the rest refused in one line; "
            f"slowest {self.slowest_s * 1000:.0f} ms, memory +{self.peak_mib:.0f} MiB"
        )


class _Found(Exception):
    """An input was not answered as it should be."""


class _Hang(Exception):
    pass


def fuzz(targets: Sequence[Target], inputs: int, run_seed: int) -> Iterator[Tried]:
    """Give every target its share of the inputs, at least one, and yield what came of it.

    A target may have fewer inputs than its share. The targets after it share what it leaves.
    """
    left, shares = inputs, sum(target.share for target in targets)
    for target in targets:
        with _bounded_memory(), _quiet(), _without_syncing():
            asked = max(1, math.ceil(left * target.share / shares))
            tried = _fuzz_one(target, asked, run_seed)
        left, shares = max(0, left - min(asked, tried.inputs)), shares - target.share
        yield tried


def _fuzz_one(target: Target, inputs: int, run_seed: int) -> Tried:
    tried = Tried(target.name)
    before, begin = peak_mib(), time.perf_counter()

    def one(data: Any) -> None:
        start = time.process_time()
        what = _answer(target, data)
        tried.slowest_s = max(tried.slowest_s, time.process_time() - start)
        tried.inputs += 1
        tried.accepted += what is None
        if what:
            raise _Found(f"{what}; input {data!r:.{SHOWN}}")

    for first in range(0, inputs, BATCH):
        batch = settings(
            max_examples=min(BATCH, inputs - first),
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )(seed(f"{run_seed}/{target.name}/{first}")(given(target.inputs)(one)))
        try:
            batch()
        except _Found as error:
            tried.findings.append(str(error))
        except Flaky as error:  # its own text holds the whole input, which may be megabytes
            seen = [str(one)[: 2 * SHOWN] for one in error.exceptions]
            tried.findings.append(f"only once, not when the same input came again: {'; '.join(seen)}")
    tried.seconds = time.perf_counter() - begin
    tried.peak_mib = peak_mib() - before
    return tried


def _answer(target: Target, data: object) -> str | None:
    """Return None for an accepted input, '' for one refused as it should be, and otherwise what is wrong."""
    try:
        with _time_limit():
            target.read(data)
    except BenchError as error:
        text = str(error)
        if not text or "\n" in text or len(text) > LONGEST_LINE:
            return f"the error is not one line: {text[:200]!r}"
        return ""
    except _Hang:
        return f"not answered within {HANG_S:.0f} s"
    except (Exception, SystemExit) as error:  # noqa: BLE001 - this is what is looked for
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:200]} ({Path(place.filename).name}:{place.lineno})"
    return None


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    """Raise _Hang when the block has used the processor for `HANG_S`; other load on the machine does not count."""

    def stop(*_: object) -> None:
        raise _Hang

    old = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, old)


@contextlib.contextmanager
def _bounded_memory() -> Iterator[None]:
    """Let the block have `ROOM_MIB` more: an input that asks for gigabytes meets a MemoryError, which is a finding."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int((addresses_mib() + ROOM_MIB) * 2**20), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def _without_syncing() -> Iterator[None]:
    """Leave out the syncing of files, which takes most of the time of a write: no input is a power cut."""
    sync, os.fsync = os.fsync, lambda handle: None
    try:
        yield
    finally:
        os.fsync = sync


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    log = logging.getLogger("bench")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
