"""Targets among whole results folders: what somebody else may have put in the place of a file, and forged records.

Outside the folder lies a canary. No command may read it into its output, change it, or put a file beside it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

from bench.cli.main import main
from bench.core import locks, quarantine
from bench.core.errors import BenchError
from bench.core.sealed import seal
from bench.core.store import Store
from tests.stress.fuzz.damage import Json, damaged_value
from tests.stress.fuzz.engine import Target
from tests.synthetic import record

KEY = "b" * 64
CANARY = b"a file of the user: 7c1f"
KINDS = ("link to a file", "link to a folder", "hard link", "pipe", "folder", "loop", "nothing")
PLACES = (
    *("records", "records/mlp", "RECORD", "SCORES", "fits", "fits/KEY", "fits/KEY/posterior.safetensors"),
    *("fits/KEY/checkpoint.safetensors", "locks", "locks/KEY.lock", "locks/KEY.json", "quarantine"),
    *("quarantine/reasons.txt", "readings", "faults", "faults/fuzz.json", "tables", "tables/accuracy.md", "report"),
)
ALONE = ("--baseline", "none")  # the shipped records are not what is tried, and take seconds to judge
COMMANDS = (
    ("table", *ALONE),
    ("table", "unfinished", "--format", "md", *ALONE),
    ("table", "provenance", "--format", "csv", *ALONE),
    ("status", "mlp"),
    ("plan", "mlp"),
    ("verdict",),
    ("figures", "--list", *ALONE),
    ("audit", "records", "--rule", "stale-result"),
    ("table", "--write", *ALONE),
    ("report", "--no-figures", *ALONE),
)


def folder_targets(folder: Path) -> list[Target]:
    """Return the targets that are given whole folders."""
    place = st.tuples(st.sampled_from(PLACES), st.sampled_from(KINDS), st.booleans())
    forged = damaged_value(_forgeable()).map(lambda value: value if isinstance(value, dict) else {})
    command = st.sampled_from(range(len(COMMANDS)))
    return [
        Target("links and pipes", place, _files_reader(folder / "files"), share=0.5),
        Target(
            "forged records in commands", st.tuples(forged, command), _commands_reader(folder / "forged"), share=0.05
        ),
        Target("links in commands", st.tuples(place, command), _linked_commands(folder / "linked"), share=0.05),
    ]


def _forgeable() -> dict[str, Json]:
    made = record(
        "mlp",
        protocol="common",
        fit_key=KEY,
        metrics={"mnist/accuracy": 0.98, "mnist/nll": 0.1, "letters/auroc_max_probability": 0.9},
        missing={"notmnist459": "it is not there"},
        arrays={
            "noise": {"mnist": "weights"},
            "mnist/reliability": {
                **{"lower": [0, 0.5], "upper": [0.5, 1], "count": [3, 4]},
                **{"confidence": [None, 0.7], "accuracy": [None, 0.5]},
            },
            "mnist/risk_coverage": {"coverage": [0.5, 1], "risk": [0, 0.1]},
        },
        epochs=[{"epoch": 1, "mnist/train60k/train_loss": 0.25, "seconds": 1.5}],
        timings={"valid": True, "fit_s": 1.5, "epoch_s_median": 1.5},
    )
    value = seal(made)
    del value["sha256"]
    return value  # type: ignore[return-value]  # JSON values


class _Guarded:
    """A results folder beside a folder of the user, whose one file is the canary."""

    def __init__(self, place: Path) -> None:
        self.results, self.outside = place / "results", place / "outside"
        self.outside.mkdir(parents=True)
        self.canary = self.outside / "canary"
        self.canary.write_bytes(CANARY)
        self.good = record("mlp", protocol="common", fit_key=KEY, metrics={"mnist/accuracy": 0.98})

    def fresh(self) -> Store:
        """Return a new results folder with one sound record."""
        shutil.rmtree(self.results, ignore_errors=True)
        store = Store(self.results)
        store.write(self.good)
        return store

    def plant(self, where: str, kind: str) -> None:
        """Put something in the place of a file or folder."""
        path = Store(self.results).record_path(self.good)
        names = {"RECORD": str(path), "SCORES": str(path.with_suffix(".npz"))}
        target = self.results / names.get(where, where.replace("KEY", KEY[:16]))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
        if kind == "link to a file":
            target.symlink_to(self.canary)
        elif kind == "link to a folder":
            target.symlink_to(self.outside)
        elif kind == "hard link":
            os.link(self.canary, target)
        elif kind == "pipe":
            os.mkfifo(target)
        elif kind == "folder":
            target.mkdir()
        elif kind == "loop":
            target.symlink_to(target.name)

    def check(self) -> None:
        """Raise AssertionError if anything outside the results folder was touched."""
        if [path.name for path in self.outside.iterdir()] != ["canary"] or self.canary.read_bytes() != CANARY:
            raise AssertionError("a file outside --results was touched")

    def run(self, command: tuple[str, ...]) -> None:
        """Run a command on the folder and look at what it says; raises BenchError where it ends in an error."""
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            code = main([*command, "--results", str(self.results)])
        self.check()
        said, complained = output.getvalue(), errors.getvalue()
        if CANARY.decode() in said + complained:
            raise AssertionError("a file outside --results was read")
        if any(unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\t" for c in said + complained):
            raise AssertionError("a control character reached the terminal")
        if code not in (0, 1, 2, 3):
            raise AssertionError(f"exit code {code}")
        if code == 2:
            raise BenchError(complained.strip())


def _files_reader(place: Path) -> Callable[[tuple[str, str, bool]], None]:
    folder = _Guarded(place)

    def read(given: tuple[str, str, bool]) -> None:
        where, kind, later = given
        store = folder.fresh()
        folder.plant(where, kind)
        try:
            _use(store, folder, later)
        finally:
            folder.check()

    return read


def _use(store: Store, folder: _Guarded, later: bool) -> None:
    """Do with a folder what a run does."""
    store.all_records()
    if later:
        store.check_writable()
    found = store.find(folder.good)
    store.read_tensors(store.fit_path(KEY, "posterior"))
    store.read_tensors(store.fit_path(KEY, "checkpoint"))
    locks.is_held(store.root, KEY)
    locks.holder(store.root, KEY)
    with store.hold([KEY]):
        store.write(folder.good, {})
    store.drop_checkpoint(KEY)
    quarantine.set_aside(store.root, store.record_path(folder.good), "it is fuzzed")
    if found is None:
        raise BenchError("set aside")


def _commands_reader(place: Path) -> Callable[[tuple[dict[str, Json], int]], None]:
    folder = _Guarded(place)

    def read(given: tuple[dict[str, Json], int]) -> None:
        value, number = given
        path = folder.fresh().record_path(folder.good)
        try:
            path.write_text(json.dumps(seal(value)))
        except RecursionError:
            return
        folder.run(COMMANDS[number])

    return read


def _linked_commands(place: Path) -> Callable[[tuple[tuple[str, str, bool], int]], None]:
    folder = _Guarded(place)

    def read(given: tuple[tuple[str, str, bool], int]) -> None:
        (where, kind, _), number = given
        folder.fresh()
        folder.plant(where, kind)
        folder.run(COMMANDS[number])

    return read
