"""Figures of fault tests on disk: RESULTS/faults/NAME.json, sealed by their hash; the report reads them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bench.core import environment
from bench.core.folder import SealedFolder
from bench.core.records import Fields, Provenance

SCHEMA = 1
AGAIN = "make them again with python -m tests.stress"


class Tested(Fields, frozen=True, kw_only=True):
    """What every kind of fault test has: how long it took, and the faults that it found, in words."""

    seconds: float
    faults: list[str]


class KilledRuns(Tested, frozen=True, kw_only=True):
    """Real runs that were killed at random moments, and completed."""

    kills: int
    of_workers: int
    in_training: int
    in_measuring: int
    while_writing: int
    rounds: int
    identical: int
    finished_epochs_lost: int
    longest_orphan_s: float


class PlantedFaults(Tested, frozen=True, kw_only=True):
    """Runs of approaches with planted faults."""

    ends: dict[str, tuple[str, str]]  # by fault: outcome and reason
    orphan_s: float


class RunsTogether(Tested, frozen=True, kw_only=True):
    """Several runs on one folder."""

    runs: int
    killed: int
    cells: int
    done_by: list[int]
    done_twice: int
    named: int


class FuzzedTarget(Fields, frozen=True, kw_only=True):
    """One reader that was given damaged input."""

    target: str
    inputs: int
    accepted: int
    findings: int
    seconds: float
    slowest_s: float
    peak_mib: float


class FuzzedReaders(Tested, frozen=True, kw_only=True):
    """All readers that were given damaged input."""

    inputs: int
    targets: list[FuzzedTarget]
    slowest_s: float
    peak_mib: float


class SoakedRun(Tested, frozen=True, kw_only=True):
    """A run that went on for long, with kills."""

    rounds: int
    approaches: list[str]
    profile: str
    cells: int
    kills: int
    of_workers: int
    run_mib: list[float]
    servers_mib: list[float]
    growth_mib: float
    unfinished: int


KINDS: dict[str, type[Tested]] = {
    "kills": KilledRuns,
    "planted": PlantedFaults,
    "together": RunsTogether,
    "fuzz": FuzzedReaders,
    "soak": SoakedRun,
}


class FaultFile(Fields, frozen=True, kw_only=True):
    """The content of one file."""

    schema: int
    sha256: str = ""
    name: str  # one of KINDS
    seed: int
    figures: dict[str, object]  # of the kind's type
    provenance: Provenance

    def __post_init__(self) -> None:
        """Raise ValueError where the figures are not those of the kind."""
        if self.name not in KINDS:
            raise ValueError(f"unknown kind of fault test '{self.name:.50}'; known: {', '.join(KINDS)}")
        self.tested()

    def tested(self) -> Tested:
        """Return the figures."""
        return msgspec.convert(self.figures, KINDS[self.name])


def name_of(found: FaultFile) -> str:
    """Return the name of a file."""
    return f"{found.name}.json"


def folder(results: Path) -> SealedFolder[FaultFile]:
    """Return the figures of fault tests in a results folder."""
    return SealedFolder(results, "faults", FaultFile, "figures", SCHEMA, name_of, "*.json", AGAIN)


def write(results: Path, name: str, figures: dict[str, object], seed: int, threads: int) -> Path:
    """Write the figures of one kind of test in the place of older ones; raises StoreError."""
    made = msgspec.structs.replace(environment.describe(threads), made=environment.now())
    return folder(results).write(FaultFile(schema=SCHEMA, name=name, seed=seed, figures=figures, provenance=made))


def read_all(results: Path) -> tuple[dict[str, Tested], list[str]]:
    """Return the figures that can be trusted by name, and what is wrong with the other files."""
    found, problems = folder(results).read_all()
    by_name = {one.name: one.tested() for one in found}
    known = {name: by_name[name] for name in KINDS if name in by_name}
    return known, [problem.reason for problem in problems]
