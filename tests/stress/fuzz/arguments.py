"""Targets: command lines. What is typed is parsed, trained runs are selected, and commands that only read run."""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

from bench.cli.main import main, parse
from bench.cli.options import select
from bench.core.errors import BenchError
from bench.core.text import one_line
from bench.plan.recipes import PROFILES
from bench.plan.registry import manifests
from tests.stress.fuzz.engine import Target, damaged

END = b"\0"  # between two arguments: no argument can hold it
READING = ("status", "plan", "list", "table", "verdict")  # with an empty results folder
LINES = (
    "run --all --profile smoke --seeds 3 --threads 2 --time-limit 5 --results here --executor process",
    "run mlp linear_bbb --recipe published --protocol common --seeds 0,4,7 --device cpu --precision float64 --apart",
    "plan --all --json --profile epoch1",
    "status mlp --recipe corrected --profile smoke",
    "table accuracy --format md --profile full",
    "table confidence --only mine --baseline none --wide",
    "figures sure --format svg,png --to here --list",
    "report --no-figures --format html,md --output here",
    "compare here there --metric mnist/* --profile full,smoke --verify",
    "predict digit.png --approach mlp --draws 3 --figure here.png",
    "verdict --json --document chopra2018",
    "audit records --rule one-seed --json",
    "data verify mnist --data-dir .",
    "list --json",
)


def argument_targets(folder: Path) -> list[Target]:
    """Return the targets that read command lines."""
    for line in LINES:
        parse(line.split())  # imports the files of the commands, which no input is to be charged with
    select(parse(["plan", "--all"]))  # and the frameworks
    lines = damaged([END.join(line.encode().split()) for line in LINES], _words()).map(_arguments)
    return [
        Target("command lines", st.tuples(lines, st.integers(0, 4)), _parse, share=5),
        Target("reading commands", lines, _reader(folder / "empty"), share=0.2),
    ]


def _words() -> tuple[bytes, ...]:
    options = [word for line in LINES for word in line.split()]
    odd = ["cuda:0", "cuda:", "-h", "--", "99999999999999999999", "1e400", "-1", "0", "é", "=", ","]
    return tuple(END + word.encode() + END for word in dict.fromkeys([*options, *manifests(), *PROFILES, *odd]))


def _arguments(data: bytes) -> list[str]:
    """Return the arguments as the system would hand them over, bytes that are no text included."""
    return [part.decode("utf-8", "surrogateescape") for part in data.split(END) if part]


def _parse(given: tuple[list[str], int]) -> None:
    line, chance = given
    try:
        found = _parsed(line)
        # Choosing trained runs takes milliseconds for each seed, so that only some lines go so far.
        if found is not None and hasattr(found, "seeds") and hasattr(found, "recipe") and _few(found) and not chance:
            select(found)
    except BenchError as error:
        raise BenchError(one_line(str(error))) from error


def _reader(empty: Path) -> Callable[[list[str]], None]:
    empty.mkdir(parents=True, exist_ok=True)

    def read(line: list[str]) -> None:
        try:
            found = _parsed(line)
        except BenchError as error:
            raise BenchError(one_line(str(error))) from error
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


def _parsed(line: list[str]) -> argparse.Namespace | None:
    """Return what a line asks for, None for help; raises BenchError."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return parse(line)
    except SystemExit as end:
        if end.code:
            raise BenchError(f"exit code {end.code}") from end
        return None


def _few(found: argparse.Namespace) -> bool:
    return len(getattr(found, "seeds", ())) <= 3


def _only_reads(found: argparse.Namespace) -> bool:
    return _few(found) and not getattr(found, "write", False) and getattr(found, "readme", None) is None
