"""How surely does the gate catch each planted fault? Its measured effect beside the spread of the reference.

The effects are rows of `results/reference/planted.csv`, written by `python -m benchmarks.power FAULT --save`.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from bench.core.errors import ConfigError
from bench.core.project import REFERENCE
from bench.judge.gate.checks import Caught
from bench.judge.gate.config import Gate
from bench.judge.gate.faults import FAULTS
from bench.judge.gate.samples import Folder, key_of, sample
from bench.judge.stats.gating import Design

EFFECTS = REFERENCE / "planted.csv"


@dataclass(frozen=True)
class FaultEffect:
    """The mean of one gated metric under a fault."""

    fault: str
    cell: str
    metric: str
    seeds: int
    mean: float
    made: str
    commit: str


COLUMNS = tuple(field.name for field in fields(FaultEffect))


def read_effects(path: Path) -> list[FaultEffect]:
    """Read the file; raises ConfigError that names the first bad row."""
    try:
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline=""), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(
            f"effects {path} cannot be read: {error}; python -m benchmarks.power FAULT --save makes them"
        ) from error
    if not rows or tuple(rows[0]) != COLUMNS:
        raise ConfigError(f"effects {path}: the first row must name the columns {','.join(COLUMNS)}")
    return [_effect(row, f"effects {path}, row {number}") for number, row in enumerate(rows[1:], start=2)]


def _effect(row: Sequence[str], where: str) -> FaultEffect:
    if len(row) != len(COLUMNS):
        raise ConfigError(f"{where}: {len(row)} columns instead of {len(COLUMNS)}")
    fault, cell, metric, seeds, mean, made, commit = row
    try:
        found = FaultEffect(fault, cell, metric, int(seeds), float(mean), made, commit)
    except ValueError:
        raise ConfigError(f"{where}: seeds '{seeds}' and mean '{mean}' must be numbers") from None
    if fault not in FAULTS or not math.isfinite(found.mean):
        raise ConfigError(f"{where}: fault '{fault}', mean {mean}; give one of {', '.join(FAULTS)} and a finite mean")
    return found


def power_table(gate: Gate, reference: Folder, effects: Iterable[FaultEffect]) -> list[Caught]:
    """Return for each fault and cell the metric that shows the fault best, at the level of Holm's first step.

    An effect measured with few seeds is noisy. That hardly matters for a shift of many standard deviations, which the
    gate sees in any case.
    """
    best: dict[tuple[str, str], Caught] = {}
    for effect in effects:
        found = _caught(gate, reference, effect, gate.alpha / gate.n_tests)
        if found is not None:
            place = (effect.fault, effect.cell)
            best[place] = max(best.get(place, found), found, key=lambda caught: (caught.power, abs(caught.in_sds)))
    return list(best.values())


def _caught(gate: Gate, reference: Folder, effect: FaultEffect, alpha: float) -> Caught | None:
    cells = [cell for cell in gate.cells if cell.name == effect.cell]
    metrics = [metric for cell in cells for metric in cell.metrics if metric.key == effect.metric]
    if not metrics:
        return None
    known = sample(reference.cell(cells[0]), key_of(cells[0], effect.metric))
    if known.mean is None or known.sd is None:
        return None
    shift = effect.mean - known.mean
    design = Design(known.sd, known.n, cells[0].n_seeds, metrics[0].margin)
    in_sds = shift / known.sd if known.sd else math.copysign(math.inf, shift)
    return Caught(effect.fault, effect.cell, effect.metric, shift, in_sds, design.alarm_rate(shift, alpha))
