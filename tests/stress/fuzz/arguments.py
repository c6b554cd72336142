"""Targets: command lines, and whole results folders with links, pipes and damaged files in place of results.

What is typed is parsed, trained runs are selected, and commands that only read run. Each command on a folder is a
target of its own, so that the figures of a campaign say how often it was tried.
"""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st

from bench.cli.main import main, parse
from bench.cli.options import select
from bench.core import locks
from bench.core.errors import BenchError
from bench.core.store import Store
from bench.core.text import one_line
from bench.plan.recipes import PROFILES
from bench.plan.registry import manifests
from tests.stress.fuzz.engine import Target, damaged
from tests.stress.fuzz.guarded import ARCHIVE, KEY, POSTERIOR, RECORD, SCORES, Guarded
from tests.stress.fuzz.stored import odd_scores

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


KINDS = ("link to a file", "link to a folder", "hard link", "pipe", "folder", "loop", "nothing")
PLACES = (
    *("records", "records/mlp", RECORD, SCORES, ARCHIVE, "records/mlp.npz", "fits", "fits/KEY", POSTERIOR),
    *("fits/KEY/checkpoint.safetensors", "locks", "locks/KEY.lock", "locks/KEY.json"),
    *("derived_metrics", "tables", "tables/accuracy.md"),
    *("report", "figures", "figures/sure.svg", "shipped-fits", "shipped-fits/KEY"),
)
FIGURES = (*("sure", "end-results", "mistakes", "reliability", "risk-coverage", "feldman2018-training-mlp"),)
ALONE = "--baseline none --results RESULTS"  # the shipped records are not what is tried, and take seconds to judge
HERE = "--results RESULTS"

Command = tuple[str, ...]
Plant = tuple[str, str]  # where, and what kind of thing
Damage = tuple[str, bytes]  # where, and the content


class Changed(NamedTuple):
    """What a folder gets in the place of its sound files."""

    plants: Sequence[Plant] = ()
    damage: Damage | None = None


class Tried(NamedTuple):
    """A command that is tried on changed folders."""

    name: str
    share: float
    lines: tuple[str, ...]  # its ways


TABLES = ("accuracy", "ood", "refusal", "pruning", "calibration", "choice")
COMMANDS = (
    Tried(
        "table",
        1.5,
        (
            f"table {ALONE}",
            f"table unfinished --format md {ALONE}",
            f"table provenance --format csv {ALONE}",
            *(f"table {name} {ALONE}" for name in TABLES),
            f"table --write {ALONE}",
        ),
    ),
    Tried("table confidence", 3, (f"table confidence {ALONE}",)),
    Tried("status", 1.5, (f"status mlp {HERE}", f"status --all --wide {HERE}", f"status mlp --json {HERE}")),
    Tried("plan", 1, (f"plan mlp {HERE}",)),
    Tried("verdict", 1.5, (f"verdict {HERE}", f"verdict --all --json {HERE}")),
    Tried("ablation", 1.5, (f"ablation mlp {HERE}",)),
    Tried("audit records", 2, (f"audit records {HERE}",)),
    Tried("compare", 2, ("compare RESULTS SOUND", "compare SOUND RESULTS --json")),
    Tried("compare --verify", 3, ("compare RESULTS --verify",)),
    Tried(
        "predict",
        2.5,
        (
            f"predict PICTURE --draws 3 {HERE}",
            f"predict PICTURE --approach mlp --json {HERE}",
        ),
    ),
    Tried("figures", 3, (f"figures --list {ALONE}", *(f"figures {name} {ALONE}" for name in FIGURES))),
    Tried("report", 1.5, (f"report --no-figures {ALONE}",)),
)


def folder_targets(folder: Path) -> list[Target]:
    """Return the targets that are given whole folders."""
    plants = st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(KINDS)), min_size=1, max_size=3)
    place = Guarded(folder / "guarded")
    files = {where: damaged([content]) for where, content in place.contents().items()}
    files[SCORES] = st.one_of(files[SCORES], odd_scores())
    damages = st.one_of(*(st.tuples(st.just(where), contents) for where, contents in files.items()))
    changed = st.one_of(plants.map(Changed), damages.map(lambda one: Changed(damage=one)))
    targets = [Target("links and pipes", st.tuples(plants, st.booleans()), _files_reader(place), share=2)]
    for tried in COMMANDS:
        inputs = st.tuples(changed, st.sampled_from([tuple(line.split()) for line in tried.lines]))
        targets.append(Target(f"folders, {tried.name}", inputs, _commands_reader(place), share=tried.share))
    return targets


def _commands_reader(folder: Guarded) -> Callable[[tuple[Changed, Command]], None]:
    def read(given: tuple[Changed, Command]) -> None:
        changed, command = given
        folder.fresh()
        if changed.damage is not None:
            folder.place(changed.damage[0]).write_bytes(changed.damage[1])
        for where, kind in changed.plants:
            folder.plant(where, kind)
        folder.run(command)

    return read


def _files_reader(folder: Guarded) -> Callable[[tuple[Sequence[Plant], bool]], None]:
    def read(given: tuple[Sequence[Plant], bool]) -> None:
        plants, later = given
        store = folder.fresh()
        for where, kind in plants:
            folder.plant(where, kind)
        try:
            _use(store, folder, later)
        finally:
            folder.check()

    return read


def _use(store: Store, folder: Guarded, later: bool) -> None:
    """Do with a folder what a run does."""
    store.all_records()
    if later:
        store.check_writable()
    found = store.find(folder.good)
    store.read_tensors(store.fit_path(KEY, "posterior"))
    store.read_tensors(store.fit_path(KEY, "checkpoint"))
    locks.is_held(store.root, KEY)
    locks.holder(store.root, KEY)
    with locks.hold(store.root, [KEY]):
        store.write(folder.good, {})
    store.drop_checkpoint(KEY)
    if found is None:
        raise BenchError("left out")
