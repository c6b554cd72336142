"""What was tried to break the suite: the fault tests' figures, as sealed files RESULTS/faults/NAME.json and a table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bench.core.folder import SealedFolder
from bench.core.records import Fields, Name, Provenance
from bench.show.tables.cells import Table, make_table

SCHEMA = 2
AGAIN = "make them again with python -m tests.stress"


class FaultFile(Fields, frozen=True, kw_only=True):
    """The content of one file."""

    schema: int
    sha256: str = ""
    name: Name  # of the kind of test
    seed: int
    lines: list[str]  # what the test came to, in words
    figures: dict[str, object]  # the same for machines
    provenance: Provenance


def folder(results: Path) -> SealedFolder[FaultFile]:
    """Return the figures of fault tests in a results folder."""
    return SealedFolder(
        results, "faults", FaultFile, "figures", SCHEMA, lambda one: f"{one.name}.json", "*.json", AGAIN
    )


CAPTION = "Kills, planted failures, runs that share a folder, and hostile input: results of the last campaigns."


def fault_table(tested: Iterable[FaultFile]) -> Table:
    """Return a row for each line of each kind of test."""
    rows = [[found.name, line] for found in tested for line in found.lines]
    return make_table("fault_tests", "What was tried to break it", CAPTION, ("test", "result"), rows)
