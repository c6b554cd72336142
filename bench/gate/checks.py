"""What the gate says: one check after the other, each passed, failed, missing or waived, with its numbers or words."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Final, Literal

from bench.gate.config import Gate
from bench.stats.gating import Design, false_alarm_rate

State = Literal["pass", "fail", "missing", "waived", "not comparable"]
PASS: Final = "pass"
FAIL: Final = "fail"
MISSING: Final = "missing"
WAIVED: Final = "waived"
NOT_COMPARABLE: Final = "not comparable"


@dataclass(frozen=True)
class Check:
    """One statement that either holds or does not."""

    name: str
    state: State
    text: str


@dataclass(frozen=True)
class Shift:
    """A fresh mean beside the reference's."""

    design: Design
    reference_mean: float
    fresh_mean: float
    p_adjusted: float
    smallest: float  # shift that would be seen with probability `stats.gating.POWER`

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
    shift: Shift | None = None  # None where a number is missing


@dataclass(frozen=True)
class Report:
    """All that a gate found."""

    gate: Gate
    metrics: tuple[MetricCheck, ...]
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    seconds: float | None = None  # of the fresh run

    @property
    def states(self) -> list[State]:
        """Return the state of every check."""
        return [*(check.state for check in self.metrics), *(check.state for check in self.checks)]

    @property
    def passed(self) -> bool:
        """Return whether everything that was to be checked was, and held or was waived."""
        return not {FAIL, MISSING} & {*self.states}

    @property
    def false_alarm_rate(self) -> float | None:
        """Return how often unchanged code fails by the gated metrics; None where none could be judged."""
        designs = [check.shift.design for check in self.metrics if check.shift is not None]
        return false_alarm_rate(designs, self.gate.alpha) if designs else None


def excuse(gate: Gate, cell: str, why: str, today: datetime.date, without: State = MISSING) -> tuple[State, str]:
    """Return the state of a cell that gives no number: `without`, unless a waiver of the gate still names it."""
    mine = [waiver for waiver in gate.waivers if waiver.cell == cell]
    valid = [waiver for waiver in mine if today <= waiver.until]
    if valid:
        return WAIVED, f"{why} (waived until {valid[0].until}: {valid[0].reason})"
    late = f" (its waiver ended on {mine[0].until})" if mine else ""
    return without, why + late
