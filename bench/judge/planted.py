"""Runs by code with a small fault planted in it: the numbers of their first epoch, as a file.

`python -m benchmarks.planted --save` makes them. They are no records: a record comes from the code as it is.
"""

from __future__ import annotations

from pathlib import Path

from bench.core.csv_rows import CsvRow, read_csv
from bench.core.project import REFERENCE
from bench.core.records import Real

RUNS = REFERENCE / "planted_runs.csv"


class PlantedRun(CsvRow, frozen=True):
    """One number of one seed, trained by the published recipe and measured by the published protocol."""

    fault: str
    approach: str
    seed: int
    key: str  # of the number among those of an epoch
    value: Real
    made: str
    commit: str


def read_runs(path: Path = RUNS) -> list[PlantedRun]:
    """Read the file; without a file there are no runs. Raises ConfigError that names the first bad row."""
    return read_csv(path, PlantedRun, "planted runs") if path.exists() else []
