"""Measured speeds on disk: one sealed JSON file for each approach, what, device, precision and number of draws."""

from __future__ import annotations

from pathlib import Path

from bench.core.folder import SealedFolder
from bench.core.records import Fields, Number, Outcome, Provenance, Versions

SCHEMA = 1
AGAIN = "measure them again with python -m benchmarks.throughput"


class Blocks(Fields, frozen=True, kw_only=True):
    """Times of one side's blocks, a block a round."""

    seconds: list[float]
    work: float  # steps, draws x images or products in a block


class BlockTitles(Fields, frozen=True, kw_only=True):
    """What a block of each side is, in words."""

    ours: str
    document: str


class SpeedRow(Fields, frozen=True, kw_only=True):
    """One thing measured on both sides."""

    title: str
    ours: Blocks
    document: Blocks
    product: Blocks
    product_size: int
    flops_per_unit: float
    measured: BlockTitles
    document_batch: int | None = None
    overhead_s: Number = None


class SpeedTimings(Fields, frozen=True, kw_only=True):
    """Whether the times count, and if not why."""

    valid: bool
    reason: str


class Speeds(Fields, frozen=True, kw_only=True):
    """The content of one file."""

    schema: int
    sha256: str = ""
    approach: str
    what: str
    device: str
    precision: str
    draws: int
    outcome: Outcome
    reason: str
    rounds: int
    rows: list[SpeedRow]
    timings: SpeedTimings
    provenance: Provenance
    versions: Versions | None = None


def name_of(speeds: Speeds) -> str:
    """Return the name of a file; new speeds of the same name replace it."""
    naming = (speeds.approach, speeds.what, speeds.device.replace(":", ""), speeds.precision, speeds.draws)
    return f"{'__'.join(map(str, naming))}.json"


def folder(results: Path) -> SealedFolder[Speeds]:
    """Return the measured speeds of a results folder."""
    return SealedFolder(results, "throughput", Speeds, "speeds", SCHEMA, name_of, "*.json", AGAIN)
