"""The statistical part of the gate: is each fresh mean inside the reference's prediction interval?"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from bench.core.records import Record
from bench.judge.gate.checks import FAIL, MISSING, PASS, GateCheck, MetricCheck, MetricShift, State, excuse
from bench.judge.gate.config import Gate, GatedCell, GatedMetric
from bench.judge.gate.divergence import Divergence, divergence_check, of_fresh, of_reference, waiver_of
from bench.judge.gate.samples import Folder, fresh_records, key_of, of_seeds, sample
from bench.judge.samples import Sample
from bench.judge.stats.gating import Design
from bench.judge.stats.prediction import HolmStep, holm


@dataclass(frozen=True)
class _Pair:
    """One metric of one cell: what the reference has, what the fresh run has."""

    cell: GatedCell
    metric: GatedMetric
    reference: Sample
    fresh: Sample
    n_diverged: int  # fresh seeds that diverged, where a waiver lets them
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
    def difference(self) -> float:
        assert self.fresh.mean is not None
        assert self.reference.mean is not None
        return self.fresh.mean - self.reference.mean


def judge_shifts(
    gate: Gate, reference: Folder, fresh: Folder, diverged: Sequence[Divergence], today: datetime.date
) -> tuple[list[MetricCheck], list[GateCheck]]:
    """Check every gated metric and the diverged seeds; p-values are adjusted over all of them (Holm)."""
    pairs = [pair for cell in gate.cells for pair in _pairs(gate, cell, reference.cell(cell), fresh, today)]
    p_values = {pair.name: pair.design.p_value(pair.difference) for pair in pairs if pair.is_testable}
    p_values |= {found.name: found.counts.p_value for found in diverged if not found.is_late}
    steps = holm(p_values)
    adjusted = {name: step.adjust(p_values[name]) for name, step in steps.items()}
    metrics = [_judge(gate, pair, steps.get(pair.name), len(steps), today) for pair in pairs]
    return metrics, [divergence_check(gate, found, adjusted.get(found.name, 1.0)) for found in diverged]


def _pairs(
    gate: Gate, cell: GatedCell, reference: Sequence[Record], fresh: Folder, today: datetime.date
) -> list[_Pair]:
    waiver = waiver_of(gate, cell, today)
    every = fresh_records(gate, cell, fresh)
    mine = of_fresh(waiver, every)
    found = []
    for metric in cell.metrics:
        key = key_of(cell, metric.key)
        known = sample(of_reference(waiver, reference), key)
        problem = _unusable(gate, reference, known)
        found.append(_Pair(cell, metric, known, sample(mine, key), len(every) - len(mine), problem))
    return found


def _unusable(gate: Gate, records: Sequence[Record], known: Sample) -> str:
    """Return why a reference distribution cannot be used, or ''."""
    if not records:
        return "no reference records"
    both = of_seeds(records, gate.fresh_seeds)
    if both:
        return f"seed {both[0].seed} is a reference seed and a fresh seed; take fresh seeds that the reference lacks"
    if known.gap is not None:
        return f"the reference is incomplete: {known.gap.reason}"
    if known.n < gate.reference_seeds:
        return f"the reference has {known.n} of {gate.reference_seeds} seeds"
    return ""


def _judge(gate: Gate, pair: _Pair, step: HolmStep | None, n_tests: int, today: datetime.date) -> MetricCheck:
    def check(state: State, text: str, shift: MetricShift | None = None) -> MetricCheck:
        return MetricCheck(pair.cell.name, pair.metric.key, pair.metric.margin, state, text, shift)

    if pair.problem:
        return check(MISSING, pair.problem)
    gap = pair.fresh.gap
    if pair.n_diverged == pair.cell.n_seeds:
        return check(FAIL, "every fresh seed diverged")
    if gap is None and pair.n_missing:
        return check(
            *excuse(gate, pair.cell.name, f"{pair.n_missing} of {pair.cell.n_seeds} fresh seeds missing", today)
        )
    if gap is not None:
        without: State = FAIL if gap.is_fault else MISSING
        return check(*excuse(gate, pair.cell.name, gap.reason, today, without))
    assert step is not None
    assert pair.reference.mean is not None
    assert pair.fresh.mean is not None
    design = pair.design
    p = step.adjust(design.p_value(pair.difference))
    shift = MetricShift(design, pair.reference.mean, pair.fresh.mean, p, design.smallest_shift(gate.alpha / n_tests))
    outside, matters = p < gate.alpha, abs(pair.difference) > pair.metric.margin
    if outside and matters:
        return check(FAIL, f"outside its interval and beyond the margin, {pair.metric.reason}", shift)
    words = ["beyond the interval, within the margin"] * outside
    words += [f"{pair.n_diverged} of {pair.cell.n_seeds} fresh seeds diverged"] * bool(pair.n_diverged)
    return check(PASS, "; ".join(words), shift)
