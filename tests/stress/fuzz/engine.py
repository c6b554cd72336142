"""The loop of the fuzzers: seeded inputs, bounded time and memory, and what is counted.

Input i of a target is a function of (seed, target, i) alone, so that a finding is made again from three words.
"""

from __future__ import annotations

import contextlib
import logging
import math
import random
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.core.errors import BenchError
from tests.stress.fuzz.mutate import mutated
from tests.stress.processes import memory_mib

HANG_S = 5.0  # of the processor, for one input
ROOM_MIB = 1024  # address space beyond what the process has when it begins
LONGEST_LINE = 2_000  # characters of an error


Reader = Callable[[bytes, random.Random], None]


@dataclass(frozen=True)
class Target:
    """Something that reads input from outside."""

    name: str
    corpus: Sequence[bytes]  # good input to start from
    read: Reader  # reads one input; a BenchError in one line is a good answer
    tokens: Sequence[bytes] = ()  # words of the format
    share: float = 1.0  # of the inputs, relative to the other targets


@dataclass(frozen=True)
class Finding:
    """An input that was not answered as it should be."""

    target: str
    index: int
    what: str


@dataclass
class Tried:
    """What fuzzing one target came to."""

    target: str
    inputs: int = 0
    accepted: int = 0  # read without an error; the rest was refused in one line
    seconds: float = 0.0
    slowest_s: float = 0.0  # processor time of one input
    peak_mib: float = 0.0  # growth of the process's largest resident memory while this target was fuzzed
    findings: list[Finding] = field(default_factory=list)


class _Hang(Exception):
    pass


def fuzz(targets: Sequence[Target], inputs: int, seed: int) -> Iterator[Tried]:
    """Give every target its share of the inputs, at least one, and yield what came of it."""
    whole = sum(target.share for target in targets)
    for target in targets:
        with _bounded_memory(), _quiet():
            tried = _fuzz_one(target, math.ceil(inputs * target.share / whole), seed)
        yield tried


def made(target: Target, index: int, seed: int) -> tuple[bytes, random.Random]:
    """Return input number `index` of a target, and the generator for what its reader draws."""
    rng = random.Random(f"{seed}/{target.name}/{index}")
    start = target.corpus[index % len(target.corpus)]
    return (start if index < len(target.corpus) else mutated(start, rng, target.corpus, target.tokens)), rng


def _fuzz_one(target: Target, inputs: int, seed: int) -> Tried:
    tried = Tried(target.name)
    before, begin = memory_mib(), time.perf_counter()
    for index in range(inputs):
        data, rng = made(target, index, seed)
        start = time.process_time()
        what = _answer(target, data, rng)
        tried.slowest_s = max(tried.slowest_s, time.process_time() - start)
        tried.inputs += 1
        tried.accepted += what is None
        if what:
            tried.findings.append(Finding(target.name, index, what))
    tried.seconds = time.perf_counter() - begin
    tried.peak_mib = memory_mib() - before
    return tried


def _answer(target: Target, data: bytes, rng: random.Random) -> str | None:
    """Return None for an accepted input, '' for one refused as it should be, and otherwise what is wrong."""
    try:
        with _time_limit():
            target.read(data, rng)
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

    def stop(*_: Any) -> None:
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
    limit = int((memory_mib("VmSize") + ROOM_MIB) * 2**20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    log = logging.getLogger("bench")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
