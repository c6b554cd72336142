"""What the gate found: checks, each with a state and its reason."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bench.core.records import Provenance
from bench.judge.gate.config import Gate
from bench.judge.stats.gating import Design, DivergenceCounts, false_alarm_rate

State = Literal["pass", "fail", "missing", "waived", "not comparable"]
PASS: Final = "pass"
FAIL: Final = "fail"
MISSING: Final = "missing"
WAIVED: Final = "waived"
NOT_COMPARABLE: Final = "not comparable"


@dataclass(frozen=True)
class GateCheck:
    """One check that compares no means, such as an exact check."""

    name: str
    state: State
    text: str


@dataclass(frozen=True)
class MetricShift:
    """A fresh mean beside the reference's."""

    design: Design
    reference_mean: float
    fresh_mean: float
    p_adjusted: float
    smallest: float  # the smallest shift that the gate sees with probability `stats.gating.POWER`

    @property
    def difference(self) -> float:
        """Return fresh mean minus reference mean."""
        return self.fresh_mean - self.reference_mean


@dataclass(frozen=True)
class MetricCheck:
    """One gated metric of one cell."""

    cell: str
    key: str
    margin: float
    state: State
    text: str
    shift: MetricShift | None = None  # None where a number is missing


@dataclass(frozen=True)
class FalseAlarms:
    """How often the gate fails unchanged code."""

    by_metrics: float
    by_divergence: float  # if the share of the reference's seeds that diverged is the true one

    @property
    def rate(self) -> float:
        """Return how often it fails by one or the other."""
        return 1 - (1 - self.by_metrics) * (1 - self.by_divergence)


@dataclass(frozen=True)
class GateReport:
    """All that a gate found."""

    gate: Gate
    metrics: tuple[MetricCheck, ...]
    checks: tuple[GateCheck, ...]
    made: Mapping[str, Sequence[Provenance]]  # of the records of the reference and of the fresh run
    unreadable: Sequence[str]  # why files cannot be trusted
    idle: Sequence[str]  # cells whose waiver is not needed any more
    diverged: tuple[DivergenceCounts, ...] = ()  # of each cell with a waiver for seeds that diverge
    seconds: float | None = None  # of the fresh run

    @property
    def states(self) -> list[State]:
        """Return the state of every check."""
        return [*(check.state for check in self.metrics), *(check.state for check in self.checks)]

    @property
    def passed(self) -> bool:
        """Return whether no check failed and nothing is missing."""
        return not {FAIL, MISSING} & {*self.states}

    @property
    def false_alarms(self) -> FalseAlarms | None:
        """Return how often unchanged code fails; None where no metric could be judged."""
        designs = [check.shift.design for check in self.metrics if check.shift is not None]
        if not designs:
            return None
        n = len(designs) + len(self.diverged)
        return FalseAlarms(
            false_alarm_rate(designs, self.gate.alpha, n), false_alarm_rate(self.diverged, self.gate.alpha, n)
        )


def excuse(gate: Gate, cell: str, why: str, today: datetime.date, without: State = MISSING) -> tuple[State, str]:
    """Return WAIVED while an unexpired waiver covers this cell, otherwise the state `without`, each with its reason."""
    mine = [waiver for waiver in gate.waivers if waiver.cell == cell and not waiver.diverged]
    valid = [waiver for waiver in mine if today <= waiver.until]
    if valid:
        return WAIVED, f"{why} (waived until {valid[0].until}: {valid[0].reason})"
    late = f" (its waiver ended on {mine[0].until})" if mine else ""
    return without, why + late
