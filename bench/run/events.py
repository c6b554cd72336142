"""What a run tells its child processes: options. What they tell the run: events, as lines of JSON, and their output.

The field `kind` of the JSON names the type of the event; the run passes events to its watcher. Output goes to a file.
If a trained run fails, its record gets the end.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import msgspec

from bench.core.reasons import in_words
from bench.core.records import Record
from bench.core.text import FRACTION, encodable
from bench.plan import plugins
from bench.plan.recipes import profile


@dataclass(frozen=True)
class Options:
    """The options that every child process of a run gets."""

    root: str  # results folder
    data_dir: Path | None = None  # the user's folder of data sets, which is searched first
    threads: int | None = None
    retain: bool = True  # store the fitted posterior, for more protocols and for `predict`
    approaches: str = field(default_factory=plugins.path)  # $BNN_BENCH_APPROACHES
    checkpoint_every_s: float | None = None  # least time between checkpoints; None: the default of `contexts`
    memory_mib: float | None = None  # most address space of a child process
    at_once: int = 1  # fits at a time on this machine
    lacking: bool = False  # train again what lacks a metric or scores of rows


class _Event(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """Base of all events."""


class Started(_Event, frozen=True, tag="start"):
    """A child process begins a trained run."""

    key: str


class EpochEnded(_Event, frozen=True, tag="epoch"):
    """A fit has ended an epoch."""

    epoch: int
    of: int
    trace: dict[str, float | None]  # None: not finite
    seeds: int  # number of seeds in the seed batch


class Measuring(_Event, frozen=True, tag="measure"):
    """A child process measures a trained run; its fit is done."""

    key: str


class Recorded(_Event, frozen=True, tag="record"):
    """The record of a trained run is written."""

    key: str
    outcome: str
    reason: str
    was_there: bool = False
    result: str = ""  # the accuracy or the error, as text


class Warned(_Event, frozen=True, tag="warning"):
    """A fault that does not end the fit."""

    message: str


class Noted(_Event, frozen=True, tag="note"):
    """What a user may want to know; said once in a run."""

    message: str


class Waiting(_Event, frozen=True, tag="waiting"):
    """Another process works on the fit."""


class Tick(_Event, frozen=True, tag="tick"):
    """A child process is silent, but alive."""


class Ended(_Event, frozen=True, tag="end"):
    """The child process is done; nothing more comes."""

    refused: str | None = None  # why it cannot do the job


Event: TypeAlias = Started | EpochEnded | Measuring | Recorded | Warned | Noted | Waiting | Tick | Ended
Send: TypeAlias = Callable[[Event], object]

RESULT_METRICS = ("accuracy", "rmse")  # the first that a record has is its `Recorded.result`
KEPT_BYTES = 16 << 10
STDOUT, STDERR = 1, 2
_kept: list[int] = []  # STDERR, once `keep` was called
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def recorded(key: str, record: Record, was_there: bool = False) -> Recorded:
    """Return the event of a trained run's record; `was_there`: the record existed before this run."""
    return Recorded(key, record.outcome, in_words(record.reason), was_there, _result(record))


def _result(record: Record) -> str:
    """Return the accuracy, or the error of a regression, as text; '' after short epochs: their numbers say nothing."""
    if profile(record.profile).steps_per_epoch is None:
        for name in RESULT_METRICS:
            for key, value in record.metrics.items():
                if value is not None and key.rsplit("/", 1)[-1] == name:
                    return f"{name} {FRACTION.text(value)}"
    return ""


def losses(trace: Mapping[str, float]) -> dict[str, float | None]:
    """Return the numbers of an epoch for an event; None for a number that is not finite."""
    return {name: float(value) if math.isfinite(value) else None for name, value in trace.items()}


def encode(event: Event) -> bytes:
    """Return an event as JSON, without the end of the line."""
    try:
        return msgspec.json.encode(event)
    except UnicodeEncodeError:  # the name of a file that is not UTF-8
        texts = {name: value for name, value in msgspec.structs.asdict(event).items() if isinstance(value, str)}
        readable = {name: encodable(text) for name, text in texts.items()}
        return msgspec.json.encode(msgspec.structs.replace(event, **readable))


def decode(line: bytes) -> Event:
    """Return the event of a line; raises msgspec.DecodeError if the line is not an event."""
    return _decoder.decode(line)


def keep(descriptor: int) -> None:
    """Send standard output and error to a file, which is open for reading and writing; also of later subprocesses."""
    for stream in (STDOUT, STDERR):
        os.dup2(descriptor, stream)
    _kept.append(STDERR)


def printed() -> str:
    """Return the end of this process's output; '' if `keep` was not called, because the user sees the output."""
    return tail(STDERR) if _kept else ""


def tail(descriptor: int) -> str:
    """Return the last KEPT_BYTES of a file as text, without moving its position."""
    start = max(0, os.fstat(descriptor).st_size - KEPT_BYTES)
    return os.pread(descriptor, KEPT_BYTES, start).decode(errors="replace").strip()
