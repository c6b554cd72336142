"""Targets among whole results folders: links, pipes and damaged files in the place of what a run has written.

Each command is a target of its own, so that the figures of a campaign say how often it was tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st

from bench.core import locks
from bench.core.errors import BenchError
from bench.core.store import Store
from tests.stress.fuzz.engine import Target, damaged
from tests.stress.fuzz.guarded import ARCHIVE, KEY, POSTERIOR, RECORD, SCORES, Guarded
from tests.stress.fuzz.stored import odd_scores

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
