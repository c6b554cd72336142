"""How surely does the gate catch each planted fault? Its measured effect beside the spread of the reference.

The faults are slips in the code, not edited recipes: `plan` says the same with and without one. The gate sees an edited
recipe at once, by its key. `python -m benchmarks.power FAULT --save` plants one and writes its effects to
`results/reference/planted.csv`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from bench.core.csv_rows import CsvRow, read_csv, refused
from bench.core.project import REFERENCE
from bench.core.records import Real
from bench.judge.gate.checks import Caught
from bench.judge.gate.config import Gate
from bench.judge.gate.samples import Folder, key_of, sample
from bench.judge.stats.gating import Design

EFFECTS = REFERENCE / "planted.csv"


FAULTS = {
    "kl-scale": "the KL weighs twice as much",
    "learning-rate": "the learning rate is twice as high",
    "dropout-on": "dropout stays on where it should be off",
    "wrong-split": "training on the test rows",
    "seed-ignored": "every seed draws what seed 0 draws",
}
"""What each fault does."""
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
