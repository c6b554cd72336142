"""Figures of fault tests on disk: RESULTS/faults/NAME.json, sealed by their hash; the report reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.core.folder import SealedFolder
from bench.core.records import Fields, Provenance

SCHEMA = 1
NAMES = ("kills", "planted", "together", "fuzz", "soak")
AGAIN = "make them again with python -m tests.stress"


class FaultFigures(Fields, frozen=True, kw_only=True):
    """The content of one file."""

    schema: int
    sha256: str = ""
    name: str  # one of NAMES
    seed: int
    figures: dict[str, Any]
    provenance: Provenance


def name_of(found: FaultFigures) -> str:
    """Return the name of a file."""
    return f"{found.name}.json"


def folder(results: Path) -> SealedFolder[FaultFigures]:
    """Return the figures of fault tests in a results folder."""
    return SealedFolder(results / "faults", FaultFigures, "figures", SCHEMA, name_of, "*.json", AGAIN)


def read_all(results: Path) -> tuple[dict[str, FaultFigures], list[str]]:
    """Return the files that can be trusted by name (see NAMES), and what is wrong with the others."""
    found, problems = folder(results).read_all()
    by_name = {one.name: one for one in found}
    known = {name: by_name[name] for name in NAMES if name in by_name}
    return known, [problem.reason for problem in problems]
