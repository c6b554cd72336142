"""Jobs for child processes, as JSON, and the check that another machine would give the same numbers."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from bench.core.environment import harness_hash, source_hash
from bench.core.errors import ConfigError
from bench.data.inventory import list_datasets
from bench.data.manifest import data_hashes
from bench.plan.cells import Cell, Selection
from bench.plan.registry import source_files
from bench.plan.versions import METRICS_VERSION, PROTOCOLS
from bench.run.options import Options


class CodeAndData(msgspec.Struct, frozen=True):
    """The code and the data of a machine that affect an approach's numbers."""

    harness: str  # hash of this package's code
    approach: str  # hash of the approach's code
    protocols: dict[str, int]  # versions of the protocols and of the metrics
    data: dict[str, str]  # hash of each data file
    present: list[str]  # data sets that this machine has


class WorkJob(msgspec.Struct, frozen=True, tag_field="kind", tag="work"):
    """Fit and measure the cells of one fit."""

    cells: list[Cell]
    options: Options
    expected: CodeAndData | None  # of the caller's machine; None: the job stays on that machine


class PlanJob(msgspec.Struct, frozen=True, tag_field="kind", tag="plan"):
    """Plan the cells of an approach in its own interpreter, because it cannot be imported in this one."""

    selection: Selection
    harness: str


Job: TypeAlias = WorkJob | PlanJob


def work_job(cells: Sequence[Cell], options: Options) -> WorkJob:
    """Return the job that fits and measures the cells of one fit by another interpreter or on another machine."""
    return WorkJob(list(cells), options, here(cells[0].approach, data_folder(options)))


def plan_job(selection: Selection) -> PlanJob:
    """Return the job that plans the cells of a selection."""
    return PlanJob(selection, harness_hash())


def decode_job(line: bytes) -> Job:
    """Return the job that a line of JSON describes, without its data folder if this machine does not have it."""
    job: Job = msgspec.json.decode(line, type=Job)
    if isinstance(job, PlanJob) or data_folder(job.options):
        return job
    return msgspec.structs.replace(job, options=dataclasses.replace(job.options, data_dir=None))


def data_folder(options: Options) -> Path | None:
    """Return the data folder that the options name, if this machine has it."""
    path = options.data_path()
    return path if path is not None and path.is_dir() else None


def here(approach: str, data_dir: Path | None) -> CodeAndData:
    """Return the code and the data of this machine."""
    return CodeAndData(
        harness=harness_hash(),
        approach=source_hash(source_files(approach)),
        protocols={**PROTOCOLS, "metrics": METRICS_VERSION},
        data=data_hashes(),
        present=[row.name for row in list_datasets(data_dir) if row.present],
    )


def check(expected: CodeAndData, found: CodeAndData) -> None:
    """Raise ConfigError if this machine (`found`) would give other numbers than the caller's (`expected`).

    Only the known hashes of data files are compared here. Whoever reads a file compares its bytes with its hash.
    """
    host = socket.gethostname()
    for name, what in (("harness", "suite"), ("approach", "approach"), ("protocols", "protocols")):
        if getattr(expected, name) != getattr(found, name):
            raise ConfigError(f"the code of the {what} on {host} differs from this one; install the same version there")
    if expected.data != found.data:
        raise ConfigError(f"the manifests of the data sets on {host} differ; install the same version there")
    absent = [name for name in expected.present if name not in found.present]
    if absent:
        raise ConfigError(
            f"data set '{absent[0]}' is not on {host}; run there: python -m bench data fetch {absent[0]}, or set "
            "BNN_BENCH_DATA there"
        )
