"""The loop of the fuzzers, and what a bad disk, a bad copy or bad intent makes of bytes and of JSON values.

Hypothesis makes the inputs from a seed, in bounded time and memory. A finding holds the smallest input that it found.
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
from hypothesis import strategies as st
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


NUMBERS = (b"\x00", b"\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff", b"\xff" * 8, b"\x00" * 8)
PATHS = (b"../", b"/etc/passwd", b"C:\\")
TEXTS = (b"", *PATHS, b"\xff\xfe", b"\xed\xa0\x80", b"\r\n", b"\x1b[2K", b"NaN", b"1e999", b"-1", b"9" * 400)
DEEP = b"[" * 3000  # deeper than any parser's stack
LARGEST = 1 << 16  # bytes of an input; longer ones are cut, so that the time goes to many

SHARES = st.floats(0, 1, exclude_max=True)

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
VALUES: tuple[Json, ...] = (
    *(None, True, -1, 0, 1.5, 2**62, 2**63, 10**400, 1e99, 1e308, -0.0),
    *("", "../../etc/passwd", "\x00", "\ud800", "x" * 5000, "\x1b[2K\rdone\x9b2J\u202etxt"),
    *([], {}, [[]], {"": 0}),
)


Edit = tuple[float, int, bytes]  # where, as a share of the length; how many bytes go; what comes instead


def damaged(corpus: Sequence[bytes], words: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """Good input, of which up to three pieces are something else: noise, a word of the format, other good input."""
    pieces = st.one_of(
        st.sampled_from((*words, *TEXTS, *NUMBERS, DEEP, *(word * 40 for word in words))),
        st.integers(0, 255).map(lambda value: bytes([value])),
        st.binary(max_size=32),
        st.tuples(st.sampled_from(corpus), SHARES).map(lambda pair: pair[0][int(pair[1] * len(pair[0])) :]),
    )
    edit = st.tuples(SHARES, st.sampled_from((0, 0, 1, 1, 1, 4, 64, LARGEST)), pieces)
    edits = st.one_of(st.tuples(edit), st.tuples(edit), st.tuples(edit, edit), st.tuples(edit, edit, edit))
    return st.one_of(st.sampled_from(corpus), *[st.builds(_edited, st.sampled_from(corpus), edits)] * 9)


def _edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    for share, length, piece in edits:
        start = int(share * (len(data) + 1))
        data = data[:start] + piece + data[start + length :]
    return data[:LARGEST]


@st.composite
def damaged_value(draw: st.DrawFn, value: Json) -> Json:
    """A JSON value of which one part, anywhere in it, is another value or gone."""
    if isinstance(value, (dict, list)) and value and draw(st.integers(0, 6)):
        copy = value.copy()
        place = draw(st.sampled_from(list(copy) if isinstance(copy, dict) else range(len(copy))))
        if draw(st.integers(0, 9)) == 9:
            del copy[place]
        else:
            copy[place] = draw(damaged_value(copy[place]))
        return copy
    return draw(st.one_of(st.sampled_from(VALUES), st.sampled_from((50, 400, 900)).map(_nested)))


def _nested(depth: int) -> Json:
    value: Json = 0
    for _ in range(depth):
        value = [value]
    return value
