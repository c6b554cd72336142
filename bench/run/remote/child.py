"""Start `python -m bench.run.remote` under some interpreter and listen to it. Imports the standard library alone."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from bench.core.errors import OutOfTime, StoreError, WorkerCrashed

POLL_S = 0.5
GRACE_S = 10.0
KEPT_BYTES = 4096  # of what a child that fails has printed
INSTALLED = ("site-packages", "dist-packages")
NOT_HANDED_ON = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")


def in_child(
    python: str, job: Mapping[str, Any], time_limit_s: float | None = None, environ: Mapping[str, str] | None = None
) -> Generator[dict[str, Any], None, None]:
    """Do a job under an interpreter, yielding what it tells, and {"kind": "tick"} while it is silent.

    Args:
        python: path of the interpreter; it needs the dependencies of this package, not those of any approach.
        job: see `bench.run.remote.jobs`.
        time_limit_s: most seconds, its start included.
        environ: variables of the child beside those of this process.

    Raises:
        WorkerCrashed: it does not start, refuses the job, or ends without a word.
        OutOfTime: it took longer than the limit.
        StoreError: it could not write to the store.
    """
    deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                [python, "-m", "bench.run.remote", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env=_environment(python, environ or {}),
            )
        except OSError as error:
            raise WorkerCrashed(f"interpreter {python} does not start: {error.strerror}") from error
        try:
            yield from _listen(process, job, deadline, time_limit_s, said)
        finally:
            _stop(process)


def _environment(python: str, more: Mapping[str, str]) -> dict[str, str]:
    """Return the child's variables: ours, without those that lead another interpreter to our packages."""
    same = python == sys.executable
    found = {name: value for name, value in os.environ.items() if same or name not in NOT_HANDED_ON}
    root = Path(__file__).resolve().parents[3]
    if root.name not in INSTALLED:  # a checkout: the child shall import the same one, installed there or not
        found["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), found.get("PYTHONPATH", "")]))
    return {**found, **more}


def _listen(
    process: subprocess.Popen[bytes],
    job: Mapping[str, Any],
    deadline: float | None,
    limit_s: float | None,
    said: IO[bytes],
) -> Iterator[dict[str, Any]]:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended already, and what it said tells why
        process.stdin.write(json.dumps(job).encode() + b"\n")
        process.stdin.close()
    for line in _lines(process.stdout, deadline):
        if deadline is not None and time.monotonic() > deadline:
            raise OutOfTime(f"not finished within {limit_s:.0f} s; raise --time-limit or resume by running again")
        event = {"kind": "tick"} if line is None else _parsed(line)
        if event["kind"] == "end":
            return
        if event["kind"] == "refused":
            raise WorkerCrashed(event["reason"])
        if event["kind"] == "error":
            raise StoreError(event["message"])
        yield event
    raise WorkerCrashed(_how_it_ended(process, said))


def _lines(pipe: IO[bytes], deadline: float | None) -> Iterator[bytes | None]:
    """Yield the lines of a pipe, and None when nothing came for a while."""
    kept = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            left = POLL_S if deadline is None else min(POLL_S, max(0.0, deadline - time.monotonic()))
            if not selector.select(left):
                yield None
                continue
            chunk = os.read(pipe.fileno(), 1 << 16)
            if not chunk:
                return
            *lines, kept = (kept + chunk).split(b"\n")
            yield from lines


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
        if isinstance(event["kind"], str):
            return dict(event)
    except (ValueError, TypeError, KeyError):
        pass
    raise WorkerCrashed(f"its process said what is no event: {line[:80]!r}")


def _how_it_ended(process: subprocess.Popen[bytes], said: IO[bytes]) -> str:
    try:
        code = process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        return "its process closed its output and went on"
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    said.seek(max(0, said.seek(0, os.SEEK_END) - KEPT_BYTES))
    lines = said.read().decode(errors="replace").strip().splitlines()
    last = f": {lines[-1][:200]}" if lines else ""
    return f"its process ended with exit code {code}{last}"


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdout is not None:
        process.stdout.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
        return
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
        return
    process.kill()
    process.wait()
