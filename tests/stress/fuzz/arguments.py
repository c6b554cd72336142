"""Targets among the command lines: what is typed is parsed, its cells are chosen, and commands that only read run."""

from __future__ import annotations

import argparse
import contextlib
import io
import random
from pathlib import Path

from bench.cli.main import main, make_parser, shown
from bench.cli.options import select
from bench.core.errors import BenchError
from bench.plan.recipes import PROFILES
from bench.plan.registry import manifests
from tests.stress.fuzz.engine import Reader, Target

END = b"\0"  # between two arguments: no argument can hold it
READING = ("status", "plan", "list", "table", "verdict")  # with an empty results folder


def argument_targets(folder: Path) -> list[Target]:
    """Return the targets that read command lines."""
    words = _words()
    lines = [END.join(line.encode().split()) for line in _LINES]
    return [
        Target("command lines", lines, _parse_reader(), words, share=2.0),
        Target("reading commands", lines, _command_reader(folder / "empty"), words, share=0.05),
    ]


_LINES = (
    "run --all --profile smoke --seeds 3 --threads 2 --time-limit 5 --results here --executor process",
    "run mlp linear_bbb --recipe published --protocol common --seeds 0,4,7 --device cpu --precision bf16 --apart",
    "plan --all --json --profile epoch1",
    "status mlp --recipe corrected --profile smoke",
    "table accuracy --format md --profile full",
    "verdict --json --document chopra2018",
    "throughput mlp --what train --draws 10,100 --rounds 3 --block 0.5 --images 100",
    "data verify mnist --data-dir here",
    "list --json",
)


def _words() -> tuple[bytes, ...]:
    options = [word for line in _LINES for word in line.split()]
    odd = ["cuda:0", "cuda:", "-h", "--", "99999999999999999999", "1e400", "-1", "0", "é", "=", ","]
    return tuple(END + word.encode() + END for word in dict.fromkeys([*options, *manifests(), *PROFILES, *odd]))


def _arguments(data: bytes) -> list[str]:
    """Return the arguments as the system would hand them over, bytes that are no text included."""
    return [part.decode("utf-8", "surrogateescape") for part in data.split(END) if part]


def _parse_reader() -> Reader:
    parser = make_parser()
    select(parser.parse_args(["plan", "--all"]))  # imports the frameworks, which no input is to be charged with

    def read(data: bytes, rng: random.Random) -> None:
        try:
            found = _parsed(parser, _arguments(data))
            # Choosing cells takes milliseconds for each seed, so that only some lines go so far.
            if found is not None and hasattr(found, "seeds") and len(found.seeds) <= 3 and rng.random() < 0.2:
                select(found)
        except BenchError as error:
            raise BenchError(shown(error)) from error

    return read


def _command_reader(empty: Path) -> Reader:
    parser = make_parser()
    empty.mkdir(parents=True, exist_ok=True)

    def read(data: bytes, rng: random.Random) -> None:
        del rng
        line = _arguments(data)
        try:
            found = _parsed(parser, line)
        except BenchError as error:
            raise BenchError(shown(error)) from error
        if found is None or line[0] not in READING or not _only_reads(found):
            return
        place = [] if line[0] == "list" else ["--results", str(empty)]
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            code = main([line[0], *place, *line[1:]] if "--" in line else [*line, *place])
        if code not in (0, 2, 3):
            raise AssertionError(f"exit code {code}")
        if code == 2 and len(errors.getvalue().strip().splitlines()) != 1:
            raise AssertionError(f"the error is not one line: {errors.getvalue()[:200]!r}")

    return read


def _parsed(parser: argparse.ArgumentParser, line: list[str]) -> argparse.Namespace | None:
    """Return what a line asks for, None for help; raises BenchError."""
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            return parser.parse_args(line)
    except SystemExit as end:
        if end.code:
            raise BenchError(f"exit code {end.code}") from end
        return None


def _only_reads(found: argparse.Namespace) -> bool:
    few = not hasattr(found, "seeds") or len(found.seeds) <= 3
    return few and not getattr(found, "write", False) and getattr(found, "readme", None) is None
