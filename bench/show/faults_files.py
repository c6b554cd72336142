"""Figures of fault tests on disk: RESULTS/faults/NAME.json, sealed by their hash; the report shows their lines."""

from __future__ import annotations

from pathlib import Path

from bench.core.folder import SealedFolder
from bench.core.records import Fields, Name, Provenance

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
