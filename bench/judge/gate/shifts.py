"""The statistical part of the gate: is each fresh mean inside the reference's prediction interval?

It also compares how often seeds diverge. The waiver of a cell names the reference's seeds that diverged; the gate
leaves out these, and no others. It compares the means of the seeds that did not diverge. How many fresh seeds may
diverge follows from the reference's share.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.core.records import Record
from bench.judge.gate.checks import FAIL, MISSING, PASS, WAIVED, GateCheck, MetricCheck, MetricShift, State, excuse
from bench.judge.gate.config import Gate, GatedCell, Waiver
from bench.judge.gate.samples import Folder, fresh_records, key_of
from bench.judge.samples import Sample, metrics_of
from bench.judge.stats.gating import Design, DivergenceCounts
from bench.judge.stats.prediction import holm


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
            lost = sum(map(_diverged, fresh_records(gate, cell, fresh)))
            counts = DivergenceCounts(sum(map(_diverged, old)), len(old), lost, cell.n_seeds)
            found.append(Divergence(waiver, counts, today > waiver.until))
    return found


def judge_shifts(
    gate: Gate, reference: Folder, fresh: Folder, diverged: Sequence[Divergence], today: datetime.date
) -> tuple[list[MetricCheck], list[GateCheck]]:
    """Check every gated metric and the diverged seeds; p-values are adjusted over all of them (Holm)."""
    checks = [
        check
        for cell in gate.cells
        for check in _compared(gate, cell, reference.cell(cell), fresh, _waiver_of(cell, diverged), today)
    ]
    p_values = {check.name: check.shift.p_value for check in checks if check.shift is not None}
    p_values |= {found.name: found.counts.p_value for found in diverged if not found.is_late}
    adjusted = holm(p_values)
    metrics = [_tested(gate, check, adjusted) for check in checks]
    return metrics, [_divergence_check(gate, found, adjusted.get(found.name, 1.0)) for found in diverged]


def _waiver_of(cell: GatedCell, diverged: Sequence[Divergence]) -> Waiver | None:
    """Return the waiver that lets seeds of a cell diverge; None if there is none or it has ended."""
    return next((one.waiver for one in diverged if one.waiver.cell == cell.name and not one.is_late), None)


def _compared(
    gate: Gate,
    cell: GatedCell,
    reference: Sequence[Record],
    fresh: Folder,
    waiver: Waiver | None,
    today: datetime.date,
) -> Iterator[MetricCheck]:
    """Yield a check of each metric of a cell: why it cannot be tested, or its shift, which is not tested yet."""
    named = waiver.diverged if waiver is not None else ()
    usual = [record for record in reference if not (_diverged(record) and record.seed in named)]
    every = fresh_records(gate, cell, fresh)
    mine = [record for record in every if waiver is None or not _diverged(record)]
    n_diverged = len(every) - len(mine)
    for metric in cell.metrics:
        key = key_of(cell, metric.key)
        before, after = metrics_of(usual, key), metrics_of(mine, key)
        n_missing = cell.n_seeds - n_diverged - after.n
        if problem := _unusable(gate, reference, before):
            yield MetricCheck(cell.name, metric, MISSING, problem)
        elif n_diverged == cell.n_seeds:
            yield MetricCheck(cell.name, metric, FAIL, "every fresh seed diverged")
        elif after.gap is not None:
            without: State = FAIL if after.gap.is_fault else MISSING
            yield MetricCheck(cell.name, metric, *excuse(gate, cell.name, after.gap.reason, today, without))
        elif n_missing:
            why = f"{n_missing} of {cell.n_seeds} fresh seeds missing"
            yield MetricCheck(cell.name, metric, *excuse(gate, cell.name, why, today))
        else:
            told = f"{n_diverged} of {cell.n_seeds} fresh seeds diverged" if n_diverged else ""
            yield MetricCheck(cell.name, metric, PASS, told, _shift(before, after, metric.margin))


def _shift(before: Sample, after: Sample, margin: float) -> MetricShift:
    assert before.sd is not None, "a reference has at least two seeds"
    assert before.mean is not None
    assert after.mean is not None
    return MetricShift(Design(before.sd, before.n, after.n, margin), before.mean, after.mean)


def _unusable(gate: Gate, records: Sequence[Record], known: Sample) -> str:
    """Return why a reference distribution cannot be used, or ''."""
    if not records:
        return "no reference records"
    both = [record for record in records if record.seed in gate.fresh_seeds]
    if both:
        return f"seed {both[0].seed} is a reference seed and a fresh seed; take fresh seeds that the reference lacks"
    if known.gap is not None:
        return f"the reference is incomplete: {known.gap.reason}"
    if known.n < gate.reference_seeds:
        return f"the reference has {known.n} of {gate.reference_seeds} seeds"
    return ""


def _tested(gate: Gate, check: MetricCheck, adjusted: Mapping[str, float]) -> MetricCheck:
    """Return the check with the outcome of its test; `adjusted` has the p-values of all tests."""
    shift, state, text = check.shift, check.state, check.text
    if shift is None:
        return check
    p = adjusted[check.name]
    if p < gate.alpha and abs(shift.difference) > check.metric.margin:
        state, text = FAIL, f"outside its interval and beyond the margin, {check.metric.reason}"
    elif p < gate.alpha:
        text = "beyond the interval, within the margin" + (f"; {text}" if text else "")
    smallest = shift.design.smallest_shift(gate.alpha / len(adjusted))
    return replace(check, state=state, text=text, shift=replace(shift, p_adjusted=p, smallest=smallest))


def _divergence_check(gate: Gate, found: Divergence, p_adjusted: float) -> GateCheck:
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
