"""The statistical checks of the gate: is each fresh mean inside the reference's prediction interval?

A waiver can allow seeds of a cell to diverge: it names the reference seeds that diverged. Then the gate compares the
means of the seeds that did not diverge, and checks separately that fresh seeds do not diverge more often than the
reference's. If a reference seed diverged without a waiver, the metrics of its cell are `missing`.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from bench.core.records import Record
from bench.judge.gate.checks import FAIL, MISSING, PASS, WAIVED, GateCheck, MetricCheck, MetricShift, State, excuse
from bench.judge.gate.config import Gate, GatedCell, GatedMetric, Waiver
from bench.judge.gate.samples import Folder, fresh_records, key_of
from bench.judge.samples import Sample, metrics_of
from bench.judge.stats.gating import Design, DivergenceCounts
from bench.judge.stats.prediction import holm


@dataclass(frozen=True)
class Divergence:
    """The diverged seeds of a cell that has a waiver for them."""

    waiver: Waiver
    counts: DivergenceCounts
    is_late: bool  # the waiver has ended

    @property
    def name(self) -> str:
        """Return the name of the check."""
        return f"diverged seeds {self.waiver.cell}"

    @property
    def is_needed(self) -> bool:
        """Return whether the waiver is needed."""
        return self.counts.of_reference + self.counts.of_fresh > 0


@dataclass(frozen=True)
class _Pair:
    """One metric of one cell, in the reference and in the fresh run."""

    cell: GatedCell
    metric: GatedMetric
    reference: Sample
    fresh: Sample
    n_diverged: int  # fresh seeds that diverged and are covered by a waiver
    problem: str  # why the reference cannot be used, or ''

    @property
    def name(self) -> str:
        return f"{self.cell.name} {self.metric.key}"

    @property
    def is_testable(self) -> bool:
        return not self.problem and self.fresh.gap is None and self.fresh.n > 0 and not self.n_missing

    @property
    def n_missing(self) -> int:
        return self.cell.n_seeds - self.n_diverged - self.fresh.n

    @property
    def design(self) -> Design:
        assert self.reference.sd is not None, "a testable pair has at least two reference seeds"
        return Design(self.reference.sd, self.reference.n, self.fresh.n, self.metric.margin)

    @property
    def means(self) -> tuple[float, float]:
        assert self.reference.mean is not None
        assert self.fresh.mean is not None
        return self.reference.mean, self.fresh.mean

    @property
    def p_value(self) -> float:
        reference, fresh = self.means
        return self.design.p_value(fresh - reference)


def divergences(gate: Gate, reference: Folder, fresh: Folder, today: datetime.date) -> list[Divergence]:
    """Return the diverged seeds of each cell with a waiver for them, even if the waiver has ended."""
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
    """Check every gated metric and the diverged seeds. Holm's procedure adjusts the p-values over all these checks."""
    pairs = [pair for cell in gate.cells for pair in _pairs(gate, cell, reference.cell(cell), fresh, today)]
    p_values = {pair.name: pair.p_value for pair in pairs if pair.is_testable}
    p_values |= {found.name: found.counts.p_value for found in diverged if not found.is_late}
    adjusted = holm(p_values)
    metrics = [_judge(gate, pair, adjusted.get(pair.name), len(adjusted), today) for pair in pairs]
    return metrics, [_divergence_check(gate, found, adjusted.get(found.name, 1.0)) for found in diverged]


def _pairs(
    gate: Gate, cell: GatedCell, reference: Sequence[Record], fresh: Folder, today: datetime.date
) -> list[_Pair]:
    waiver = _waiver_of(gate, cell, today)
    named = waiver.diverged if waiver is not None else ()
    usual = [record for record in reference if not (_diverged(record) and record.seed in named)]
    every = fresh_records(gate, cell, fresh)
    mine = [record for record in every if waiver is None or not _diverged(record)]
    found = []
    for metric in cell.metrics:
        key = key_of(cell, metric.key)
        known = metrics_of(usual, key)
        problem = _unusable(gate, reference, known)
        found.append(_Pair(cell, metric, known, metrics_of(mine, key), len(every) - len(mine), problem))
    return found


def _waiver_of(gate: Gate, cell: GatedCell, today: datetime.date) -> Waiver | None:
    """Return the unexpired waiver that allows seeds of a cell to diverge, if there is one."""
    mine = (waiver for waiver in gate.waivers if waiver.diverged and waiver.cell == cell.name)
    return next((waiver for waiver in mine if today <= waiver.until), None)


def _unusable(gate: Gate, records: Sequence[Record], known: Sample) -> str:
    """Return why the reference's numbers cannot be used, or ''."""
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


def _judge(gate: Gate, pair: _Pair, p: float | None, n_tests: int, today: datetime.date) -> MetricCheck:
    """Check a metric, from its adjusted p-value; None if the pair is not testable."""
    shift = None
    if p is None:
        state, text = _not_testable(gate, pair, today)
    else:
        shift = MetricShift(pair.design, *pair.means, p, pair.design.smallest_shift(gate.alpha / n_tests))
        state, text = _compared(gate, pair, shift)
    return MetricCheck(pair.cell.name, pair.metric.key, pair.metric.margin, state, text, shift)


def _not_testable(gate: Gate, pair: _Pair, today: datetime.date) -> tuple[State, str]:
    if pair.problem:
        return MISSING, pair.problem
    if pair.n_diverged == pair.cell.n_seeds:
        return FAIL, "every fresh seed diverged"
    gap = pair.fresh.gap
    if gap is None:
        why = f"{pair.n_missing} of {pair.cell.n_seeds} fresh seeds missing"
        return excuse(gate, pair.cell.name, why, today)
    return excuse(gate, pair.cell.name, gap.reason, today, FAIL if gap.is_fault else MISSING)


def _compared(gate: Gate, pair: _Pair, shift: MetricShift) -> tuple[State, str]:
    outside, matters = shift.p_adjusted < gate.alpha, abs(shift.difference) > pair.metric.margin
    if outside and matters:
        return FAIL, f"outside its interval and beyond the margin, {pair.metric.reason}"
    words = ["beyond the interval, within the margin"] * outside
    words += [f"{pair.n_diverged} of {pair.cell.n_seeds} fresh seeds diverged"] * bool(pair.n_diverged)
    return PASS, "; ".join(words)


def _divergence_check(gate: Gate, found: Divergence, p_adjusted: float) -> GateCheck:
    """Check that an unexpired waiver covers the diverged seeds, and that fresh seeds do not diverge more often."""
    counts, waiver = found.counts, found.waiver
    text = f"{counts.of_fresh} of {counts.m} fresh seeds, {counts.of_reference} of {counts.k} of the reference"
    if not found.is_needed:
        return GateCheck(found.name, PASS, text)
    if found.is_late:
        return GateCheck(found.name, MISSING, f"{text} (their waiver ended on {waiver.until})")
    text += f", adjusted p {p_adjusted:.2g}"
    if counts.alarms(p_adjusted, gate.alpha):
        return GateCheck(found.name, FAIL, text)
    return GateCheck(found.name, WAIVED if counts.of_fresh else PASS, f"{text} (until {waiver.until}: {waiver.reason})")


def _diverged(record: Record) -> bool:
    return record.outcome == "diverged"
