"""Runs by code with a small fault planted in it: the numbers of their first epoch, as a file.

`python -m benchmarks.planted --save` makes them. They are no records: a record comes from the code as it is.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from bench.core.errors import ConfigError
from bench.core.project import REFERENCE
from bench.core.text import one_line

RUNS = REFERENCE / "planted_runs.csv"
LONGEST = 200  # characters of a row that an error repeats


@dataclass(frozen=True)
class PlantedRun:
    """One number of one seed, trained by the published recipe and measured by the published protocol."""

    fault: str
    approach: str
    seed: int
    key: str  # of the number among those of an epoch
    value: float
    made: str
    commit: str


COLUMNS = tuple(field.name for field in fields(PlantedRun))


def read_runs(path: Path = RUNS) -> list[PlantedRun]:
    """Read the file; without a file there are no runs. Raises ConfigError that names the first bad row."""
    if not path.exists():
        return []
    try:
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline=""), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"planted runs {path} cannot be read: {error}") from error
    if not rows or tuple(rows[0]) != COLUMNS:
        raise ConfigError(f"planted runs {path}: the first row must name the columns {','.join(COLUMNS)}")
    return [_run(row, f"planted runs {path}, row {number}") for number, row in enumerate(rows[1:], start=2)]


def _run(row: Sequence[str], where: str) -> PlantedRun:
    given = one_line(",".join(row), LONGEST)
    if len(row) != len(COLUMNS):
        raise ConfigError(f"{where}: '{given}' has {len(row)} columns instead of {len(COLUMNS)}")
    fault, approach, seed, key, value, made, commit = row
    try:
        found = PlantedRun(fault, approach, int(seed), key, float(value), made, commit)
    except ValueError:
        raise ConfigError(f"{where}: seed and value of '{given}' must be numbers") from None
    if not math.isfinite(found.value):
        raise ConfigError(f"{where}: the value of '{given}' must be finite")
    return found
