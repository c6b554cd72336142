"""The report of the gate: checks, each with a state and a reason."""

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
    """A check that is not on the mean of a metric, such as an exact check."""

    name: str
    state: State
    text: str


@dataclass(frozen=True)
class MetricShift:
    """A fresh mean and the mean of the reference."""

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
    """The check of one gated metric of one cell."""

    cell: str
    key: str
    margin: float
    state: State
    text: str
    shift: MetricShift | None = None  # None if a number is missing


@dataclass(frozen=True)
class FalseAlarms:
    """How often the gate fails although the code has not changed."""

    by_metrics: float
    by_divergence: float  # if the share of the reference's seeds that diverged is the true one

    @property
    def rate(self) -> float:
        """Return how often it fails for either reason."""
        return 1 - (1 - self.by_metrics) * (1 - self.by_divergence)


@dataclass(frozen=True)
class GateReport:
    """All checks of a gate, and what its records come from."""

    gate: Gate
    metrics: tuple[MetricCheck, ...]
    checks: tuple[GateCheck, ...]
    made: Mapping[str, Sequence[Provenance]]  # what made the records of "reference" and of "fresh"
    unreadable: Sequence[str]  # why files cannot be trusted
    idle: Sequence[str]  # cells with a waiver that is no longer needed
    diverged: tuple[DivergenceCounts, ...] = ()  # of each cell with an unexpired waiver for diverged seeds
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
        """Return how often unchanged code fails; None if no metric could be judged."""
        designs = [check.shift.design for check in self.metrics if check.shift is not None]
        if not designs:
            return None
        n = len(designs) + len(self.diverged)
        return FalseAlarms(
            false_alarm_rate(designs, self.gate.alpha, n), false_alarm_rate(self.diverged, self.gate.alpha, n)
        )


def excuse(gate: Gate, cell: str, why: str, today: datetime.date, without: State = MISSING) -> tuple[State, str]:
    """Return WAIVED if an unexpired waiver covers this cell, otherwise the state `without`; both with their reason."""
    mine = [waiver for waiver in gate.waivers if waiver.cell == cell and not waiver.diverged]
    valid = [waiver for waiver in mine if today <= waiver.until]
    if valid:
        return WAIVED, f"{why} (waived until {valid[0].until}: {valid[0].reason})"
    late = f" (its waiver ended on {mine[0].until})" if mine else ""
    return without, why + late
