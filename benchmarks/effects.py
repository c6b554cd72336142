"""How likely the gate catches each planted fault, from the fault's measured effects and the reference's spread.

The faults are mistakes in the code, not edited recipes. The gate sees an edited recipe at once, by its key; with a
fault in the code, `plan` shows no difference.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.core.csv_rows import CsvRow, columns, read_csv, refused
from bench.core.files import write_atomically
from bench.core.project import REFERENCE
from bench.core.records import Real
from bench.judge.gate.config import Gate
from bench.judge.gate.samples import Folder, key_of
from bench.judge.samples import metrics_of
from bench.judge.stats.gating import Design
from bench.show.table import Table

EFFECTS = REFERENCE / "planted.csv"
FAULTS = {
    "kl-scale": "the KL weighs twice as much",
    "learning-rate": "the learning rate is twice as high",
    "dropout-on": "dropout stays on where it should be off",
    "wrong-split": "training on the test rows",
    "seed-ignored": "every seed draws what seed 0 draws",
}
"""Each planted fault by name, with what it does."""
COLUMNS = ("planted fault", "cell", "seen best in", "shift", "in s", "caught")
CAPTION = (
    "Each cell by the metric that shows the fault best. Shift: fresh mean with the fault minus the reference's mean; "
    "in s: in standard deviations of the reference's seeds. Caught: the probability that the gate fails, if seeds "
    "scatter normally."
)
EXACTLY_CAUGHT = {"wrong-split": "rows learnt from", "seed-ignored": "seeds"}
"""The exact check that always catches a fault, by the name of the fault; the metrics must catch the others."""


class FaultEffect(CsvRow, frozen=True):
    """The mean of one gated metric under a fault."""

    fault: str
    cell: str
    metric: str
    seeds: int
    mean: Real
    made: str
    commit: str

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown fault."""
        if self.fault not in FAULTS:
            raise ValueError(refused("fault", self.fault, f"one of {', '.join(FAULTS)}"))


def read_effects(path: Path) -> list[FaultEffect]:
    """Read the file; raises ConfigError that names the first bad row."""
    return read_csv(path, FaultEffect, "effects", remedy="python -m benchmarks.power FAULT --save makes them")


def save_effects(path: Path, effects: Sequence[FaultEffect]) -> None:
    """Add effects to the file, in place of older ones of the same fault, cell and metric."""
    every = [*(read_effects(path) if path.exists() else []), *effects]
    kept = {(effect.fault, effect.cell, effect.metric): effect for effect in every}
    write_rows(path, FaultEffect, [effect for _, effect in sorted(kept.items())])


def write_rows(path: Path, schema: type[CsvRow], rows: Sequence[CsvRow]) -> None:
    """Write a CSV file for `bench.core.csv_rows.read_csv`."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([columns(schema), *map(msgspec.structs.astuple, rows)])
    write_atomically(path, out.getvalue().encode())


@dataclass(frozen=True)
class Caught:
    """The probability that the gate catches one planted fault in one cell, by the metric that shows it best."""

    fault: str
    cell: str
    metric: str
    shift: float
    in_sds: float
    power: float


def caught(gate: Gate, reference: Folder, effects: Iterable[FaultEffect]) -> list[Caught]:
    """Return for each fault and cell the metric that shows the fault best, at the level of Holm's first step.

    An effect measured with few seeds is noisy. That hardly matters if the shift is many standard deviations, because
    the gate sees such a shift in any case.
    """
    # Holm's procedure adjusts one p-value for each metric, and one for each waiver of seeds that diverge.
    n_tests = sum(len(cell.metrics) for cell in gate.cells) + sum(bool(waiver.diverged) for waiver in gate.waivers)
    best: dict[tuple[str, str], Caught] = {}
    for effect in effects:
        found = _caught(gate, reference, effect, gate.alpha / n_tests)
        if found is not None:
            place = (effect.fault, effect.cell)
            best[place] = max(best.get(place, found), found, key=lambda one: (one.power, abs(one.in_sds)))
    return list(best.values())


def _caught(gate: Gate, reference: Folder, effect: FaultEffect, alpha: float) -> Caught | None:
    cells = [cell for cell in gate.cells if cell.name == effect.cell]
    metrics = [metric for cell in cells for metric in cell.metrics if metric.key == effect.metric]
    if not metrics:
        return None
    known = metrics_of(reference.cell(cells[0]), key_of(cells[0], effect.metric))
    if known.mean is None or known.sd is None:
        return None
    shift = effect.mean - known.mean
    design = Design(known.sd, known.n, cells[0].n_seeds, metrics[0].margin)
    in_sds = shift / known.sd if known.sd else math.copysign(math.inf, shift)
    return Caught(effect.fault, effect.cell, effect.metric, shift, in_sds, design.alarm_rate(shift, alpha))


def power_table(rows: Sequence[Caught]) -> Table:
    """Return a row for each planted fault and cell; the notes name the faults without a row."""
    shown = [
        (row.fault, row.cell, row.metric, f"{row.shift:+.3g}", f"{row.in_sds:+.1f}", f"{row.power:.1%}") for row in rows
    ]
    notes = [f"{name}: always caught, by the exact check '{check}'" for name, check in EXACTLY_CAUGHT.items()]
    unmeasured = sorted(FAULTS.keys() - EXACTLY_CAUGHT.keys() - {row.fault for row in rows})
    notes += [f"{name}: not measured yet; python -m benchmarks.power {name} --save does" for name in unmeasured]
    return Table("gate_power", "How likely the gate catches planted faults", CAPTION, COLUMNS, shown, notes)
