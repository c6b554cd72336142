"""Figures of the fault tests, a file for each kind, and the table of what was tried to break the suite."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bench.core.folder import SealedFolder
from bench.core.records import Fields, Name, Provenance
from bench.show.cells import Table, make_table

FAULTS_SCHEMA = 2
CAPTION = "Kills, planted failures, runs that share a folder, and hostile input: results of the last campaigns."


class FaultFile(Fields, frozen=True, kw_only=True):
    """The content of one file."""

    schema: int
    sha256: str = ""
    name: Name  # of the kind of test
    seed: int
    lines: list[str]  # what the test came to, in words
    figures: dict[str, object]  # the same for machines
    provenance: Provenance


def fault_folder(results: Path) -> SealedFolder[FaultFile]:
    """Return the figures of fault tests in a results folder."""
    return SealedFolder(
        results,
        "faults",
        FaultFile,
        "figures",
        FAULTS_SCHEMA,
        lambda one: f"{one.name}.json",
        "*.json",
        "make them again with python -m tests.stress",
    )


def fault_table(tested: Iterable[FaultFile]) -> Table:
    """Return a row for each line of each kind of test."""
    rows = [[found.name, line] for found in tested for line in found.lines]
    return make_table("fault_tests", "What was tried to break it", CAPTION, ("test", "result"), rows)
