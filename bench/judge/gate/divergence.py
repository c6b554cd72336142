"""Seeds that diverge: which ones a dated waiver excuses, and do fresh seeds diverge more often than the reference's?

The waiver of a cell names the reference's seeds that diverged; the gate leaves out these, and no others. It compares
the seeds that did not diverge. How many fresh seeds may diverge follows from the reference's share.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from bench.core.records import Record
from bench.judge.gate.checks import FAIL, MISSING, PASS, WAIVED, GateCheck
from bench.judge.gate.config import Gate, GatedCell, Waiver
from bench.judge.gate.samples import Folder, fresh_records
from bench.judge.stats.gating import DivergenceCounts


@dataclass(frozen=True)
class Divergence:
    """The diverged seeds of a cell with a waiver for them."""

    waiver: Waiver
    counts: DivergenceCounts
    is_late: bool

    @property
    def name(self) -> str:
        """Return the name of the check."""
        return f"diverged seeds {self.waiver.cell}"

    @property
    def any(self) -> bool:
        """Return whether the waiver is needed."""
        return self.counts.of_reference + self.counts.of_fresh > 0


def divergences(gate: Gate, reference: Folder, fresh: Folder, today: datetime.date) -> list[Divergence]:
    """Return what diverged in each cell that has a waiver for it, also where the waiver has ended."""
    found = []
    for waiver in gate.waivers:
        if waiver.diverged:
            cell = gate.cell(waiver.cell)
            old = [record for record in reference.cell(cell) if record.outcome in ("done", "diverged")]
            lost = len([record for record in fresh_records(gate, cell, fresh) if _diverged(record)])
            counts = DivergenceCounts(sum(map(_diverged, old)), len(old), lost, cell.n_seeds)
            found.append(Divergence(waiver, counts, today > waiver.until))
    return found


def waiver_of(gate: Gate, cell: GatedCell, today: datetime.date) -> Waiver | None:
    """Return the waiver that lets seeds of a cell diverge; None if there is none or it has ended."""
    valid = [waiver for waiver in gate.waivers if waiver.diverged and waiver.cell == cell.name]
    return next((waiver for waiver in valid if today <= waiver.until), None)


def of_reference(waiver: Waiver | None, records: Sequence[Record]) -> list[Record]:
    """Return the reference's records without the diverged seeds that a waiver names."""
    named = waiver.diverged if waiver is not None else ()
    return [record for record in records if not (_diverged(record) and record.seed in named)]


def of_fresh(waiver: Waiver | None, records: Sequence[Record]) -> list[Record]:
    """Return the fresh records; with a waiver, only those that did not diverge."""
    return [record for record in records if waiver is None or not _diverged(record)]


def divergence_check(gate: Gate, found: Divergence, p_adjusted: float) -> GateCheck:
    """Check that an unexpired waiver covers the diverged seeds, and that fresh seeds do not diverge more often."""
    counts, waiver = found.counts, found.waiver
    text = f"{counts.of_fresh} of {counts.m} fresh seeds, {counts.of_reference} of {counts.k} of the reference"
    if not found.any:
        return GateCheck(found.name, PASS, text)
    if found.is_late:
        return GateCheck(found.name, MISSING, f"{text} (their waiver ended on {waiver.until})")
    text += f", adjusted p {p_adjusted:.2g}"
    if counts.alarms(p_adjusted, gate.alpha):
        return GateCheck(found.name, FAIL, text)
    return GateCheck(found.name, WAIVED if counts.of_fresh else PASS, f"{text} (until {waiver.until}: {waiver.reason})")


def _diverged(record: Record) -> bool:
    return record.outcome == "diverged"
