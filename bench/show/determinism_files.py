"""Which computations repeat bit for bit, on disk: one sealed JSON file for each approach."""

from __future__ import annotations

from pathlib import Path

from bench.core.folder import SealedFolder
from bench.core.records import Fields, Outcome, Provenance

SCHEMA = 1
AGAIN = "make it again with python -m tests.stress determinism --write"


class Likeness(Fields, frozen=True, kw_only=True):
    """Whether two computations gave the same bits, and how far apart they are."""

    exact: bool
    largest: float


class Condition(Fields, frozen=True, kw_only=True):
    """What a second computation under another condition gave; None where there is nothing to compare."""

    weights: Likeness | None = None
    predictions: Likeness | None = None
    missing: str | None = None  # why it was not computed


class Repeatability(Fields, frozen=True, kw_only=True):
    """The content of one file."""

    schema: int
    sha256: str = ""
    approach: str
    outcome: Outcome
    reason: str
    conditions: dict[str, Condition]
    provenance: Provenance


def folder(results: Path) -> SealedFolder[Repeatability]:
    """Return what a results folder says of repeatability."""
    return SealedFolder(
        results, "determinism", Repeatability, "report", SCHEMA, lambda one: f"{one.approach}.json", "*.json", AGAIN
    )
