"""Files beside the records: what repeats bit for bit, what the fault tests came to, and speeds beside the documents'.

Each file is sealed. The programs that make them are `python -m tests.stress determinism --write`, `python -m
tests.stress` and `python -m benchmarks.throughput`.
"""

from __future__ import annotations

from pathlib import Path

from bench.core.folder import SealedFolder
from bench.core.records import Fields, Name, Outcome, Provenance, Versions

REPEATABILITY_SCHEMA, FAULTS_SCHEMA, SPEEDS_SCHEMA = 1, 2, 1


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


def repeatability_folder(results: Path) -> SealedFolder[Repeatability]:
    """Return what a results folder says of repeatability."""
    return SealedFolder(
        results,
        "determinism",
        Repeatability,
        "report",
        REPEATABILITY_SCHEMA,
        lambda one: f"{one.approach}.json",
        "*.json",
        "make it again with python -m tests.stress determinism --write",
    )


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
    overhead_s: float | None = None


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


def name_of_speeds(speeds: Speeds) -> str:
    """Return the name of a file; new speeds of the same name replace it."""
    naming = (speeds.approach, speeds.what, speeds.device.replace(":", ""), speeds.precision, speeds.draws)
    return f"{'__'.join(map(str, naming))}.json"


def speeds_folder(results: Path) -> SealedFolder[Speeds]:
    """Return the measured speeds of a results folder."""
    return SealedFolder(
        results,
        "throughput",
        Speeds,
        "speeds",
        SPEEDS_SCHEMA,
        name_of_speeds,
        "*.json",
        "measure them again with python -m benchmarks.throughput",
    )
